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
    from collections.abc import Mapping

    from evenflow.spark.compile.answers import AnswerPlan
    from evenflow.spark.gate.history import GateRow


@dataclass(frozen=True, slots=True)
class Window:
    """A window of which gates dropped something, for one part of a query."""

    end_us: int
    """Its last microsecond."""
    share: float
    """Of its keys, those that were kept."""
    kept: int
    """Tuples in its answers."""
    dropped: int
    cut: int


@dataclass(frozen=True, slots=True)
class Parted:
    """The rows of a family, of which gates dropped some windows of some keys."""

    whole: pa.Table | None
    cut: int
    """Tuples in the others."""
    windows: list[Window]


def split_windows(
    family: pa.Table | None,
    dropped: pa.Table,
    plan: AnswerPlan,
    gates: Mapping[int, GateRow],
) -> Parted:
    """Return which rows of a family are whole for a part.

    Args:
        family: Its rows, if there are any.
        dropped: What its gates dropped.
        plan: The part.
        gates: What gates kept, by version. Of one that is not known, nothing counts as kept.
    """
    limits, missed = _dropped(dropped, plan, gates)
    if family is None:
        lost = [Window(end, (most + 1) / ONE, 0, missed[end], 0) for end, most in limits.items()]
        return Parted(None, 0, lost)
    ends = family.column(END).cast(pa.int64()).to_numpy()
    tuples = family.column(plan.count).to_numpy()
    limit = np.array([limits.get(int(end), ONE - 1) for end in ends], dtype=np.int64)
    whole = family.column(HASH).to_numpy() <= limit
    windows = []
    for end, most in limits.items():
        here = ends == end
        kept, cut = int(tuples[here & whole].sum()), int(tuples[here & ~whole].sum())
        windows.append(Window(end, (most + 1) / ONE, kept, missed[end], cut))
    return Parted(family.filter(pa.array(whole)), int(tuples[~whole].sum()), windows)


def _dropped(
    dropped: pa.Table, plan: AnswerPlan, gates: Mapping[int, GateRow]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the smallest threshold, and how many tuples were dropped, by end of window."""
    limits: dict[int, int] = {}
    missed: dict[int, int] = {}
    ends = dropped.column(END).cast(pa.int64()).to_pylist()
    versions = dropped.column(BITS).to_pylist()
    for end, version, count in zip(
        ends, versions, dropped.column(plan.count).to_pylist(), strict=True
    ):
        if not count:
            continue
        row = gates.get(version)
        fraction = 0.0 if row is None else max(map(row.fraction, plan.sharing))
        limits[end] = min(limits.get(end, ONE), threshold(fraction))
        missed[end] = missed.get(end, 0) + count
    return limits, missed
