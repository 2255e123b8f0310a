"""Cutting a network into the parts of its nodes, and refusing what tables cannot do."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import NetworkError
from evenflow.shed.dag import cycle_of, in_order
from evenflow.shed.fit.part import Link, Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.element import Arc
    from evenflow.shed.gate import Gate
    from evenflow.shed.network import Network
    from evenflow.shed.program import Numbers, Program

_OTHERS = "use exact, or shed solve for rates that are known"


@dataclass(slots=True)
class _Stream:
    """A dimension while it is made: arcs that carry one flow, each times a factor."""

    name: str
    inlet: bool
    arcs: dict[Arc, float] = field(default_factory=dict)


def cut(program: Program, method: str = "c-fit") -> dict[str, Part]:
    """Return the parts of all nodes that have operators, each after its parent's.

    Raises:
        NetworkError: A node is fed by two nodes; streams part and meet again in another node; a
            floor or `shed: never` is in the way; a node with work has no capacity.
    """
    network = program.network
    _refuse_promises(program, method)
    fed_by = _fed_by(network)
    _refuse_fan_in(fed_by, method)
    cutter = _Cutter(program, fed_by, method)
    for node in in_order(fed_by):
        cutter.add(node)
    return cutter.parts


def _refuse_promises(program: Program, method: str) -> None:
    network = program.network
    for name, query in network.queries.items():
        if query.floor > 0.0:
            raise NetworkError(
                "method.unsupported",
                f"{method} knows no floors",
                ("queries", name, "floor"),
                _OTHERS,
            )
    for name, operator in network.operators.items():
        if operator.never:
            raise NetworkError(
                "method.unsupported",
                f"{method} scales every input down and cannot leave one as it is",
                ("operators", name, "shed"),
                _OTHERS,
            )
        if network.nodes[operator.node].capacity <= 0.0 < operator.cost:
            raise NetworkError(
                "method.unsupported",
                f"{method} needs a capacity above 0 where there is work",
                ("nodes", operator.node, "capacity"),
                _OTHERS,
            )


def _fed_by(network: Network) -> dict[str, list[str]]:
    """Return the nodes that feed each node with operators."""
    found: dict[str, list[str]] = {each.node: [] for each in network.operators.values()}
    for operator in network.operators.values():
        for name in operator.inputs:
            feeding = network.operators.get(name)
            if feeding is not None and feeding.node != operator.node:
                found[operator.node].append(feeding.node)
    return {node: list(dict.fromkeys(names)) for node, names in found.items()}


def _refuse_fan_in(fed_by: Mapping[str, list[str]], method: str) -> None:
    for node, feeding in fed_by.items():
        if len(feeding) > 1:
            raise NetworkError(
                "method.unsupported",
                f"node {node} is fed by {len(feeding)} nodes ({', '.join(sorted(feeding))[:80]});"
                f" {method} plans trees of nodes only",
                ("nodes", node),
                _OTHERS,
            )
    cycle = cycle_of(fed_by)
    if cycle:
        raise NetworkError(
            "method.unsupported",
            f"nodes feed one another ({' -> '.join(cycle)[:80]}); {method} plans trees of nodes"
            " only",
            ("nodes", cycle[0]),
            _OTHERS,
        )


class _Cutter:
    def __init__(self, program: Program, fed_by: Mapping[str, list[str]], method: str) -> None:
        self.parts: dict[str, Part] = {}
        self._network = program.network
        self._gates = program.gates
        self._parent = {node: next(iter(feeding), None) for node, feeding in fed_by.items()}
        self._method = method
        self._sent: dict[str, list[_Stream]] = {}
        """By child, what its parent sends."""

    def add(self, node: str) -> None:
        sheet = _Sheet(
            self._network, self._gates, node, [*self._entering(node), *self._passing(node)]
        )
        links = []
        for child in (each for each, parent in self._parent.items() if parent == node):
            streams, rows = self._send(sheet, child)
            self._sent[child] = streams
            inlets = [*self._inlets(child), *self._passing(child)]
            own, below = len(self._inlets(child)), len(inlets)
            units = [sheet.unit(each.name) for each in inlets]
            gain = sheet.rows([*units[:own], *rows, *units[own:below]])
            names = tuple(each.name for each in (*inlets[:own], *streams, *inlets[own:]))
            links.append(Link(child=child, dimensions=names, gain=gain[:, : len(sheet.heads)]))
        self._refuse_meeting(sheet, links)
        self.parts[node] = sheet.part(self._parent[node], tuple(links))

    def _entering(self, node: str) -> list[_Stream]:
        return [*self._inlets(node), *self._sent.get(node, [])]

    def _inlets(self, node: str) -> list[_Stream]:
        """Return the input arcs that lead to a node."""
        found = []
        for gate in self._gates:
            if not gate.on_input:
                continue
            nodes = {self._network.operators[arc.consumer].node for arc in gate.arcs}
            if len(nodes) > 1:
                raise self._meeting(gate.producer, min(nodes))
            if nodes == {node}:
                found.append(_Stream(gate.name, inlet=True, arcs=dict.fromkeys(gate.arcs, 1.0)))
        return found

    def _passing(self, node: str) -> list[_Stream]:
        """Return the input arcs of nodes further down: their rates belong to the same entry."""
        found = []
        for child in (each for each, parent in self._parent.items() if parent == node):
            below = [*self._inlets(child), *self._passing(child)]
            found += [_Stream(each.name, inlet=True) for each in below]
        return found

    def _send(self, sheet: _Sheet, child: str) -> tuple[list[_Stream], list[Numbers]]:
        """Return what leaves for a child. Arcs whose flows keep one proportion are one stream."""
        streams: list[_Stream] = []
        rows: list[Numbers] = []
        for arc in sheet.leaving(child):
            row = sheet.along(arc)
            if not np.any(row):
                continue
            for stream, base in zip(streams, rows, strict=True):
                factor = float(row.sum() / base.sum())
                if np.allclose(row, factor * base, rtol=1e-12, atol=0.0):
                    stream.arcs[arc] = factor
                    break
            else:
                streams.append(_Stream(arc.name, inlet=False, arcs={arc: 1.0}))
                rows.append(row)
        return streams, rows

    def _refuse_meeting(self, sheet: _Sheet, links: list[Link]) -> None:
        """Refuse a head that feeds a child and something else, without a gate between them.

        An entry of the child asks for one flow exactly. Where no gate can take away what another
        branch needs, the entry could not be reached.
        """
        uses = (sheet.arriving > 0.0).sum(axis=0) + (sheet.value > 0.0)
        heads = len(sheet.heads)
        total = uses[:heads] + sum((link.gain > 0.0).sum(axis=0) for link in links)
        for link in links:
            for head in np.flatnonzero((link.gain > 0.0).any(axis=0) & (total > 1)):
                raise self._meeting(sheet.heads[head], link.child)

    def _meeting(self, producer: str, node: str) -> NetworkError:
        return NetworkError(
            "method.unsupported",
            f"branches of {producer} that meet again reach node {node} apart;"
            f" {self._method} cannot drop on one of them",
            ("nodes", node),
            _OTHERS,
        )


class _Sheet:
    """The linear algebra of one node: every flow as a sum over heads and own gates."""

    def __init__(
        self, network: Network, gates: tuple[Gate, ...], node: str, streams: list[_Stream]
    ) -> None:
        self._network = network
        self._node = node
        self._streams = streams
        local = [g for g in gates if not g.on_input and network.operators[g.producer].node == node]
        own = [gate for gate in local if self._stays(gate)]
        onward = [gate for gate in local if not self._stays(gate)]
        self._gates = [*onward, *own]
        self.heads = [*(each.name for each in streams), *(gate.name for gate in onward)]
        self.own_gates = [gate.name for gate in own]
        self.columns = len(self.heads) + len(own)
        self._first_gate = len(streams)
        self._unit = np.eye(self.columns)
        self._out: dict[str, Numbers] = {}
        self.load = np.zeros(self.columns)
        for name in network.order:
            operator = network.operators[name]
            if operator.node == node:
                come = [self.along(arc) for arc in network.arcs_into[name]]
                self.load += operator.cost * np.sum(come, axis=0)
                self._out[name] = np.sum(
                    [operator.gain(port) * each for port, each in enumerate(come)], axis=0
                )
        self.value = np.zeros(self.columns)
        for name, query in network.queries.items():
            if query.output in self._out:
                self.value += query.weight * self.along(network.arcs_into[name][0])
        self.arriving = self.rows([self._out[gate.producer] for gate in self._gates])

    def rows(self, rows: list[Numbers]) -> Numbers:
        """Return rows as a matrix, also where there are none, or no columns: nothing comes here."""
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.columns)

    def unit(self, name: str) -> Numbers:
        row: Numbers = self._unit[self.heads.index(name)]
        return row

    def along(self, arc: Arc) -> Numbers:
        column = self._column.get(arc)
        if column is not None:
            return column
        return self._out.get(arc.producer, np.zeros(self.columns))

    @cached_property
    def _column(self) -> dict[Arc, Numbers]:
        found: dict[Arc, Numbers] = {}
        for position, stream in enumerate(self._streams):
            found |= {arc: factor * self._unit[position] for arc, factor in stream.arcs.items()}
        for position, gate in enumerate(self._gates, self._first_gate):
            found |= dict.fromkeys(gate.arcs, self._unit[position])
        return found

    def leaving(self, child: str) -> list[Arc]:
        operators = self._network.operators
        return [
            arc
            for name in self._out
            for arc in self._network.arcs_from[name]
            if arc.consumer in operators and operators[arc.consumer].node == child
        ]

    def part(self, parent: str | None, links: tuple[Link, ...]) -> Part:
        heads = len(self.heads)
        onward = heads - self._first_gate
        arriving = np.zeros((heads, heads))
        arriving[self._first_gate :] = self.arriving[:onward, :heads]
        return Part(
            node=self._node,
            parent=parent,
            capacity=self._network.nodes[self._node].capacity,
            dimensions=tuple(each.name for each in self._streams),
            inlets=tuple(each.inlet for each in self._streams),
            heads=tuple(self.heads),
            arriving=arriving,
            own_gates=tuple(self.own_gates),
            own_arriving=self.arriving[onward:],
            load=self.load,
            value=self.value,
            links=links,
        )

    def _stays(self, gate: Gate) -> bool:
        operators = self._network.operators
        behind = frozenset[str]().union(*(self._network.reach[arc.consumer] for arc in gate.arcs))
        return all(operators[name].node == self._node for name in behind if name in operators)
