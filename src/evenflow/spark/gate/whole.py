"""Which answers are whole: those of which no gate dropped a tuple.

Gates may close, or close further, while a window is open. What a gate dropped leaves the state
with the answers of the same window, and tells the smallest fraction by which something was dropped
there. A group whose hash is within that was kept in every batch; of the others tuples may be
missing, so they are not answered, and what they hold is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evenflow.spark.compile.gates import ONE, threshold
from evenflow.spark.compile.keys import BITS, HASH
from evenflow.spark.compile.stack import END

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from evenflow.spark.compile.answers import AnswerPlan
    from evenflow.spark.gate.history import GateRow

    Numbers = NDArray[Any]


def share_of(kept: int, lost: int) -> float:
    """Return the share kept of some tuples; 1 if there are none."""
    return kept / (kept + lost) if lost else 1.0


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a query, or of one of its parts, of which gates may have dropped something."""

    end_us: int
    """Its last microsecond."""
    fraction: float
    """The smallest by which something of it was dropped, of those in force in its life."""
    kept: int
    """Tuples that contributed."""
    dropped: int
    cut: int

    @property
    def share(self) -> float:
        """The share kept of its tuples."""
        return share_of(self.kept, self.dropped + self.cut)

    def with_part(self, other: Window) -> Window:
        """Return the window together with what another part has in it."""
        return Window(
            self.end_us,
            min(self.fraction, other.fraction),
            self.kept + other.kept,
            self.dropped + other.dropped,
            self.cut + other.cut,
        )


@dataclass(frozen=True, slots=True)
class Parted:
    """The rows of a family, of which gates dropped some windows of some keys."""

    whole: pa.Table | None
    cut: int
    """Tuples in the others."""
    windows: list[Window]


class FamilyRows:
    """What a batch closed of a family, by window; looked up once for all its parts."""

    def __init__(self, family: pa.Table | None, dropped: pa.Table) -> None:
        """Find the windows.

        Args:
            family: Its rows, if there are any.
            dropped: What its gates dropped.
        """
        self.family = family
        self.dropped = dropped
        self.ends, self.dropped_at = np.unique(_ends(dropped), return_inverse=True)
        """Ends of the windows of which gates dropped something, and for each row of it which."""
        self.versions, self.version_at = np.unique(
            dropped.column(BITS).to_numpy(), return_inverse=True
        )
        """Of the gates that dropped."""
        self.at = np.empty(0, dtype=np.intp) if family is None else self._windows_of(_ends(family))
        """For each row of the family, which of the windows; the one after the last if none."""

    def _windows_of(self, ends: Numbers) -> Numbers:
        at = np.searchsorted(self.ends, ends)
        known = np.append(self.ends, 0)[at] == ends
        return np.where(known & (at < len(self.ends)), at, len(self.ends))

    def sums(self, at: Numbers, tuples: Numbers) -> Numbers:
        """Return how many tuples there are by window, and last in no window that is known."""
        found = np.zeros(len(self.ends) + 1, dtype=np.int64)
        np.add.at(found, at, tuples)
        return found


def split_windows(rows: FamilyRows, plan: AnswerPlan, gates: Mapping[int, GateRow]) -> Parted:
    """Return which rows of a family are whole for a part.

    Args:
        rows: Of the family.
        plan: The part.
        gates: What gates kept, by version. Of one that is not known, nothing counts as kept.
    """
    missing = _tuples(rows.dropped, plan)
    limits = _limits(rows, missing > 0, plan, gates)
    missed = rows.sums(rows.dropped_at, missing)
    kept = cut = np.zeros(len(limits), dtype=np.int64)
    whole = None
    if rows.family is not None:
        tuples = _tuples(rows.family, plan)
        is_whole = rows.family.column(HASH).to_numpy() <= limits[rows.at]
        kept = rows.sums(rows.at[is_whole], tuples[is_whole])
        cut = rows.sums(rows.at[~is_whole], tuples[~is_whole])
        whole = rows.family.filter(pa.array(is_whole))
    windows = [
        Window(
            int(rows.ends[i]),
            (int(limits[i]) + 1) / ONE,
            int(kept[i]),
            int(missed[i]),
            int(cut[i]),
        )
        for i in np.flatnonzero(missed)
    ]
    return Parted(whole, int(cut.sum()), windows)


def untouched(family: pa.Table, plan: AnswerPlan, but: Collection[int]) -> list[Window]:
    """Return the windows of a part of which gates dropped nothing.

    Args:
        family: Rows of its family.
        plan: The part.
        but: Ends of the others.
    """
    ends, at = np.unique(_ends(family), return_inverse=True)
    kept = np.zeros(len(ends), dtype=np.int64)
    np.add.at(kept, at, _tuples(family, plan))
    there = zip(ends.tolist(), kept.tolist(), strict=True)
    return [Window(end, 1.0, tuples, 0, 0) for end, tuples in there if tuples and end not in but]


def _limits(
    rows: FamilyRows, drops: Numbers, plan: AnswerPlan, gates: Mapping[int, GateRow]
) -> Numbers:
    """Return the smallest threshold by which something of a window was dropped, for a part.

    Args:
        rows: Of its family.
        drops: For each row of what was dropped, whether there is something for the part.
        plan: The part.
        gates: What gates kept, by version.
    """
    by_version = np.array(
        [_threshold(gates.get(version), plan) for version in rows.versions.tolist()],
        dtype=np.int64,
    )
    limits = np.full(len(rows.ends) + 1, ONE - 1, dtype=np.int64)
    np.minimum.at(limits, rows.dropped_at[drops], by_version[rows.version_at[drops]])
    return limits


def _threshold(row: GateRow | None, plan: AnswerPlan) -> int:
    return threshold(0.0 if row is None else max(map(row.fraction, plan.sharing)))


def _ends(table: pa.Table) -> Numbers:
    return table.column(END).cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]


def _tuples(table: pa.Table, plan: AnswerPlan) -> Numbers:
    return table.column(plan.count).to_numpy()  # type: ignore[no-any-return]
