"""Rates through a network, operator by operator: nothing of matrices, programs or solvers.

Plans are checked with this, so that a fault in the formulation of the linear program is found.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from evenflow.errors import NetworkError
from evenflow.shed.gate import all_gates
from evenflow.shed.network_fault import number_fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evenflow.shed.element import Arc
    from evenflow.shed.network import Network


class Spread(NamedTuple):
    """What rates become of in a network. In the order of the network's nodes and queries."""

    load: list[float]
    """Load that comes to each node, processed or not."""
    work: list[float]
    """Load of what each node processes."""
    throughput: list[float]
    output: list[float]
    """Tuples per second out of each of `Propagation.streams`."""


class Propagation:
    """A network, laid out for propagating rates many times."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._arcs = [arc for arcs in network.arcs_into.values() for arc in arcs]
        index = {arc: position for position, arc in enumerate(self._arcs)}
        self._places = _places(network, index)
        self.streams = (*network.inputs, *network.order)
        """Inputs, then operators, each after those that feed it."""
        stream = {name: position for position, name in enumerate(self.streams)}
        node = {name: position for position, name in enumerate(network.nodes)}
        self._steps = []
        for name in network.order:
            operator = network.operators[name]
            first, *more = (
                (stream[arc.producer], index[arc], operator.gain(arc.port))
                for arc in network.arcs_into[name]
            )
            self._steps.append((node[operator.node], operator.cost, *first, tuple(more)))
        self._outputs = [
            (stream[query.output], index[network.arcs_into[name][0]])
            for name, query in network.queries.items()
        ]

    def places_of(self, gates: Iterable[str]) -> list[list[int]]:
        """Return the arcs that gates stand on, for `fractions_at`."""
        return [self._places[name] for name in gates]

    def fractions_at(
        self, places: Sequence[Sequence[int]], fractions: Iterable[float]
    ) -> list[float]:
        """Return what `arc_fractions` does for gates that share no arc, without looking at them."""
        kept = [1.0] * len(self._arcs)
        for arcs, fraction in zip(places, fractions, strict=True):
            for arc in arcs:
                kept[arc] = fraction
        return kept

    def arc_fractions(self, keep: Mapping[str, float]) -> list[float]:
        """Return the fraction kept on every arc.

        Raises:
            NetworkError: A gate is on no arc of the network, or its fraction is not one.
        """
        kept = [1.0] * len(self._arcs)
        for name, fraction in keep.items():
            places = self._places.get(name)
            if places is None:
                raise NetworkError(
                    "gate.unknown",
                    f"there is no arc {name[:80]}",
                    ("keep",),
                    f"gates are {', '.join(gate.name for gate in all_gates(self._network))}",
                )
            if not (type(fraction) is float and 0.0 <= fraction <= 1.0):
                fault = number_fault(fraction, ("keep", name), most=1.0)
                if fault is not None:
                    raise fault
            for place in places:
                kept[place] *= fraction
        return kept

    def spread(self, rates: Mapping[str, float], kept: Sequence[float]) -> Spread:
        """Return what comes of rates if every node processes all that comes.

        Args:
            rates: Of all inputs.
            kept: From `arc_fractions`.
        """
        # Every plan passes here before it leaves: positions instead of names, one loop.
        output = [rates[name] for name in self._network.inputs]
        load = [0.0] * len(self._network.nodes)
        for node, cost, producer, arc, gain, more in self._steps:
            flow = output[producer] * kept[arc]
            made = flow * gain
            for producer, arc, gain in more:  # noqa: PLW2901  # the same for its other arcs
                added = output[producer] * kept[arc]
                flow += added
                made += added * gain
            load[node] += cost * flow
            output.append(made)
        return Spread(load, load, [output[i] * kept[arc] for i, arc in self._outputs], output)

    def limited(
        self, rates: Mapping[str, float], kept: Sequence[float], limits: Sequence[float]
    ) -> Spread:
        """Return what comes of rates if operators get to process no more than limits.

        Args:
            rates: Of all inputs.
            kept: From `arc_fractions`.
            limits: By node, how many tuples per second each of its operators that cost something
                gets to process.
        """
        output = [rates[name] for name in self._network.inputs]
        load = [0.0] * len(self._network.nodes)
        work = load.copy()
        for node, cost, producer, position, gain, more in self._steps:
            arcs = [(producer, position, gain), *more]
            flows = [output[stream] * kept[arc] for stream, arc, _ in arcs]
            come = sum(flows)
            load[node] += cost * come
            # What costs nothing waits for no turn.
            done = min(come, limits[node]) if cost > 0.0 else come
            work[node] += cost * done
            made = sum(flow * each for flow, (_, _, each) in zip(flows, arcs, strict=True))
            output.append(made * (done / come) if come > done else made)
        return Spread(load, work, [output[i] * kept[arc] for i, arc in self._outputs], output)


def _places(network: Network, index: Mapping[Arc, int]) -> dict[str, list[int]]:
    """Return positions of arcs by the names of gates, of single arcs and of inputs."""
    places: dict[str, list[int]] = {}
    for arc, position in index.items():
        places.setdefault(arc.name, []).append(position)
        if arc.producer not in network.operators:
            places.setdefault(arc.producer, []).append(position)
    for gate in all_gates(network):
        places[gate.name] = [index[arc] for arc in gate.arcs]
    return places


def checked_rates(
    network: Network, rates: Mapping[str, float], option: str = "rates"
) -> dict[str, float]:
    """Return the rates of all inputs, in their order.

    Args:
        network: Whose inputs they are.
        rates: By input.
        option: Where they come from.

    Raises:
        NetworkError: One is missing, unknown, negative, not finite, or too large to reckon with.
    """
    most = network.most_rate
    if len(rates) == len(network.inputs):
        found = {}
        for name in network.inputs:
            rate = rates.get(name)
            if not (type(rate) is float and 0.0 <= rate <= most < math.inf):
                break
            found[name] = rate
        else:
            return found
    for fault in rate_faults(network, rates, option):
        raise fault
    return {name: float(rates[name]) for name in network.inputs}


def rate_faults(
    network: Network, rates: Mapping[str, float], option: str
) -> Iterator[NetworkError]:
    """Return what is wrong with rates."""
    known = set(network.inputs)
    for name, rate in rates.items():
        if name not in known:
            yield NetworkError(
                "input.unknown",
                f"{name[:80]} is no input",
                (option,),
                f"inputs are {', '.join(network.inputs)}",
            )
        elif (fault := number_fault(rate, (option, name), most=network.most_rate)) is not None:
            yield fault
    for name in network.inputs:
        if name not in rates:
            yield NetworkError("rate.missing", "has no rate", (option, name))
