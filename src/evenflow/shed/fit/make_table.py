"""Making the table of a node out of levels of its taps and the tables of its children."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.column_sum import column_sum
from evenflow.shed.fit.levels import levels, next_levels
from evenflow.shed.fit.mapping import (
    Key,
    count_share_vectors,
    head_flows,
    merge_tails,
    share_vectors,
)
from evenflow.shed.fit.table import Table, inside_triangle, without_useless

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from evenflow.shed.fit.part import Part
    from evenflow.shed.fit.survey import Terms
    from evenflow.shed.program import Numbers

_FIT = 1.0 + 1e-12
"""Rounding that is granted to loads and rates of an entry."""

_MOST_PARTIAL = 400_000
"""Partial choices that are kept at most, but as many as a table may have entries. Most of them do
not become entries: what is chosen last makes them not fit or useless."""

_MOST_PREFIXES = 4
"""Partial choices for each entry that a table may have, where entries follow from levels one to
one: every choice of all levels but the last leads to an entry, unless largest rates are in the
way."""

_BLOCK = 1 << 17
"""Candidates that are looked at at once: memory stays small, and arrays large enough."""


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """What is chosen so far, one row for each candidate."""

    size: int
    chosen: Mapping[Key, Numbers]
    picks: Mapping[Key, NDArray[np.intp]]
    """Number of the entry, level or share vector that was chosen."""

    def times(self, key: Key, values: Numbers) -> _Choices:
        """Return every choice with every one of some values."""
        made = self.take(np.repeat(np.arange(self.size), len(values)))
        new = np.tile(np.arange(len(values)), self.size)
        return _Choices(made.size, {**made.chosen, key: values[new]}, {**made.picks, key: new})

    def take(self, rows: NDArray[np.intp]) -> _Choices:
        return _Choices(
            len(rows),
            {key: each[rows] for key, each in self.chosen.items()},
            {key: each[rows] for key, each in self.picks.items()},
        )


def _joined(parts: list[_Choices]) -> _Choices:
    first = parts[0]
    if len(parts) == 1:
        return first
    return _Choices(
        sum(each.size for each in parts),
        {key: np.concatenate([each.chosen[key] for each in parts]) for key in first.chosen},
        {key: np.concatenate([each.picks[key] for each in parts]) for key in first.picks},
    )


def make_table(part: Part, terms: Terms, below: Mapping[str, Table]) -> Table | None:
    """Return the table of a node; None if it would be larger than the terms allow.

    Args:
        part: The node.
        terms: Those of its tree.
        below: Tables of its children, made under the same terms.
    """
    ways = (count_share_vectors(terms.shares, heads) for heads in merge_tails(part).values())
    if max(ways, default=0) > terms.most_entries:
        return None
    maker = _Maker(part, terms, below)
    choices = maker.all_choices()
    if choices is None:
        return None
    table = maker.table(choices)
    if terms.strains is not None:
        table = replace(table, ceilings=None)
    return table if len(table) <= terms.most_entries else None


class _Maker:
    def __init__(self, part: Part, terms: Terms, below: Mapping[str, Table]) -> None:
        self._part = part
        self._below = below
        self._most = np.array(terms.most) * _FIT
        self._limits = np.array(terms.limits)
        self._strains = None if terms.strains is None else np.array(terms.strains)
        self._most_entries = terms.most_entries
        self._tails = {
            tail: share_vectors(terms.shares, heads) for tail, heads in merge_tails(part).items()
        }
        self._ladders = {tap: self._ladder(tap, terms) for tap in part.taps}

    def _ladder(self, tap: int, terms: Terms) -> Numbers:
        part = self._part
        top = float(part.open_flows[tap] @ np.array(terms.most))
        cost = part.drops.loads[-1][tap]
        if cost > 0.0:
            top = min(top, part.capacity / cost)
        return levels(top, part.drops.values[0][tap], terms.spread)

    def all_choices(self) -> _Choices | None:
        """Return every combination that can fit, or None if there are too many."""
        factors: list[tuple[Key, Numbers]] = [
            *((child, table.rates) for child, table in self._below.items()),
            *self._ladders.items(),
            *self._tails.items(),
        ]
        choices = _Choices(1, {}, {})
        for number, (key, values) in enumerate(factors, 1):
            last = number == len(factors)
            found: list[_Choices] = []
            rows = max(1, _BLOCK // len(values))
            for start in range(0, choices.size, rows):
                some = choices.take(np.arange(start, min(start + rows, choices.size)))
                made = some.times(key, values)
                found.append(made.take(np.flatnonzero(self._wanted(made, key, last=last))))
                if sum(each.size for each in found) > self._most_choices(last=last):
                    return None
            choices = _joined(found)
        return choices

    def _most_choices(self, *, last: bool) -> int:
        if not self._one_to_one:
            return max(self._most_entries, _MOST_PARTIAL)
        return self._most_entries * (1 if last else _MOST_PREFIXES)

    def _wanted(self, made: _Choices, key: Key, *, last: bool) -> NDArray[np.bool_]:
        flows = head_flows(self._part, made.size, made.chosen)
        wanted = self._can_fit(flows)
        if isinstance(key, int):
            # Levels below what is demanded of a head anyway all give the same entry. The largest of
            # them is enough: it stands for most.
            above = np.concatenate([[np.inf], self._ladders[key][:-1]])
            wanted &= above[made.picks[key]] > flows[:, key]
        if last and self._strains is not None:
            ceilings = self._ceilings(made)
            if ceilings is not None:
                # The entry of last resort stays: no table is empty.
                nothing = np.all(flows == 0.0, axis=1)
                wanted &= nothing | ~inside_triangle(ceilings, self._strains)
        return wanted

    def _can_fit(self, flows: Numbers) -> NDArray[np.bool_]:
        part = self._part
        arriving = flows[:, : len(part.dimensions)]
        fits: NDArray[np.bool_] = np.ones(len(flows), dtype=bool)
        for column, most in zip(arriving.T, self._most, strict=True):
            fits &= column <= most
        with np.errstate(invalid="ignore"):
            fits &= column_sum(flows, part.drops.loads[-1]) <= part.capacity * _FIT
            for row in self._limits:
                fits &= column_sum(arriving, row) <= _FIT
        return fits

    def table(self, choices: _Choices) -> Table:
        """Return the table of these choices, without useless entries."""
        part = self._part
        flows = head_flows(part, choices.size, choices.chosen)
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
        if self._one_to_one:
            return made
        return without_useless(made, column_sum(flows, part.drops.loads[0]))

    def _ceilings(self, choices: _Choices) -> Numbers | None:
        if self._tails or any(table.ceilings is None for table in self._below.values()):
            return None
        above: dict[Key, Numbers] = {
            tap: next_levels(ladder)[choices.picks[tap]] for tap, ladder in self._ladders.items()
        }
        for child, table in self._below.items():
            if table.ceilings is not None:
                above[child] = table.ceilings[choices.picks[child]]
        flows = head_flows(self._part, choices.size, above)
        return flows[:, : len(self._part.dimensions)]

    @cached_property
    def _one_to_one(self) -> bool:
        """Whether different choices always have different rates that nothing makes useless."""
        part = self._part
        if self._tails or len(part.heads) > len(part.dimensions):
            return False
        feeding = len(part.taps) + sum(len(table.rates.T) for table in self._below.values())
        return feeding <= len(part.dimensions) and len(self._below) <= 1
