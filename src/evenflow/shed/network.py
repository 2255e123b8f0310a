"""The network that planners see, right once it is there.

What may be dropped where is in `gate`, what it costs and brings in `program`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evenflow.errors import FileError
from evenflow.shed.dag import in_order, joined
from evenflow.shed.element import Arc, Node, Operator, OperatorKind, Query
from evenflow.shed.gate import Gate, find_gates
from evenflow.shed.network_fault import network_faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_FAULTS = 20
"""Told at once; whoever has more mends these first."""

MOST_TOTAL = 1e300
"""Far enough from what a number can hold for sums of sums."""

__all__ = ["Arc", "Network", "Node", "Operator", "OperatorKind", "Query"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """Everything that planners know of a flow.

    Raises:
        NetworkError: It has a fault.
        FileError: It has several, each of them a `NetworkError`.
    """

    nodes: Mapping[str, Node]
    operators: Mapping[str, Operator]
    queries: Mapping[str, Query]

    def __post_init__(self) -> None:
        faults = network_faults(self)
        if len(faults) == 1:
            raise faults[0]
        if faults:
            raise FileError(f"network: {len(faults)} faults", tuple(faults[:MAX_FAULTS]))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Input streams, in the order in which operators name them."""
        named = (name for operator in self.operators.values() for name in operator.inputs)
        return tuple(dict.fromkeys(name for name in named if name not in self.operators))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Operators, each after those that feed it."""
        return in_order({name: each.inputs for name, each in self.operators.items()})

    @cached_property
    def arcs_into(self) -> Mapping[str, tuple[Arc, ...]]:
        """Arcs by the operator or query they lead to, in the order of its inputs."""
        into = {
            name: tuple(Arc(producer, name, port) for port, producer in enumerate(each.inputs))
            for name, each in self.operators.items()
        }
        return into | {name: (Arc(each.output, name),) for name, each in self.queries.items()}

    @cached_property
    def arcs_from(self) -> Mapping[str, tuple[Arc, ...]]:
        """Arcs by the input stream or operator they come from."""
        found: dict[str, list[Arc]] = defaultdict(list)
        for arcs in self.arcs_into.values():
            for arc in arcs:
                found[arc.producer].append(arc)
        return {name: tuple(found[name]) for name in (*self.inputs, *self.operators)}

    @cached_property
    def reach(self) -> Mapping[str, frozenset[str]]:
        """Operators and queries that the tuples of each of them come to, itself included."""
        reached: dict[str, frozenset[str]] = {name: frozenset({name}) for name in self.queries}
        for name in (*reversed(self.order), *self.inputs):
            behind = (reached[arc.consumer] for arc in self.arcs_from[name])
            reached[name] = frozenset({name}).union(*behind)
        return reached

    @cached_property
    def most_rate(self) -> float:
        """Return the rate up to which every load and value is a number that can be held.

        Infinite if costs and selectivities alone are too large; `program_of` tells that.
        """
        made = dict.fromkeys(self.inputs, 1.0)
        total = float(len(made))
        for name in self.order:
            operator = self.operators[name]
            come = [made[each] for each in operator.inputs]
            made[name] = sum(operator.gain(port) * each for port, each in enumerate(come))
            total += operator.cost * sum(come) + made[name]
        total += sum(each.weight * made[each.output] for each in self.queries.values())
        return MOST_TOTAL / total if math.isfinite(total) else math.inf

    @cached_property
    def gates(self) -> tuple[Gate, ...]:
        """Gates in the order of the network, those that must stay open included."""
        return find_gates(self)

    @cached_property
    def fragments(self) -> tuple[Network, ...]:
        """Return parts that share no operator and no node: each can be planned by itself.

        A node without operators belongs to none of them.
        """
        groups = joined(
            self.operators,
            lambda name: {
                ("node", self.operators[name].node),
                *(("stream", each) for each in (name, *self.operators[name].inputs)),
            },
        )
        return (self,) if len(groups) == 1 else tuple(self._part(group) for group in groups)

    def _part(self, names: Sequence[str]) -> Network:
        operators = {name: self.operators[name] for name in names}
        nodes = {each.node for each in operators.values()}
        return _Part(
            nodes={name: each for name, each in self.nodes.items() if name in nodes},
            operators=operators,
            queries={k: each for k, each in self.queries.items() if each.output in operators},
        )


class _Part(Network):
    """A fragment of a network: right because that is, though it may have no queries."""

    def __post_init__(self) -> None:
        pass
