"""How fast a unit works, out of what Spark reports of its batches and what it has counted."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenflow.spark.unit.tally import Counts

_BATCHES_SECONDS = 10.0
"""Rates of reading are over this time."""
_COUNTS_SECONDS = 60.0
"""Rates of tuples taken are over this time, because they are counted when windows close."""
_MOST = 1000


@dataclass(frozen=True, slots=True)
class PartCounts:
    """Running totals of one part."""

    arrived: int = 0
    taken: int = 0
    """Tuple-windows that its conditions and gates let through, of those that are settled."""
    answers: int = 0


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What Spark says of one batch."""

    id: tuple[str, int]
    began: float
    seconds: float
    rows: tuple[int, ...]
    """By source, in the order of the plan."""
    behind: tuple[int | None, ...]
    """What each source had and the batch did not read, if the source tells."""
    state_rows: int
    state_bytes: int
    watermark: str | None


def batch_report(progress: Mapping[str, Any]) -> BatchReport:
    """Return a report out of a StreamingQueryProgress."""
    states = progress["stateOperators"]
    sources = progress["sources"]
    return BatchReport(
        id=(str(progress["runId"]), int(progress["batchId"])),
        began=datetime.fromisoformat(progress["timestamp"]).timestamp(),
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        rows=tuple(max(0, int(each["numInputRows"])) for each in sources),
        behind=tuple(_behind(each["endOffset"], each["latestOffset"]) for each in sources),
        state_rows=sum(int(each["numRowsTotal"]) for each in states),
        state_bytes=sum(int(each["memoryUsedBytes"]) for each in states),
        watermark=(progress["eventTime"] or {}).get("watermark"),
    )


def _behind(end: Any, latest: Any) -> int | None:
    """Return how many rows a source has after an offset, if offsets are counts, as Kafka's are."""
    try:
        read, there = _counts(end), _counts(latest)
    except (TypeError, ValueError, AttributeError):
        return None
    if not there:
        return None
    return sum(max(0, count - read.get(at, 0)) for at, count in there.items())


def _counts(offset: Any) -> dict[str, int]:
    """Return the counts in an offset, by where they are in it."""
    if isinstance(offset, str):
        offset = json.loads(offset)
    if isinstance(offset, int):
        return {"": offset}
    return {
        f"{key}/{inner}": count
        for key, each in (offset or {}).items()
        for inner, count in _counts(each).items()
    }


@dataclass(slots=True)
class Pace:
    """The recent past of a unit."""

    reports: deque[BatchReport] = field(default_factory=lambda: deque(maxlen=_MOST))
    _totals: deque[tuple[float, dict[int, PartCounts]]] = field(
        default_factory=lambda: deque(maxlen=_MOST)
    )

    def note(self, progress: Mapping[str, Any] | None) -> None:
        """Take what Spark reported last, if it is news."""
        if progress is None:
            return
        report = batch_report(progress)
        if self.last is None or self.last.id != report.id:
            self.reports.append(report)

    def came_after(self, lag: int) -> float | None:
        """Return when tuples that make the answers of the next batch can have come at the earliest.

        They came since a batch found nothing more than was read before them. What a source holds
        back, because a batch may read only so much, came earlier.

        Args:
            lag: How many batches before the next one they were read: windows are closed one batch
                after the tuple that moves the watermark to their end.
        """
        known = list(self.reports)[: len(self.reports) - lag]
        if not known:
            return None
        return min(_emptied(known, source) for source in range(len(known[-1].rows)))

    def count(self, totals: dict[int, PartCounts]) -> None:
        """Take the totals after a batch."""
        now = time.monotonic()
        self._totals.append((now, totals))
        while now - self._totals[0][0] > _COUNTS_SECONDS and len(self._totals) > 2:
            self._totals.popleft()

    @property
    def last(self) -> BatchReport | None:
        """The newest report."""
        return self.reports[-1] if self.reports else None

    def read_rates(self, *, active: bool) -> tuple[float, ...]:
        """Return rows per second that were read lately, by source.

        Args:
            active: The unit runs: time in which it read nothing counts.
        """
        if not self.reports:
            return ()
        end = self.reports[-1].began + self.reports[-1].seconds
        if active:
            end = max(end, time.time())
        recent = [r for r in self.reports if end - r.began <= _BATCHES_SECONDS]
        recent = recent or [self.reports[-1]]
        seconds = max(0.001, end - recent[0].began)
        rows = zip(*(report.rows for report in recent), strict=False)
        return tuple(sum(each) / seconds for each in rows)

    def part_rates(self) -> dict[int, tuple[float, float, float]]:
        """Return arrived, taken and answers per second, by part, as far as they are known."""
        if len(self._totals) < 2:
            return {}
        (start, first), (end, last) = self._totals[0], self._totals[-1]
        seconds = max(0.001, end - start)
        return {
            number: (
                (after.arrived - before.arrived) / seconds,
                (after.taken - before.taken) / seconds,
                (after.answers - before.answers) / seconds,
            )
            for number, after in last.items()
            if (before := first.get(number)) is not None
        }


def _emptied(reports: Sequence[BatchReport], source: int) -> float:
    """Return when a batch last began that found all rows of a source that were ever read."""
    read = 0
    for report in reversed(reports):
        if source >= len(report.rows):
            break  # of a plan with fewer sources
        if (report.behind[source] or 0) <= read:
            return report.began
        read += report.rows[source]
    return reports[0].began


def part_totals(
    settled: Mapping[int, Counts], answers: Mapping[int, int], parts: Iterable[int]
) -> dict[int, PartCounts]:
    """Return running totals out of counts and delivered answers."""
    return {
        number: PartCounts(
            arrived=(counts := settled[number]).tuples_in,
            taken=counts.contributed + counts.late + counts.cut + counts.quarantined,
            answers=answers.get(number, 0),
        )
        for number in parts
        if number in settled
    }
