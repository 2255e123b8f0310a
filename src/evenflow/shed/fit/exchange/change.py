"""Which entries a parent must be sent when a table has changed (section 8.2.5, figure 15)."""
# What the parent can rely on, with tolerance t
# =============================================
# An entry that is not withdrawn can still be served, and brings what the parent believes, to a
# factor of 1 - t either way. An entry of the new table that is not sent has another below it, of
# which the parent knows and which brings at least 1 - t of it. What a plan made from such tables
# brings is therefore at least (1 - t)^3 of what the new tables would give: the parent compares
# beliefs, which may be too high by t for what it takes and too low by t for what it leaves.
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
    tree = PointQuadtree(standing.rates, standing.scores)
    missing = []
    for row, (rates, score) in enumerate(zip(after.rates, after.scores, strict=True)):
        below = tree.best_below(rates)
        if below is None or standing.scores[below] < (1.0 - tolerance) * score:
            missing.append(row)
    lacking = after.take(np.array(missing, dtype=np.intp))
    if missing and not part.links and not any(part.inlets):
        sent = _common(part, lacking, tolerance)
    else:
        sent = _enough(lacking, tolerance)
    return Change(stay=tuple(stay.tolist()), sent=sent)


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

    Those that bring least come first: they are below the most others. A parent that excludes by
    ceilings must not exclude one that stands for another with higher ones.
    """
    chosen: list[int] = []
    for row in np.argsort(missing.scores, kind="stable").tolist():
        stands = missing.scores[chosen] >= (1.0 - tolerance) * missing.scores[row]
        for column in missing.rates.T:
            stands &= column[chosen] <= column[row]
        if missing.ceilings is not None:
            for column in missing.ceilings.T:
                stands &= column[chosen] >= column[row]
        if not np.any(stands):
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
    if not part.links:
        closed, scores = part.drops.settle(before.rates, part.capacity)
        return np.where(closed >= 0.0, scores, np.nan)
    # Entries of the children decide, too: only rates that are in the new table are certain.
    known = {row.tobytes(): score for row, score in zip(after.rates, after.scores, strict=True)}
    return np.array([known.get(row.tobytes(), np.nan) for row in before.rates])
