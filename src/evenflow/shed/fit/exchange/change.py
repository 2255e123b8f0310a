"""Which entries a parent must be sent when a table has changed (section 8.2.5, figure 15)."""
# What the parent can rely on, with tolerance t
# =============================================
# An entry that is not withdrawn can still be served, and brings what the parent believes, to a
# share t of what it brings. An entry of the new table that is not sent has another that stands for
# it: below it, with ceilings no lower, and believed to bring at least 1 - t of it. The parent takes
# what it believes to be best, so that a plan brings at least (1 - t) / (1 + t) of what the new
# table would give. What the parent makes of it is off by as much, when its own parent is told of
# that: every link from leaf to root multiplies once more. What has been before does not count:
# each change is judged by what the node is now.
# With tolerance 0 the parent has the new table, entry by entry and in the same order.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.exchange.entries import Entries, stacked
from evenflow.shed.fit.quadtree import PointQuadtree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evenflow.shed.fit.part import Part
    from evenflow.shed.program import Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How the entries of a parent become those of a child."""

    stay: tuple[int, ...]
    """Entries that the parent has and keeps."""
    sent: Entries
    order: tuple[int, ...] | None = None
    """Which of those that stay, then those that are sent, stands at each place. None: as they
    come."""

    def applied(self, before: Entries) -> Entries:
        """Return what the parent has afterwards."""
        both = stacked(before.take(np.array(self.stay, dtype=np.intp)), self.sent)
        return both if self.order is None else both.take(np.array(self.order, dtype=np.intp))


def change_of(part: Part, before: Entries, after: Entries, tolerance: float) -> Change:
    """Return what to send so that a parent that has `before` can go on with `after`.

    Args:
        part: The node, as it is now.
        before: What the parent has.
        after: The table as it is now.
        tolerance: Share of a score by which the parent may be wrong.
    """
    if (before.ceilings is None) != (after.ceilings is None):
        return Change(stay=(), sent=after)
    if tolerance <= 0.0:
        return _exact(before, after)
    stay = np.flatnonzero(_still_right(part, before, after, tolerance))
    standing = before.take(stay)
    lacking = after.take(np.flatnonzero(~_stood_for(standing, after, tolerance)))
    if len(lacking) and _serves_whatever_fits(part):
        sent = _common(part, lacking, tolerance)
    else:
        sent = _enough(lacking, tolerance)
    return Change(stay=tuple(stay.tolist()), sent=sent)


def _serves_whatever_fits(part: Part) -> bool:
    """Whether a node needs no entry to know what to do: a leaf that its parent feeds alone.

    With children, or with inputs of its own to scale down, it follows entries of its table.
    """
    return not part.links and not any(part.inlets)


def _stood_for(standing: Entries, after: Entries, tolerance: float) -> NDArray[np.bool_]:
    """Return which entries of the new table have one that stands for them."""
    found = np.zeros(len(after), dtype=bool)
    if after.ceilings is None:
        tree = PointQuadtree(standing.rates, standing.scores)
        for row, (rates, score) in enumerate(zip(after.rates, after.scores, strict=True)):
            below = tree.best_below(rates)
            found[row] = below is not None and standing.scores[below] >= (1.0 - tolerance) * score
        return found
    for row in range(len(after)):
        found[row] = np.any(_stand_for(standing, after, row, tolerance))
    return found


def _stand_for(entries: Entries, after: Entries, row: int, tolerance: float) -> NDArray[np.bool_]:
    """Return which entries stand for one: below it, and worth enough.

    A parent that excludes by ceilings must not exclude one that stands for another with higher
    ones: rates that need the other would find nothing.
    """
    stands: NDArray[np.bool_] = entries.scores >= (1.0 - tolerance) * after.scores[row]
    for column, most in zip(entries.rates.T, after.rates[row], strict=True):
        stands &= column <= most
    if entries.ceilings is not None and after.ceilings is not None:
        for column, least in zip(entries.ceilings.T, after.ceilings[row], strict=True):
            stands &= column >= least
    return stands


def _common(part: Part, missing: Entries, tolerance: float) -> Entries:
    """Return new entries of a leaf, each below several that are missing, and worth enough for them.

    A leaf that only its parent feeds serves whatever rates fit, also between its own entries: the
    smallest rates of several neighbours can stand for all of them.
    """
    groups: list[tuple[Numbers, float, list[int]]] = []
    best = 0.0
    for row in np.lexsort(missing.rates.T[::-1]).tolist():
        best = max(best, float(missing.scores[row]))
        lowest = missing.rates[row]
        if groups:
            lowest = np.minimum(lowest, groups[-1][0])
        score = float(part.drops.settle(lowest[None], part.capacity)[1][0])
        if groups and score >= (1.0 - tolerance) * best:
            groups[-1] = (lowest, score, [*groups[-1][2], row])
        else:
            best = float(missing.scores[row])
            groups.append((missing.rates[row], best, [row]))
    above = missing.ceilings
    return Entries(
        np.array([rates for rates, _, _ in groups]),
        np.array([score for _, score, _ in groups]),
        None if above is None else np.array([above[rows].max(axis=0) for _, _, rows in groups]),
    )


def _enough(missing: Entries, tolerance: float) -> Entries:
    """Return entries of which one stands for each that is missing: below it, and worth no less.

    Those that bring least come first: they are below the most others.
    """
    chosen: list[int] = []
    for row in np.argsort(missing.scores, kind="stable").tolist():
        some = missing.take(np.array(chosen, dtype=np.intp))
        if not np.any(_stand_for(some, missing, row, tolerance)):
            chosen.append(row)
    return missing.take(np.sort(np.array(chosen, dtype=np.intp)))


def _exact(before: Entries, after: Entries) -> Change:
    known = {key: row for row, key in enumerate(_keys(before))}
    found = [known.get(key) for key in _keys(after)]
    stay = [row for row in found if row is not None]
    place = {row: position for position, row in enumerate(stay)}
    sent = [position for position, row in enumerate(found) if row is None]
    new = {position: len(stay) + number for number, position in enumerate(sent)}
    order = tuple(
        new[position] if row is None else place[row] for position, row in enumerate(found)
    )
    return Change(stay=tuple(stay), sent=after.take(np.array(sent, dtype=np.intp)), order=order)


def _keys(entries: Entries) -> list[bytes]:
    columns = [entries.rates, entries.scores[:, None]]
    if entries.ceilings is not None:
        columns.append(entries.ceilings)
    return [row.tobytes() for row in np.hstack(columns)]


def _still_right(
    part: Part, before: Entries, after: Entries, tolerance: float
) -> NDArray[np.bool_]:
    scores = _scores_now(part, before, after)
    right: NDArray[np.bool_] = np.abs(before.scores - scores) <= tolerance * scores
    return right


def _scores_now(part: Part, before: Entries, after: Entries) -> Numbers:
    """Return what old entries bring now; NaN where they do not fit, or it is not known."""
    if _serves_whatever_fits(part):
        closed, scores = part.drops.settle(before.rates, part.capacity)
        return np.where(closed >= 0.0, scores, np.nan)
    # Only rates that are in the new table are certain.
    known = {row.tobytes(): score for row, score in zip(after.rates, after.scores, strict=True)}
    return np.array([known.get(row.tobytes(), np.nan) for row in before.rates])
