"""Where tuples may be dropped: gates on input arcs and on the arcs of splits (section 3.2).

Arcs that leave one operator and meet again downstream are one branch, and share one gate: to drop
on one side of a join or union of a stream with itself would not give a subset of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.shed.dag import joined
from evenflow.shed.element import Arc, OperatorKind

if TYPE_CHECKING:
    from evenflow.shed.network import Network


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The point on an arc where tuples are dropped."""

    name: str
    """`in1` for an input arc; `in1->a1`, `a1->b1`, `a1->q1` for an arc of a split; `a1->b1+c1` for
    arcs that meet again, beside another branch."""
    producer: str
    """The input stream or operator whose tuples come to it."""
    arcs: tuple[Arc, ...]
    on_input: bool
    open: bool
    """It must not drop anything: an operator behind it says `shed: never`."""
    windows: bool
    """It drops whole windows, because an aggregate stands behind it."""


def all_gates(network: Network) -> tuple[Gate, ...]:
    """Return gates in the order of the network, those that must stay open included."""
    return network.gates


def find_gates(network: Network) -> tuple[Gate, ...]:
    """Look for the gates of a network, which keeps them."""
    inputs = set(network.inputs)
    found = []
    for producer in (*network.inputs, *network.order):
        branches = joined(network.arcs_from[producer], lambda arc: network.reach[arc.consumer])
        if producer in inputs or len(branches) > 1:
            found += [_gate(network, producer, branch, len(branches)) for branch in branches]
    return tuple(found)


def network_gates(network: Network) -> tuple[Gate, ...]:
    """Return the gates that may drop."""
    return tuple(gate for gate in all_gates(network) if not gate.open)


def _gate(network: Network, producer: str, branch: list[Arc], branches: int) -> Gate:
    behind = frozenset[str]().union(*(network.reach[arc.consumer] for arc in branch))
    operators = [network.operators[name] for name in behind if name in network.operators]
    consumers = "+".join(dict.fromkeys(arc.consumer for arc in branch))
    return Gate(
        name=producer if branches == 1 else f"{producer}->{consumers}",
        producer=producer,
        arcs=tuple(branch),
        on_input=producer not in network.operators,
        open=any(each.never for each in operators),
        windows=any(each.kind is OperatorKind.AGGREGATE for each in operators),
    )
