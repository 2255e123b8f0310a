"""Merging inputs that are alike, so that tables have fewer dimensions (section 8.2.4).

Two inputs are alike if they are processed apart from everything else, without splits, and a tuple
of one brings and costs on every node what a fixed number of tuples of the other does. No plan can
then gain by dropping more from one than from the other: they are planned as one stream, with one
fraction to keep. The bound stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.network import Network
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers, Program

_ALIKE = 1e-12
"""Relative difference at which columns of load and value count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merged:
    """A network with fewer inputs."""

    network: Network
    shares: Numbers
    """Input that is left by input: how many of its tuples one tuple stands for."""
    representative: dict[str, str]
    """Gate of an input that was merged, by name, to the gate whose fraction it takes."""


class Merging:
    """Rates of a network in, flows of it out, with the smaller network between them."""

    def __init__(self, program: Program) -> None:
        self.merged = merge_inputs(program)
        self.program = program_of(self.merged.network) if self.merged.representative else program
        inner = {gate.name: position for position, gate in enumerate(self.program.gates)}
        named = self.merged.representative
        together = {*named, *named.values()}
        self._alone = [
            (outer, inner[gate.name])
            for outer, gate in enumerate(program.gates)
            if gate.name not in together
        ]
        self._together = [
            (outer, inner[named.get(gate.name, gate.name)], program.inputs.index(gate.producer))
            for outer, gate in enumerate(program.gates)
            if gate.name in together
        ]

    def inner(self, rates: Numbers) -> Numbers:
        """Return the rates of the smaller network."""
        return self.merged.shares @ rates

    def outer(self, flows: Numbers, inner: Numbers, rates: Numbers) -> Numbers:
        """Return the flows by gate that flows of the smaller network mean."""
        if not self._together:
            return flows
        found = np.zeros(len(self._alone) + len(self._together))
        for outer, gate in self._alone:
            found[outer] = flows[gate]
        come = self.program.supply @ inner
        for outer, gate, source in self._together:
            found[outer] = rates[source] * flows[gate] / come[gate] if come[gate] > 0.0 else 0.0
        return found


def merge_inputs(program: Program) -> Merged:
    """Return the network without inputs that others can stand for."""
    network = program.network
    kept: list[tuple[int, int]] = []
    representative: dict[str, str] = {}
    factors = np.eye(len(program.inputs))
    gone: set[str] = set()
    for position, gate in enumerate(program.gates):
        source = program.inputs.index(gate.producer) if gate.on_input else -1
        if source < 0 or gate.name != gate.producer:
            continue
        chain = _chain(program, gate.producer)
        if chain is None:
            continue
        for other, its_source in kept:
            factor = _factor(program, position, other)
            if factor is not None:
                representative[gate.name] = program.gates[other].name
                factors[its_source, source] = factor
                gone |= chain
                break
        else:
            kept.append((position, source))
    smaller = _without(network, gone)
    rows = [program.inputs.index(name) for name in smaller.inputs]
    return Merged(network=smaller, shares=factors[rows], representative=representative)


def _chain(program: Program, source: str) -> set[str] | None:
    """Return what tuples of an input come to, if nothing else comes to it and it has no splits.

    A split counts even if nothing arrives at it, because of a selectivity of 0: it has gates.
    """
    network = program.network
    reached = set(network.reach[source]) - {source}
    for name in reached:
        if any(arc.producer not in {source, *reached} for arc in network.arcs_into[name]):
            return None
    return None if any(gate.producer in reached for gate in program.gates) else reached


def _factor(program: Program, one: int, other: int) -> float | None:
    """Return how many tuples of another input do what one tuple of an input does.

    Those without value are closed anyway, and theirs may be all queries that there are.
    """
    mine = np.concatenate([program.load[:, one], program.value[one : one + 1]])
    its = np.concatenate([program.load[:, other], program.value[other : other + 1]])
    if not (mine[-1] > 0.0 and its[-1] > 0.0):
        return None
    factor = float(mine.sum() / its.sum())
    return factor if np.allclose(mine, factor * its, rtol=_ALIKE, atol=0.0) else None


def _without(network: Network, gone: set[str]) -> Network:
    if not gone:
        return network
    return Network(
        nodes=network.nodes,
        operators={name: each for name, each in network.operators.items() if name not in gone},
        queries={name: each for name, each in network.queries.items() if name not in gone},
    )
