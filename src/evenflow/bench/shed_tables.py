"""Feasible input tables in numbers: figures 10 (a), 13, 14 (b) and 15 and table 3 of Staying FIT.

Functions of networks that give plain data; a benchmark chooses the networks and prints. The paper
prints the sizes of table 3, that eight inputs at 10 % took about an hour, and that moving 24 units
of load in figure 15 (c) needs 8 % of the entries at least; all else it shows as curves only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.bench.shed_networks import highest_rates
from evenflow.errors import InternalError
from evenflow.shed.check import Checker
from evenflow.shed.fit.central import FitIndex, c_fit
from evenflow.shed.fit.exchange.change import change_of
from evenflow.shed.fit.exchange.entries import Entries, entries_of
from evenflow.shed.fit.tree import MOST_ENTRIES
from evenflow.shed.linear.exact import Exact
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from evenflow.shed.fit.part import Part
    from evenflow.shed.network import Network

PAPER_ENTRIES = {2: 46, 4: 984, 8: 42472}
"""Table 3, by number of inputs, at 10 %."""
PAPER_BYTES = {2: 52, 4: 96, 8: 184}
PAPER_SECONDS_8_INPUTS = 3600.0
"""Section 8.2.4: about an hour."""
PAPER_LEAST_SHARE_MOVED_24 = 0.08
"""Section 8.2.5, figure 15 (c)."""

Case = dict[str, Any]


def planning(
    network: Network,
    epsilon: float,
    *,
    merge: bool = False,
    most_entries: int = MOST_ENTRIES,
    times: float = 2.0,
    highest: Mapping[str, float] | None = None,
) -> tuple[Case, FitIndex]:
    """Plan, and say how long it took: figures 10 (a), 13 and 14 (b), table 3.

    Args:
        network: Of the experiment.
        epsilon: What may be lost.
        merge: Whether inputs that are alike are planned as one, which the paper does not do.
        most_entries: Of a table.
        times: How many times the rate that an input alone could have is planned for.
        highest: The rates to plan for instead.
    """
    program = program_of(network)
    largest = program.rate_vector(highest or highest_rates(network, times))
    began = time.perf_counter()
    index = c_fit(program, largest, epsilon, merge=merge, most_entries=most_entries)
    seconds = time.perf_counter() - began
    case = {
        "inputs": len(program.inputs),
        "epsilon": epsilon,
        "merged": merge,
        "seconds": seconds,
        "entries": index.entries,
        "bytes_per_entry": 8 * (len(index.planned.inputs) + 1),
        "bound": 1.0 - index.kept,
        "trials": sum(len(tree.trials) for tree in index.trees),
        "paper_entries": PAPER_ENTRIES.get(len(program.inputs)) if epsilon == 0.1 else None,
    }
    return case, index


def worst_error(index: FitIndex, count: int, seed: int = 1) -> Case:
    """Return what plans miss at random rates that bring the fullest node to 1.0 to 1.3.

    Optima are those of `exact`. What plans bring is what the independent check says.

    Raises:
        InternalError: A plan does not fit: it would look better than it is.
    """
    program = index.program
    exact, checker = Exact(program.network), Checker(program.network)
    draw = np.random.default_rng(seed)
    inputs = len(program.inputs)
    errors, micros = [], []
    for _ in range(count):
        rates = draw.random(inputs) * draw.choice([0.02, 1.0, 1.0], inputs)
        rates *= draw.uniform(1.0, 1.3) / (program.unit_load @ rates / program.capacity).max()
        began = time.perf_counter()
        flows = index.select(rates).flows
        micros.append(1e6 * (time.perf_counter() - began))
        given = dict(zip(program.inputs, rates.tolist(), strict=True))
        plan = checker.plan_of(given, program.keep(flows, rates), "c-fit")
        for fault in checker.faults(plan):
            raise InternalError(f"c-fit: {fault}")
        errors.append(1.0 - plan.objective / exact.plan(given).objective)
    return {
        "rates": count,
        "worst_error": max(errors),
        "mean_error": float(np.mean(errors)),
        "select_microseconds_median": float(np.median(micros)),
    }


def table_sizes(
    networks: Mapping[str, Network],
    epsilons: Iterable[float],
    highest: Mapping[str, float] | None = None,
) -> list[Case]:
    """Return entries by load of the network and epsilon: figure 15 (a).

    With the same highest rates for all, more of them are feasible the less a network costs.
    """
    return [
        {"network": name, **planning(network, epsilon, highest=highest)[0]}
        for name, network in networks.items()
        for epsilon in epsilons
    ]


def entries_after_change(
    before: Network, after: Network, child: str, tolerances: Iterable[float], epsilon: float = 0.05
) -> list[Case]:
    """Return the share of a child's new entries that its parent must be sent.

    Figure 15 (b) for a changed selectivity, figure 15 (c) for load that moved between neighbours.

    Args:
        before: The network that the parent's table was made for.
        after: The network as it is now.
        child: The node whose table changes.
        tolerances: Share of a score by which the parent may be wrong.
        epsilon: Of the tables.
    """
    _, old, _ = _table(before, child, epsilon)
    part, new, seconds = _table(after, child, epsilon)
    cases = []
    for tolerance in tolerances:
        sent = change_of(part, old, new, tolerance).sent
        cases.append(
            {
                "tolerance": tolerance,
                "entries": len(new),
                "sent": len(sent),
                "share": len(sent) / len(new),
                "seconds": seconds,
            }
        )
    return cases


def _table(network: Network, node: str, epsilon: float) -> tuple[Part, Entries, float]:
    case, index = planning(network, epsilon)
    (tree,) = index.trees
    return index.parts[node], entries_of(tree.tables[node]), case["seconds"]
