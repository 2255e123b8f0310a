"""Whether a plan keeps its constraints, found from first principles, whoever made the plan."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING

from evenflow.shed.gate import network_gates
from evenflow.shed.plan import SheddingPlan
from evenflow.shed.propagate import Propagation, checked_rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from evenflow.shed.network import Network

TOLERANCE = 1e-9
"""Relative, for rounding: of a capacity, a floor, a total."""


class Checker:
    """Checks many plans of one network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._propagation = Propagation(network)
        self._gates = {gate.name for gate in network_gates(network)}
        # In the order in which programs give fractions.
        self._gate_places = self._propagation.places_of(
            gate.name for gate in network_gates(network)
        )
        self._capacities = [(name, node.capacity) for name, node in network.nodes.items()]
        self._most = [(name, most * (1 + TOLERANCE)) for name, most in self._capacities]
        self._nodes, self._queries = tuple(network.nodes), tuple(network.queries)
        self._weights = [float(query.weight) for query in network.queries.values()]
        self._floors = [
            (position, name, query.floor)
            for position, (name, query) in enumerate(network.queries.items())
            if query.floor > 0
        ]

    def faults(self, plan: SheddingPlan) -> tuple[str, ...]:
        """Return every rule that a plan breaks; nothing if it may be used."""
        return tuple(self._faults(plan))

    def holds(self, plan: SheddingPlan) -> bool:
        """Whether a plan that was told by `told` keeps capacities and floors."""
        load = plan.load
        for name, most in self._most:
            # Not "above": what is no number is no load that fits.
            if not load[name] <= most:
                return False
        return next(self.below(plan.rates, plan.throughput), None) is None

    def told(
        self, rates: Mapping[str, float], keep: Mapping[str, float]
    ) -> tuple[float, dict[str, float], dict[str, float]]:
        """Return objective, loads and throughputs of gates, as a plan tells them."""
        return self._told(rates, self._propagation.arc_fractions(keep))

    def plan_of(
        self,
        rates: Mapping[str, float],
        keep: Mapping[str, float],
        method: str,
        number: int | str | None = None,
        reason: str | None = None,
    ) -> SheddingPlan:
        """Return gates as a plan, with what comes of them; see `SheddingPlan` for the others."""
        objective, load, throughput = self.told(rates, keep)
        return SheddingPlan(
            rates=rates,
            keep=keep,
            objective=objective,
            load=load,
            throughput=throughput,
            method=method,
            plan=number,
            reason=reason,
        )

    def told_quickly(
        self, rates: Mapping[str, float], keep: Mapping[str, float]
    ) -> tuple[float, dict[str, float], dict[str, float]]:
        """Return the same for all gates of the network in their order, each a fraction."""
        kept = self._propagation.fractions_at(self._gate_places, keep.values())
        return self._told(rates, kept)

    def _told(
        self, rates: Mapping[str, float], kept: Sequence[float]
    ) -> tuple[float, dict[str, float], dict[str, float]]:
        load, _, throughput, _ = self._propagation.spread(rates, kept)
        return (
            sum(map(mul, self._weights, throughput)),
            dict(zip(self._nodes, load, strict=True)),
            dict(zip(self._queries, throughput, strict=True)),
        )

    def broken(self, load: Mapping[str, float]) -> Iterator[str]:
        """Return nodes that are overloaded."""
        for name, capacity in self._capacities:
            if not load[name] <= capacity * (1 + TOLERANCE):
                yield f"node {name} has load {load[name]:g}, its capacity is {capacity:g}"

    def below(self, rates: Mapping[str, float], throughput: Mapping[str, float]) -> Iterator[str]:
        """Return queries that are below their floors."""
        if not self._floors:
            return
        full = self._propagation.spread(rates, self._propagation.arc_fractions({})).throughput
        for position, name, floor in self._floors:
            wanted = floor * full[position]
            if not throughput[name] >= wanted * (1 - TOLERANCE):
                yield f"query {name} gets {throughput[name]:g}, its floor is {wanted:g}"

    def _faults(self, plan: SheddingPlan) -> Iterator[str]:
        rates = checked_rates(self._network, plan.rates)
        if set(plan.keep) != self._gates:
            yield "its gates are not those of the network"
            return
        objective, load, throughput = self.told(rates, plan.keep)
        yield from self.broken(load)
        yield from self.below(rates, throughput)
        told = {"objective": plan.objective, **plan.load, **plan.throughput}
        found = {"objective": objective, **load, **throughput}
        for name, value in found.items():
            if not abs(value - told.get(name, -1.0)) <= TOLERANCE * max(1.0, abs(value)):
                yield f"it tells {told.get(name)} for {name}, which is {value:g}"


def check(network: Network, plan: SheddingPlan) -> tuple[str, ...]:
    """Return every rule that a plan breaks; nothing if it may be used.

    Raises:
        NetworkError: Its rates or gates are not of this network, or are no fractions.
    """
    return Checker(network).faults(plan)
