"""Cases of feasible input tables: `c-fit` in figures 10 (a), 13, 14 (b) and 15 and table 3.

Which networks, and our numbers next to those that the paper prints. `shed_tables` measures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evenflow.bench.shed_case import Case, case_of
from evenflow.bench.shed_networks import COSTS, by_inputs, fan_out, figure_9, highest_rates
from evenflow.bench.shed_tables import (
    PAPER_BYTES,
    PAPER_ENTRIES,
    PAPER_LEAST_SHARE_MOVED_24,
    PAPER_SECONDS_8_INPUTS,
    entries_after_change,
    planning,
    table_sizes,
    worst_error,
)
from evenflow.shed.fit.tree import MOST_ENTRIES

if TYPE_CHECKING:
    from evenflow.shed.network import Network

EPSILONS = (0.05, 0.1, 0.2, 0.3)
TOLERANCES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
LOADS = (1.0, 0.75, 0.5)
"""Figure 15 (a): substitutes for query loads that are not printed, as shares of (64, 32)."""
SELECTIVITIES = (0.95, 0.9, 0.8, 0.6)
"""Figure 15 (b): substitutes, of the first query's operator on the second server; 1.0 before."""
MOVED = (1, 4, 8, 16, 24)
"""Figure 15 (c): milliseconds that move from the first server to the second; 8 and 24 are named."""
BOUNDARY_RATES = 10_000
_MS = 1e-3


def figure_10a() -> list[Case]:
    """Plan generation by load distribution, at 5 %."""
    return [_planned("10", name, figure_9(name), 0.05, x=name, times=1.5) for name in COSTS]


def figure_13(quick: bool) -> list[Case]:
    """Plan generation by fan-out, at 1 %."""
    return [
        _planned("13", f"fan-out {1 << k}", fan_out(1 << k), 0.01, x=1 << k, times=1.5)
        for k in range(1, 5 if quick else 7)
    ]


def figure_14b(quick: bool) -> list[Case]:
    """Plan generation by epsilon for 2 and 4 inputs; table 3 has 8. Inputs are not merged."""
    # Four inputs below a tenth do not fit into a table of 100,000 entries.
    least = {2: 0.0, 4: 0.2 if quick else 0.1}
    return [
        _planned("14b", f"{inputs} inputs", by_inputs(inputs), epsilon, x=epsilon)
        for inputs, smallest in least.items()
        for epsilon in EPSILONS
        if epsilon >= smallest
    ]


def table_3(quick: bool) -> list[Case]:
    """Tables at 10 % and what plans miss at the boundary; for 8 inputs of the paper's size.

    With inputs that are alike merged, which is what `c-fit` does if it is not told otherwise, and
    without.
    """
    cases = []
    for inputs, entries in PAPER_ENTRIES.items():
        for merge in (False, True):
            most = entries if inputs == 8 and not merge else MOST_ENTRIES
            made, index = planning(by_inputs(inputs), 0.1, merge=merge, most_entries=most)
            count = BOUNDARY_RATES if inputs == 8 or not quick else BOUNDARY_RATES // 10
            paper = f"{entries} entries of {PAPER_BYTES[inputs]} bytes"
            hour = f", about {PAPER_SECONDS_8_INPUTS:.0f} s" if inputs == 8 else ""
            told = {key: made[key] for key in ("merged", "bytes_per_entry", "paper_entries")}
            cases.append(
                case_of(
                    "table 3",
                    f"{inputs} inputs",
                    method="c-fit, merged" if merge else "c-fit",
                    x=inputs,
                    seconds=made["seconds"],
                    plans=made["entries"],
                    error=made["bound"],
                    paper=paper + hour,
                    **told,
                    **worst_error(index, count),
                )
            )
    return cases


def figure_15() -> list[Case]:
    """Sizes of tables (a); the share to send after a selectivity (b) or load (c) changed."""
    highest = highest_rates(figure_9("b", min(LOADS)))
    sized = table_sizes(
        {f"({64 * load:g}, {32 * load:g})": figure_9("b", load) for load in LOADS},
        (0.02, *EPSILONS),
        highest=highest,
    )
    cases = [
        case_of(
            "15a",
            made["network"],
            method="c-fit",
            x=made["epsilon"],
            seconds=made["seconds"],
            plans=made["entries"],
            error=made["bound"],
        )
        for made in sized
    ]
    before = figure_9("b")
    for selectivity in SELECTIVITIES:
        after = _with(before, "b1", selectivity=selectivity)
        cases += _changed("15b", f"selectivity {selectivity:g}", before, after)
    for moved in MOVED:
        after = _with(before, "a1", cost=(64 - moved) * _MS)
        after = _with(after, "b1", cost=(32 + moved) * _MS)
        paper = f"at least {PAPER_LEAST_SHARE_MOVED_24:g}" if moved == 24 else None
        cases += _changed("15c", f"parent-to-child-{moved}", before, after, paper)
    return cases


def summary(cases: list[Case]) -> dict[str, Any]:
    """Return the figures that bars are set for: tables of four and eight inputs, none merged."""
    found = {
        case["x"]: case for case in cases if case["figure"] == "table 3" and not case["merged"]
    }
    four, eight = found.get(4, {}), found.get(8, {})
    return {
        "cfit_4_inputs_seconds": four.get("seconds"),
        "cfit_4_inputs_bound": four.get("error"),
        "cfit_4_inputs_worst_error": four.get("worst_error"),
        "cfit_8_inputs_seconds": eight.get("seconds"),
        "cfit_8_inputs_entries": eight.get("plans"),
        "cfit_8_inputs_bound": eight.get("error"),
        "cfit_8_inputs_worst_error": eight.get("worst_error"),
    }


def _planned(
    figure: str, name: str, network: Network, epsilon: float, *, x: Any, times: float = 2.0
) -> Case:
    made, _ = planning(network, epsilon, times=times)
    return case_of(
        figure,
        name,
        method="c-fit",
        x=x,
        seconds=made["seconds"],
        plans=made["entries"],
        lp_calls=0,
        error=made["bound"],
    )


def _changed(
    figure: str, name: str, before: Network, after: Network, paper: str | None = None
) -> list[Case]:
    return [
        case_of(
            figure,
            name,
            method="d-fit",
            x=made["tolerance"],
            seconds=made["seconds"],
            plans=made["entries"],
            paper=paper,
            sent=made["sent"],
            share=made["share"],
        )
        for made in entries_after_change(before, after, "B", TOLERANCES)
    ]


def _with(network: Network, operator: str, **changed: Any) -> Network:
    made = replace(network.operators[operator], **changed)
    return replace(network, operators={**network.operators, operator: made})
