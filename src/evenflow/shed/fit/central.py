"""`c-fit`: feasible input tables of a whole network, made and searched in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.fill import Filler
from evenflow.shed.fit.merge_inputs import Merging
from evenflow.shed.fit.quadtree import PointQuadtree
from evenflow.shed.fit.realise import entry_flows
from evenflow.shed.fit.tree import (
    MOST_ENTRIES,
    PlannedTree,
    entries_in,
    named_entries,
    plan_tree,
    share_kept,
    trees_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.fit.part import Part
    from evenflow.shed.program import Numbers, Program

_MOST_REMEMBERED = 4096
"""Entries whose plans are kept ready once they were selected."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What an index makes of rates."""

    flows: Numbers
    """By gate of the program."""
    entries: tuple[int | None, ...]
    """By tree: the row of the root's table; None where no entry is needed."""


class FitIndex:
    """Tables of a network, ready to be searched.

    What brings no value is closed where there is too much; what is left is sent as it is if it
    fits. Otherwise the best entry below the rates is taken, and what it leaves of the capacities is
    given back (`fill`).
    """

    def __init__(
        self, program: Program, max_rates: Numbers, *, fill: bool = True, merge: bool = True
    ) -> None:
        self.program = program
        self.trees: list[PlannedTree] = []
        self._max_rates = max_rates
        self._fill = fill
        self._merging = Merging(program) if merge else None
        self.planned = self._merging.program if self._merging else program
        """The program that tables are made for: inputs that are alike are one."""
        self.parts = cut(self.planned)
        self._searches: list[_TreeSearch] = []

    def limits(self, root: str) -> dict[str, float]:
        """Return the largest rates at the dimensions of a root."""
        largest = self._merging.inner(self._max_rates) if self._merging else self._max_rates
        supplied = self.planned.supply @ largest
        by_gate = {
            gate.name: float(r) for gate, r in zip(self.planned.gates, supplied, strict=True)
        }
        return {name: by_gate[name] for name in self.parts[root].dimensions}

    def add(self, tree: PlannedTree) -> None:
        """Take over the tables of one more tree."""
        self.trees.append(tree)
        self._searches.append(_TreeSearch(self.planned, self.parts, tree, fill=self._fill))

    @property
    def entries(self) -> int:
        """How many entries the tables of the roots have."""
        return entries_in(self.trees)

    @property
    def kept(self) -> float:
        """Share of the optimum that every selection has at least; 0 where none is certain."""
        return share_kept(self.trees)

    def select(self, rates: Numbers) -> Chosen:
        """Return flows that fit, for rates by input of the program."""
        within = np.minimum(rates, self._max_rates)
        inner = self._merging.inner(within) if self._merging else within
        flows = np.zeros(len(self.planned.gates))
        entries = tuple(search.select(inner, flows) for search in self._searches)
        if self._merging:
            flows = self._merging.outer(flows, inner, within)
        return Chosen(flows, entries)

    def flows(self, rates: Numbers) -> tuple[Numbers, int | str | None]:
        """Return the flow behind each gate, and which entries the roots have taken."""
        chosen = self.select(rates)
        return chosen.flows, named_entries(chosen.entries)


class _TreeSearch:
    def __init__(
        self, program: Program, parts: Mapping[str, Part], tree: PlannedTree, *, fill: bool
    ) -> None:
        self._parts = parts
        self._tree = tree
        root = parts[tree.root]
        names = {gate.name: position for position, gate in enumerate(program.gates)}
        self._names = names
        self._inlets = np.array([names[name] for name in root.dimensions], dtype=np.intp)
        self._supply = program.supply[self._inlets]
        self._values = np.array(tree.surveys[tree.root].values)
        self._strains = np.max(tree.surveys[tree.root].strains, axis=0)
        self._open = program.opened[:, self._inlets]
        self._open_load = program.load @ self._open
        self._capacity = program.capacity
        table = tree.tables[tree.root]
        self._quadtree = PointQuadtree(table.rates, table.scores)
        self._filler = Filler(program) if fill else None
        self._ready: dict[int, Numbers] = {}

    def select(self, rates: Numbers, flows: Numbers) -> int | None:
        """Add what this tree lets through; return the entry that was taken, if one was."""
        arriving = self._supply @ rates
        if self._fits(arriving):
            flows += self._open @ arriving
            return None
        arriving = np.where(self._values > 0.0, arriving, 0.0)
        if self._fits(arriving):
            flows += self._open @ arriving
            return None
        free = np.where(self._strains > 0.0, 0.0, arriving)
        row = self._quadtree.best_below(arriving)
        if row is None:
            flows += self._open @ free
            return None
        own = self._entry(row)
        if self._filler is not None:
            supply = np.zeros(len(own))
            supply[self._inlets] = arriving - free
            own = self._filler.filled(row, own, supply)
        flows += own + self._open @ free
        return row

    def _fits(self, arriving: Numbers) -> bool:
        return bool(np.all(self._open_load @ arriving <= self._capacity))

    def _entry(self, row: int) -> Numbers:
        ready = self._ready.get(row)
        if ready is None:
            ready = np.zeros(len(self._names))
            found = entry_flows(self._parts, self._tree.tables, self._tree.root, row)
            for name, flow in found.items():
                if name in self._names:
                    ready[self._names[name]] = flow
            if len(self._ready) >= _MOST_REMEMBERED:
                self._ready.clear()
            self._ready[row] = ready
        return ready


def c_fit(
    program: Program,
    max_rates: Numbers,
    epsilon: float,
    *,
    most_entries: int = MOST_ENTRIES,
    fill: bool = True,
    merge: bool = True,
) -> FitIndex:
    """Plan a network.

    Args:
        program: Of the network.
        max_rates: By input; larger rates are treated as these.
        epsilon: Share of the optimum that may be lost. `FitIndex.kept` says whether it is.
        most_entries: That the table of a node may have.
        fill: Whether a selection gives back what an entry leaves of the capacities.
        merge: Whether inputs that are alike are planned as one.

    Raises:
        NetworkError: The network is not for tables: see `cut`.
    """
    index = FitIndex(program, max_rates, fill=fill, merge=merge)
    for nodes in trees_of(index.parts):
        limits = index.limits(nodes[0])
        index.add(plan_tree(index.parts, nodes, limits, epsilon, most_entries))
    return index
