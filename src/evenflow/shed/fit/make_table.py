"""Making the table of a node out of levels of its slots and the tables of its children."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.levels import levels, next_levels
from evenflow.shed.fit.mapping import Tail, head_flows, merge_tails, share_vectors
from evenflow.shed.fit.table import Table, without_triangle, without_useless

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.fit.part import Part
    from evenflow.shed.fit.survey import Terms
    from evenflow.shed.program import Numbers

_FIT = 1.0 + 1e-12
"""Rounding that is granted to loads and rates of an entry."""

_MOST_CANDIDATES = 40
"""Candidates that are looked at for each entry that a table may have, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """What is chosen so far, one row for each candidate."""

    size: int
    demands: Mapping[str, Numbers]
    levels: Mapping[int, Numbers]
    shares: Mapping[Tail, Numbers]
    picks: Mapping[str | int | Tail, Numbers]
    """Number of the entry, level or share vector that was chosen."""

    def take(self, rows: Numbers) -> _Choices:
        return _Choices(
            len(rows),
            *(
                {key: each[rows] for key, each in kind.items()}
                for kind in (self.demands, self.levels, self.shares, self.picks)
            ),
        )


def make_table(part: Part, terms: Terms, below: Mapping[str, Table]) -> Table | None:
    """Return the table of a node; None if it would be larger than the terms allow.

    Args:
        part: The node.
        terms: Those of its tree.
        below: Tables of its children, made under the same terms.
    """
    maker = _Maker(part, terms, below)
    choices = maker.all_choices()
    if choices is None:
        return None
    table = maker.table(choices)
    if terms.strains is not None:
        table = without_triangle(table, np.array(terms.strains))
        table = Table(
            rates=table.rates,
            scores=table.scores,
            ceilings=None,
            flows=table.flows,
            choices=table.choices,
        )
    return table if len(table) <= terms.most_entries else None


class _Maker:
    def __init__(self, part: Part, terms: Terms, below: Mapping[str, Table]) -> None:
        self._part = part
        self._below = below
        self._most = np.array(terms.most) * _FIT
        self._limits = np.array(terms.limits)
        self._limit = terms.most_entries * _MOST_CANDIDATES
        self._tails = {
            tail: share_vectors(terms.shares, heads) for tail, heads in merge_tails(part).items()
        }
        self._ladders = {slot: self._ladder(slot, terms) for slot in part.slots}

    def _ladder(self, slot: int, terms: Terms) -> Numbers:
        part = self._part
        top = float(part.open_flows[slot] @ np.array(terms.most))
        cost = part.drops.loads[-1][slot]
        if cost > 0.0:
            top = min(top, part.capacity / cost)
        return levels(top, part.drops.values[0][slot], terms.spread)

    def all_choices(self) -> _Choices | None:
        """Return every combination that can fit, or None if there are too many."""
        choices = _Choices(1, {}, {}, {}, {})
        for child, table in self._below.items():
            following = self._extend(choices, child, table.rates, "demands")
            if following is None:
                return None
            choices = following
        for slot, ladder in self._ladders.items():
            following = self._extend(choices, slot, ladder, "levels")
            if following is None:
                return None
            choices = following
        for tail, vectors in self._tails.items():
            following = self._extend(choices, tail, vectors, "shares")
            if following is None:
                return None
            choices = following
        return choices

    def _extend(
        self, choices: _Choices, key: str | int | Tail, values: Numbers, kind: str
    ) -> _Choices | None:
        size = choices.size * len(values)
        if size > self._limit:
            return None
        old = np.repeat(np.arange(choices.size), len(values))
        new = np.tile(np.arange(len(values)), choices.size)
        made = choices.take(old)
        grown = {
            name: getattr(made, name) for name in ("demands", "levels", "shares", "picks")
        }
        grown[kind] = {**grown[kind], key: values[new]}
        grown["picks"] = {**made.picks, key: new}
        made = _Choices(size, **grown)
        return made.take(np.flatnonzero(self._can_fit(self._flows(made))))

    def _flows(self, made: _Choices) -> Numbers:
        return head_flows(self._part, made.size, made.demands, made.levels, made.shares)

    def _can_fit(self, flows: Numbers) -> Numbers:
        part = self._part
        within = np.all(flows[:, : len(part.dimensions)] <= self._most, axis=1)
        with np.errstate(invalid="ignore"):
            fits = flows @ part.drops.loads[-1] <= part.capacity * _FIT
        both: Numbers = within & fits
        if len(self._limits):
            upstream = flows[:, : len(part.dimensions)] @ self._limits.T
            both &= np.all(upstream <= _FIT, axis=1)
        return both

    def table(self, choices: _Choices) -> Table:
        """Return the table of these choices, without useless entries."""
        part = self._part
        flows = self._flows(choices)
        scores = part.drops.settle(flows, part.capacity)[1]
        for child, table in self._below.items():
            scores = scores + table.scores[choices.picks[child]]
        columns = [choices.picks[child] for child in self._below]
        made = Table(
            rates=flows[:, : len(part.dimensions)],
            scores=scores,
            ceilings=self._ceilings(choices),
            flows=flows,
            choices=np.array(columns, dtype=np.int64).reshape(-1, choices.size).T,
        )
        if self._one_to_one():
            return made
        return without_useless(made, flows @ part.drops.loads[0])

    def _ceilings(self, choices: _Choices) -> Numbers | None:
        if self._tails or any(table.ceilings is None for table in self._below.values()):
            return None
        above = {
            child: table.ceilings[choices.picks[child]]
            for child, table in self._below.items()
            if table.ceilings is not None
        }
        up = {
            slot: next_levels(ladder)[choices.picks[slot]]
            for slot, ladder in self._ladders.items()
        }
        flows = head_flows(self._part, choices.size, above, up, {})
        return flows[:, : len(self._part.dimensions)]

    def _one_to_one(self) -> bool:
        """Whether different choices always have different rates that nothing makes useless."""
        part = self._part
        if self._tails or len(part.heads) > len(part.dimensions):
            return False
        feeding = len(part.slots) + sum(len(table.rates.T) for table in self._below.values())
        return feeding <= len(part.dimensions) and len(self._below) <= 1
