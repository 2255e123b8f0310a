"""A point quadtree over the entries of a table: the best entry below given rates (section 6.4).

The paper gives each entry the part of the rate space in which it is the best one. Here each cell
of the tree knows its best entry, and a search visits cells by that score: the first entry found
that lies below the rates is the best. It is the same mapping, without cutting up the space.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evenflow.shed.program import Numbers

BUCKET = 512
"""Entries that are looked through at once. One comparison of arrays costs as much as a few hundred
numbers in it, so smaller cells would only mean more of them."""

SLACK = 1e-12
"""An entry counts as below rates that are smaller by this share: mapping a table upstream and rates
back downstream rounds twice. `check` grants plans much more than that."""


_MOST_IN_ONE = 0.95
"""A pivot that leaves more than this share in one quadrant separates nothing, as where entries
repeat: the cell stays a bucket, so that the tree is never deep."""


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    best: float
    """Score of its best entry."""
    rows: NDArray[np.intp]
    """Of a bucket: its entries, best first. Empty for an inner cell."""
    points: Numbers
    """Rates of these rows; of an inner cell, of its pivot."""
    children: dict[int, _Cell]
    """By quadrant: bit i is set where rates along dimension i are not below the pivot's."""


class PointQuadtree:
    """Entries by their rates. Building sorts them once for each level of the tree."""

    def __init__(self, points: Numbers, scores: Numbers) -> None:
        self._points = points
        self._scores = scores
        self._bits = 1 << np.arange(points.shape[1], dtype=np.int64)
        order = np.lexsort((np.arange(len(scores)), -scores))
        self._root = self._cell(order) if len(scores) else None

    def best_below(self, rates: Numbers) -> int | None:
        """Return the row with the highest score whose rates do not exceed these, if there is one.

        Among equal scores the one that the tree meets first; the same one every time.
        """
        if self._root is None:
            return None
        reach = rates * (1.0 + SLACK)
        waiting = [(-self._root.best, 0, self._root)]
        number = 0
        found, best = None, -np.inf
        while waiting and -waiting[0][0] > best:
            cell = heapq.heappop(waiting)[2]
            if not cell.children:
                below = np.all(cell.points <= reach, axis=1)
                first = int(np.argmax(below))
                if below[first] and self._scores[cell.rows[first]] > best:
                    found = int(cell.rows[first])
                    best = self._scores[found]
                continue
            # No entry of a quadrant that begins at the pivot's rate can lie below a smaller one.
            over = int((cell.points > reach) @ self._bits)
            for quadrant, child in cell.children.items():
                if not quadrant & over and child.best > best:
                    number += 1
                    heapq.heappush(waiting, (-child.best, number, child))
        return found

    def _cell(self, rows: NDArray[np.intp]) -> _Cell:
        # Rows come best first and stay so in every subset. The pivot is the one in the middle: the
        # best one would leave nearly all others in one quadrant.
        best = float(self._scores[rows[0]])
        if len(rows) > BUCKET:
            pivot = self._points[rows[len(rows) // 2]]
            quadrants = (self._points[rows] >= pivot) @ self._bits
            kinds, counts = np.unique(quadrants, return_counts=True)
            if counts.max() < _MOST_IN_ONE * len(rows):
                children = {int(kind): self._cell(rows[quadrants == kind]) for kind in kinds}
                return _Cell(best, rows[:0], pivot, children)
        return _Cell(best, rows, self._points[rows], {})
