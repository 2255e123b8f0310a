"""`d-fit`: a core for every node, and plans that each node selects from its own table."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import InternalError
from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.exchange.config import FitNodeConfig
from evenflow.shed.fit.exchange.local_choice import LocalChoice
from evenflow.shed.fit.exchange.node import FitNode
from evenflow.shed.fit.realise import local_flows
from evenflow.shed.fit.tree import (
    MOST_ENTRIES,
    PlannedTree,
    entries_in,
    named_entries,
    share_kept,
    trees_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.shed.fit.exchange.messages import Send
    from evenflow.shed.program import Numbers, Program

_MOST_MESSAGES = 1_000_000
"""A tree that says more than this does not come to rest, which would be a fault of ours."""


def nodes_for(
    program: Program,
    max_rates: Numbers,
    epsilon: float,
    *,
    most_entries: int = MOST_ENTRIES,
    tolerance: float = 0.0,
) -> dict[str, FitNode]:
    """Return a core for every node that has operators, none of them started.

    Raises:
        NetworkError: The network is not for tables: see `cut`.
    """
    supplied = program.supply @ max_rates
    config = FitNodeConfig(
        epsilon=epsilon,
        max_rates={
            gate.name: float(rate)
            for gate, rate in zip(program.gates, supplied, strict=True)
            if gate.on_input
        },
        most_entries=most_entries,
        tolerance=tolerance,
    )
    return {name: FitNode(part, config) for name, part in cut(program, "d-fit").items()}


def settle(nodes: Mapping[str, FitNode], effects: list[Send]) -> int:
    """Deliver messages in order, and what they lead to, until there are none.

    Returns how many there were.
    """
    wire = deque(effects)
    count = 0
    while wire:
        count += 1
        if count > _MOST_MESSAGES:
            raise InternalError("nodes do not come to rest")
        message = wire.popleft().message
        wire += nodes[message.receiver].receive(message, 0.0)
    return count


class DistributedIndex:
    """Tables of all nodes, each used for its own part of a plan alone."""

    def __init__(self, program: Program, max_rates: Numbers, trees: Sequence[PlannedTree]) -> None:
        self.program = program
        self.trees = trees
        self.parts = cut(program, "d-fit")
        self._max_rates = max_rates
        self._gates = {gate.name: position for position, gate in enumerate(program.gates)}
        self._choices = {
            name: LocalChoice(self.parts[name], tree.surveys[name], table)
            for tree in trees
            for name, table in tree.tables.items()
        }

    @property
    def entries(self) -> int:
        """How many entries the tables of the roots have."""
        return entries_in(self.trees)

    @property
    def kept(self) -> float:
        """Share of the optimum that every selection has at least; 0 where none is certain."""
        return share_kept(self.trees)

    def select(self, rates: Numbers) -> Numbers:
        """Return the flow behind each gate, for rates by input of the program."""
        return self.flows(rates)[0]

    def flows(self, rates: Numbers) -> tuple[Numbers, int | str | None]:
        """Return the flow behind each gate, and which entries the roots have taken.

        Those of the other nodes follow from them.
        """
        supplied = self.program.supply @ np.minimum(rates, self._max_rates)
        flows = np.zeros(len(self._gates))
        entries = []
        for tree in self.trees:
            names = self.parts[tree.root].dimensions
            arriving = np.array([supplied[self._gates[name]] for name in names])
            entries.append(self._descend(tree.root, arriving, flows))
        return flows, named_entries(entries)

    def _descend(self, node: str, arriving: Numbers, flows: Numbers) -> int | None:
        """Add what a subtree lets through; return the entry that its root has taken."""
        part = self.parts[node]
        heads, entry = self._choices[node].choose(arriving)
        for name, flow in local_flows(part, heads).items():
            if name in self._gates:
                flows[self._gates[name]] = flow
        for link in part.links:
            self._descend(link.child, link.gain @ heads, flows)
        return entry


def planned_trees(nodes: Mapping[str, FitNode]) -> list[PlannedTree]:
    """Return what cores have come to.

    Raises:
        InternalError: They have not come to an end.
    """
    return [
        _planned_tree(nodes, names)
        for names in trees_of({name: node.part for name, node in nodes.items()})
    ]


def _planned_tree(nodes: Mapping[str, FitNode], names: list[str]) -> PlannedTree:
    surveys, terms, tables = {}, {}, {}
    for name in names:
        node = nodes[name]
        if node.survey is None or node.terms is None or node.table is None:
            raise InternalError(f"node {name} has no table")
        surveys[name], terms[name], tables[name] = node.survey, node.terms, node.table
    return PlannedTree(
        root=names[0],
        surveys=surveys,
        terms=terms,
        tables=tables,
        trials=nodes[names[0]].snapshot().trials,
    )


def d_fit(
    program: Program, max_rates: Numbers, epsilon: float, *, most_entries: int = MOST_ENTRIES
) -> DistributedIndex:
    """Plan a network by messages between neighbours, none of which is lost.

    Args:
        program: Of the network.
        max_rates: By input; larger rates are treated as these.
        epsilon: Share of the optimum that may be lost. `DistributedIndex.kept` says whether it is.
        most_entries: That the table of a node may have.

    Raises:
        NetworkError: The network is not for tables: see `cut`.
    """
    nodes = nodes_for(program, max_rates, epsilon, most_entries=most_entries)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    return DistributedIndex(program, max_rates, planned_trees(nodes))
