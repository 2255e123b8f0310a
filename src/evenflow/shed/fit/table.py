"""Feasible input tables: rates that a node and its subtree can serve, and what they bring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.column_sum import column_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evenflow.shed.program import Numbers

_BLOCK = 256
"""Entries that are compared with all kept ones at once."""

_MOST_COMPARED = 12_000
"""Entries beyond which looking for useless ones takes longer than it saves: it is quadratic."""

_FULL = 1.0 - 1e-9
"""Share of a capacity from which on it is used up, rounding considered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Entries of a node, one row each."""

    rates: Numbers
    """Entry by dimension."""
    scores: Numbers
    ceilings: Numbers | None
    """Entry by dimension: smallest rates that need a larger entry. None where the feasibility
    triangle is already excluded, or cannot be because streams merge, and of tables that were read,
    of which no others are made."""
    flows: Numbers
    """Entry by head: what the node lets through. Not sent to the parent."""
    choices: NDArray[np.int64]
    """Entry by child: the row of the child's table it is made of. Not sent to the parent."""

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Return some of the entries, in the order given."""
        return replace(
            self,
            rates=self.rates[rows],
            scores=self.scores[rows],
            ceilings=None if self.ceilings is None else self.ceilings[rows],
            flows=self.flows[rows],
            choices=self.choices[rows],
        )


def inside_triangle(corners: Numbers, strains: Numbers) -> NDArray[np.bool_]:
    """Return which entries nobody needs who has to shed (section 6.2.1), given their ceilings.

    Rates fit with all gates open where no strains add up to more than 1. The paper excludes all
    entries in a triangle there. But rates just outside are served by entries inside, when these are
    the next ones down; so an entry may go only if all rates that it is the next one down for fit.
    Those are the rates below its ceilings: the entry itself divided by 1 - epsilon. This is the
    triangle scaled by 1 - epsilon, apart from the levels next to 0. With the rates of entries in
    place of ceilings, it would be the rule as printed, which loses the bound.

    On the boundary itself a capacity is used up: an optimal plan can lie there, so that entries
    whose ceilings do are needed.

    Args:
        corners: Entry by dimension.
        strains: Node by dimension. The paper's triangle is one row, the largest of each column.
    """
    inside: NDArray[np.bool_] = np.ones(len(corners), dtype=bool)
    for row in strains:
        inside &= column_sum(corners, row) < _FULL
    return inside


def without_useless(table: Table, loads: Numbers) -> Table:
    """Return a table without entries that another one makes useless: smaller rates, no less score.

    Section 6.3 merges entries that are similar; what is dropped here costs nothing. Of equal ones
    the one with the smallest load stays. Large tables lose only what has equal rates.
    """
    rows = np.lexsort([loads, -table.scores, *reversed(table.rates.T)])
    new = np.ones(len(rows), dtype=bool)
    new[1:] = False
    for column in table.rates.T:
        ordered = column[rows]
        new[1:] |= ordered[1:] != ordered[:-1]
    rows = rows[new]
    if len(rows) > _MOST_COMPARED:
        return table.take(rows)
    table = table.take(rows)
    order = np.argsort(-table.scores, kind="stable")
    kept = order[:0]
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        block = block[~_dominated(table.rates[block], table.rates[kept])]
        inner = _dominated(table.rates[block], table.rates[block], earlier=True)
        kept = np.concatenate([kept, block[~inner]])
    return table.take(np.sort(kept))


def _dominated(rates: Numbers, others: Numbers, *, earlier: bool = False) -> NDArray[np.bool_]:
    """Return which rates are not below some others; with `earlier`, others before themselves."""
    not_below = np.ones((len(rates), len(others)), dtype=bool)
    for column, other in zip(rates.T, others.T, strict=True):
        not_below &= other[None, :] <= column[:, None]
    if earlier:
        # Of entries that dominate one another in a circle, which are equal ones, the first stays.
        not_below &= np.tri(len(rates), len(others), -1, dtype=bool)
    dominated: NDArray[np.bool_] = np.any(not_below, axis=1)
    return dominated
