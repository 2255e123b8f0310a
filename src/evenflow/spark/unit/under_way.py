"""The batch that a unit is working on, which Spark reports only when it is done.

Spark writes down how far a batch will read before it begins. Sources that count their rows in that
tell how many there are: Kafka, and our own. Files do not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.spark.unit.checkpoint import HEADER

if TYPE_CHECKING:
    from pathlib import Path

ROWS = "rows"
"""Where our own sources count, in their offsets."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A batch that has begun."""

    number: int
    began: float
    """Wall-clock seconds: when it was known what it reads."""
    rows: tuple[int | None, ...]
    """By source, in the order of the plan."""


def batch_under_way(checkpoint: Path, done: int) -> UnderWay | None:
    """Return the batch after one that is done, if it has begun and not ended.

    Args:
        checkpoint: Of the unit.
        done: The last batch that Spark reported; -1 before the first.
    """
    number = done + 1
    log = checkpoint / "offsets" / str(number)
    try:
        began = log.stat().st_mtime
        if is_committed(checkpoint, number):
            return None
        ends = log.read_text().splitlines()[HEADER:]
        before = checkpoint / "offsets" / str(done)
        starts = before.read_text().splitlines()[HEADER:] if done >= 0 else ["-"] * len(ends)
    except OSError:
        # Not begun, or cleaned away while we looked.
        return None
    return UnderWay(number, began, tuple(map(rows_between, starts, ends)))


def is_committed(checkpoint: Path, batch: int) -> bool:
    """Return whether a batch is over, whether Spark has reported it or not."""
    return (checkpoint / "commits" / str(batch)).exists()


def offset_lines(checkpoint: Path, batch: int) -> list[str]:
    """Return how far a batch reads each source of the plan; nothing if that is not known."""
    try:
        return (checkpoint / "offsets" / str(batch)).read_text().splitlines()[HEADER:]
    except OSError:
        return []


def rows_between(start: str, end: str) -> int | None:
    """Return how many rows lie between two offsets, if they count rows."""
    first, last = _counts(start), _counts(end)
    if last is None:
        return None
    first = first or {}
    return sum(max(0, count - first.get(at, 0)) for at, count in last.items())


def _counts(offset: str) -> dict[str, int] | None:
    """Return what an offset counts, by where."""
    parsed = _parsed(offset)
    if parsed is None:
        return None
    if isinstance(parsed.get(ROWS), int):
        return {ROWS: parsed[ROWS]}
    found: dict[str, int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            return None
        for partition, count in partitions.items():
            if not isinstance(count, int):
                return None
            found[f"{topic}/{partition}"] = count
    return found


def _parsed(offset: str) -> dict[str, Any] | None:
    try:
        parsed: Any = json.loads(offset)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and parsed else None
