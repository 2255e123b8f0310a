"""What given gates come to, also where a node stays overloaded.

An overloaded node serves its operators fairly, one tuple in turn (section 1.1): each of them
processes the same number of tuples per second, or all that come to it if those are fewer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.errors import NetworkError
from evenflow.shed.propagate import Propagation, checked_rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.network import Network
    from evenflow.shed.propagate import Spread

TOLERANCE = 1e-9
"""How much of its capacity a load may be above it, for rounding."""

SWEEPS = 100
"""Nodes that feed one another in a circle are settled by going round this often."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a network does with rates and gates."""

    objective: float
    load: Mapping[str, float]
    """What comes to each node; above its capacity if it is overloaded."""
    throughput: Mapping[str, float]
    output: Mapping[str, float]
    """Tuples per second out of each operator."""
    overloaded: tuple[str, ...]

    def report(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "objective": self.objective,
            "load": dict(self.load),
            "throughput": dict(self.throughput),
            "output": dict(self.output),
            "overloaded": list(self.overloaded),
        }


def evaluate(network: Network, rates: Mapping[str, float], keep: Mapping[str, float]) -> Outcome:
    """Return loads and throughputs. Gates may stand on any arc; those not given are open.

    Raises:
        NetworkError: A rate or a gate is wrong.
    """
    return _Evaluation(network, checked_rates(network, rates), keep).outcome()


class _Evaluation:
    """Finds how many tuples per second the operators of each overloaded node get."""

    def __init__(
        self, network: Network, rates: Mapping[str, float], keep: Mapping[str, float]
    ) -> None:
        self._network = network
        self._rates = rates
        self._propagation = Propagation(network)
        self._kept = self._propagation.arc_fractions(keep)
        self._capacity = [node.capacity for node in network.nodes.values()]

    def outcome(self) -> Outcome:
        limits = [math.inf] * len(self._capacity)
        open_ = self._propagation.limited(self._rates, self._kept, limits)
        if not all(map(math.isfinite, (*open_.load, *open_.output))):
            raise NetworkError("number.invalid", "are too large to reckon with", ("rates",))
        for _ in range(SWEEPS):
            before = list(limits)
            for node in self._node_order():
                limits[node] = self._fair(node, limits)
            if limits == before:
                break
        spread = self._propagation.limited(self._rates, self._kept, limits)
        names = list(self._network.nodes)
        queries = self._network.queries
        throughput = dict(zip(queries, spread.throughput, strict=True))
        output = dict(zip(self._propagation.streams, spread.output, strict=True))
        return Outcome(
            objective=sum(queries[name].weight * rate for name, rate in throughput.items()),
            load=dict(zip(names, spread.load, strict=True)),
            throughput=throughput,
            output={name: output[name] for name in self._network.operators},
            overloaded=tuple(
                name
                for name, load, capacity in zip(names, spread.load, self._capacity, strict=True)
                if load > capacity * (1 + TOLERANCE)
            ),
        )

    def _node_order(self) -> list[int]:
        """Return nodes by the first operator on them: mostly each after those that feed it."""
        names = list(self._network.nodes)
        used = dict.fromkeys(self._network.operators[name].node for name in self._network.order)
        return [names.index(name) for name in used]

    def _fair(self, node: int, limits: list[float]) -> float:
        """Return the greatest limit at which a node does not work more than it can."""

        def spread(limit: float) -> Spread:
            tried = [limit if index == node else each for index, each in enumerate(limits)]
            return self._propagation.limited(self._rates, self._kept, tried)

        capacity = self._capacity[node]
        without = spread(math.inf)
        if without.work[node] <= capacity * (1 + TOLERANCE):
            return math.inf
        # What comes to an operator is at most what all inputs and operators give together.
        low, high = (
            0.0,
            sum(without.output)
            * max(len(each.inputs) for each in self._network.operators.values()),
        )
        while (middle := (low + high) / 2) not in (low, high):
            if spread(middle).work[node] <= capacity:
                low = middle
            else:
                high = middle
        return low
