"""What flows cost and bring, as the linear program of section 3.

The paper's variables are fractions, so that the input rates stand in every coefficient. Here they
are flows: tuples per second behind a gate. A prefix variable of section 3.2 is a flow divided by
what would arrive there without drops. Rates then appear on right-hand sides only:

    maximise    value . f
    subject to  load f            <= capacity        (1), (4), (9)
                f - arriving f    <= 0               flows behind splits: (6), (7)
                throughput f      >= floor * full    floors
                0 <= f <= rate                       flows behind input arcs: (2), (5), (10)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import NetworkError
from evenflow.shed.gate import Gate, all_gates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from evenflow.shed.element import Arc
    from evenflow.shed.network import Network

    Numbers = NDArray[np.float64]

ROUNDING = 1e-12
"""A fraction this near to 1 is meant to be that. So little of a flow is nothing: of what comes, or
of what fills a node where far more comes than fits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A network as matrices. Rows and columns are in the order of the tuples of names."""

    network: Network
    gates: tuple[Gate, ...]
    """One flow each: gates on input arcs, also those that must stay open, and gates of splits."""
    inputs: tuple[str, ...]
    nodes: tuple[str, ...]
    queries: tuple[str, ...]
    capacity: Numbers
    """By node."""
    load: Numbers
    """Node by gate: load that one tuple per second behind the gate makes before other gates."""
    throughput: Numbers
    """Query by gate: tuples per second that come out for it, without passing another gate."""
    value: Numbers
    """By gate: weighted throughput."""
    arriving: Numbers
    """Gate by gate: what comes to a gate of a split for one tuple per second behind another."""
    supply: Numbers
    """Gate by input: 1 where the gate is on an arc of the input stream."""
    floor: Numbers
    """By query."""
    unit_flow: Numbers
    """Gate by input: flow behind each gate for one tuple per second, all gates open."""
    unit_load: Numbers
    """Node by input: load of one tuple per second of an input, all gates open."""
    unit_throughput: Numbers
    """Query by input: total selectivity, all gates open."""

    @cached_property
    def opened(self) -> Numbers:
        """Gate by gate: flow behind each for one tuple per second behind another, rest open."""
        return _without_drops(self.arriving, np.eye(len(self.gates)))

    @cached_property
    def filling(self) -> Numbers:
        """By gate: tuples per second behind it that fill a node, if the gates after it are open.

        What loads no node is measured by what comes to it.
        """
        room = np.where(self.capacity > 0, self.capacity, 1.0)
        shares = np.max(self.load @ self.opened / room[:, None], axis=0, initial=0.0)
        found = np.ones(len(self.gates))
        for i, share in enumerate(shares):
            come = float(self.arriving[i] @ found)
            found[i] = 1.0 / share if share > 0 else come if come > 0 else 1.0
        return found

    @cached_property
    def loads_nothing(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """By gate: what passes it loads no node, wherever it goes."""
        free: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.all(
            self.load @ self.opened <= 0.0, axis=0
        )
        return free

    @property
    def unit_value(self) -> Numbers:
        """By input: value of one tuple per second of it, all gates open."""
        worth: Numbers = self.value @ self.unit_flow
        return worth

    def rate_vector(self, rates: Mapping[str, float]) -> Numbers:
        """Return rates in the order of the inputs."""
        return np.array([rates[name] for name in self.inputs], dtype=np.float64)

    def fits(self, rates: Numbers) -> bool:
        """Whether no node is overloaded with all gates open."""
        return bool(np.all(self.unit_load @ rates <= self.capacity))

    def arrivals(self, flows: Numbers, rates: Numbers) -> Numbers:
        """Return what comes to each gate, given the flows behind all of them."""
        come: Numbers = self.supply.dot(rates) + self.arriving.dot(flows)
        return come

    def keep(self, flows: Numbers, rates: Numbers) -> dict[str, float]:
        """Return the fraction that each gate keeps of what comes to it; 1 where nothing does."""
        return self.fractions(
            flows.tolist(), self.arrivals(flows, rates).tolist(), self.unit_flow.dot(rates).tolist()
        )

    def fractions(
        self, flows: Sequence[float], arrivals: Sequence[float], undropped: Sequence[float]
    ) -> dict[str, float]:
        """Return the same, given what comes to each gate, and would without drops.

        Plain numbers: for a handful of gates numpy takes longer to begin than to compute.
        """
        found = {}
        for column, name, little in self._dropping:
            come, flow, open_ = arrivals[column], flows[column], undropped[column]
            # Of what would not come without drops either, there is nothing but rounding.
            if not (open_ > 0.0 and (come > little or come > open_ * ROUNDING)):
                found[name] = 1.0
            elif flow <= little and flow <= come * ROUNDING:
                found[name] = 0.0
            else:
                found[name] = 1.0 if flow > come * (1.0 - ROUNDING) else flow / come
        return found

    @cached_property
    def _dropping(self) -> tuple[tuple[int, str, float], ...]:
        """Column, name and so little of its flow that it is nothing, for each gate that drops."""
        little = (self.filling * ROUNDING).tolist()
        return tuple(
            (i, gate.name, little[i]) for i, gate in enumerate(self.gates) if not gate.open
        )


def program_of(network: Network) -> Program:
    """Return the linear program of a network. Work is proportional to arcs times gates.

    Raises:
        NetworkError: Selectivities multiply to more than a number can hold.
    """
    gates = tuple(gate for gate in all_gates(network) if gate.on_input or not gate.open)
    nodes, queries = tuple(network.nodes), tuple(network.queries)
    behind = {arc: column for column, gate in enumerate(gates) for arc in gate.arcs}
    unit = np.eye(len(gates))
    out: dict[str, Numbers] = {}
    load = np.zeros((len(nodes), len(gates)))

    def along(arc: Arc) -> Numbers:
        return unit[behind[arc]] if arc in behind else out[arc.producer]

    with np.errstate(over="ignore", invalid="ignore"):
        for name in network.order:
            operator = network.operators[name]
            come = [along(arc) for arc in network.arcs_into[name]]
            load[nodes.index(operator.node)] += operator.cost * np.sum(come, axis=0)
            out[name] = np.sum(
                [operator.gain(port) * each for port, each in enumerate(come)], axis=0
            )
        # A fragment that nobody asks for has no queries: rows there are none, columns there are.
        throughput = np.zeros((len(queries), len(gates)))
        for row, name in enumerate(queries):
            throughput[row] = along(network.arcs_into[name][0])
        arriving = np.array(
            [np.zeros(len(gates)) if g.on_input else out[g.producer] for g in gates]
        )
        supply = np.array([[float(g.producer == name) for name in network.inputs] for g in gates])
        unit_flow = _without_drops(arriving, supply)
        weights = np.array([network.queries[name].weight for name in queries])
        program = Program(
            network=network,
            gates=gates,
            inputs=network.inputs,
            nodes=nodes,
            queries=queries,
            capacity=np.array([network.nodes[name].capacity for name in nodes], dtype=np.float64),
            load=load,
            throughput=throughput,
            value=weights @ throughput,
            arriving=arriving,
            supply=supply,
            floor=np.array([network.queries[name].floor for name in queries], dtype=np.float64),
            unit_flow=unit_flow,
            unit_load=load @ unit_flow,
            unit_throughput=throughput @ unit_flow,
        )
    _check_finite(program)
    return program


def _without_drops(arriving: Numbers, own: Numbers) -> Numbers:
    # Gates stand in the order of the network, so that each needs only flows of earlier ones.
    flow = own.copy()
    for row in range(len(flow)):
        flow[row] += arriving[row] @ flow
    return flow


def _check_finite(program: Program) -> None:
    made = (program.unit_load, program.unit_throughput, program.unit_flow, program.unit_value)
    if not all(np.all(np.isfinite(each)) for each in made):
        raise NetworkError(
            "number.invalid", "costs and selectivities multiply to infinity", ("operators",)
        )
