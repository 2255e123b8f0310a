"""One micro-batch of a unit: from Spark's rows to answers in their sinks and counts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from evenflow.errors import SinkError
from evenflow.spark.compile.entries import GATED, MOST_FAMILIES
from evenflow.spark.compile.keys import FAMILY
from evenflow.spark.gate.shares import has_no_place, window_records, write_beside, write_in_state
from evenflow.spark.gate.whole import share_of
from evenflow.spark.sink.demux import Apart, take_apart
from evenflow.spark.sink.kafka import KafkaSink, write_together
from evenflow.spark.sink.remote import deliver_remotely

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from evenflow.schedule.layout import UnitLayout
    from evenflow.spark.compile.answers import AnswerPlan
    from evenflow.spark.gate.shares import Record
    from evenflow.spark.gate.whole import Window
    from evenflow.spark.sink.answer_sink import AnswerSink
    from evenflow.spark.unit.rejects import Rejects
    from evenflow.spark.unit.tally import Counts, StackTally
    from evenflow.spark.unit.told import Told

_Job = tuple[str, "AnswerSink", list[pa.Table]]
"""A query, one of its sinks, and the answers of its parts."""
WRITERS = "evenflow-writer"
"""How the names of threads begin that write to sinks."""
_MOST_WRITERS = 4
MANY_ANSWERS = 500_000
"""Above this many rows in a batch the next one is written by executors, even in one process."""


@dataclass(slots=True)
class QueryProgress:
    """What a query has answered so far."""

    answers: int = 0
    answers_rejected: int = 0
    last_answer_at: float | None = None
    """Wall-clock seconds at which the newest answer became visible."""
    delay_seconds: float | None = None
    """How long ago, at most, what completed the newest answer had arrived when it became visible,
    unless the source held it back."""
    kept: int = 0
    """Tuples that contributed, of the windows that closed last; without windows, those of the last
    batch that its gate let pass."""
    lost: int = 0
    """Tuples of these windows, or of this batch, that gates dropped, or cut."""

    @property
    def share_kept(self) -> float:
        """The share kept of the tuples of the windows that closed last, or of the last batch."""
        return share_of(self.kept, self.lost)


@dataclass(slots=True)
class Delivery:
    """Brings a unit's answers to their sinks, through the driver or by the executors.

    Few answers are collected and written here, one file per query. Many, or any on a cluster,
    are written by the tasks that hold them, and only counts come back.
    """

    unit: str
    queries: Mapping[int, str]
    """Queries whose answers are delivered, by the numbers of their parts."""
    sinks: Mapping[str, tuple[AnswerSink, ...]]
    on_cluster: bool
    shares: Path | None = None
    """Where in the state directory it is told what gates left."""
    strict: frozenset[int] = frozenset()
    """Parts that answer nothing once one of their tuples or answers was rejected."""
    progress: dict[str, QueryProgress] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    """Queries whose answers could not be delivered, and why. They get none from then on."""
    many: bool = False
    """The batch to come may have many answers."""
    arrived_after: float | None = None
    """Wall-clock seconds after which the batch's tuples arrived: when the batch before began."""
    answered: dict[int, int] = field(default_factory=dict)
    """Answers delivered by this process, by part."""
    answering: frozenset[int] = frozenset()
    """Parts that had answers in the last batch."""
    _first: bool = True
    """No batch has been delivered yet: the next one may be one that is done again."""

    def deliver(
        self,
        frame: DataFrame,
        batch: int,
        take: Callable[[pa.Table], Apart],
        *,
        rejected: Callable[[Apart], Iterable[int]],
        gather_by: Column | None,
    ) -> Apart:
        """Run the batch's one job and deliver its answers.

        Args:
            frame: The batch.
            batch: Its number.
            take: Takes a table of its rows apart.
            rejected: Returns the parts of which the batch rejected something.
            gather_by: By what rows of a query are brought together before executors write
                them, so that there is one file; None leaves them where they are.
        """
        if self._by_executors:
            gathered = frame if gather_by is None else frame.repartition(gather_by)
            done = deliver_remotely(gathered, take, self._targets(batch), frozenset(self._inline()))
            apart, rows, written = done.apart, done.rows, done.files
            for number, reason in done.failures.items():
                self._fail(number, reason)
        else:
            apart = take(frame.toArrow())
            rows = {number: table.num_rows for number, table in apart.answers.items()}
            written = set()
        apart.answers = {n: table for n, table in apart.answers.items() if n in self.queries}
        for number in self.strict & set(rejected(apart)):
            self._fail(number, "a tuple or an answer could not be computed")
        written |= self._write(apart, batch, remote=self._by_executors)
        if self._first:
            self._remove_others(batch, written)
            self._first = False
        delivered = set(self.queries) - self.failing_parts
        rows = {n: count for n, count in rows.items() if n in delivered}
        self._note(apart, rows)
        self.answering = frozenset(rows)
        self.many = sum(rows.values()) > MANY_ANSWERS
        return apart

    @property
    def _by_executors(self) -> bool:
        return self.on_cluster or self.many

    def begin_again(self) -> None:
        """Expect a batch that has been delivered before."""
        self._first = True

    def _remove_others(self, batch: int, written: set[str]) -> None:
        """Remove what an earlier attempt at the batch wrote under names that this one did not.

        The number of tasks, or who writes, may have changed between the two.
        """
        for query in set(self.queries.values()):
            try:
                for sink in self.sinks.get(query, ()):
                    for file in sink.files(self.unit, batch):
                        if str(file) not in written:
                            file.unlink(missing_ok=True)
            except (SinkError, OSError) as exc:
                # They would be answers that are there twice.
                self.failing.setdefault(query, f"cannot remove what was written before: {exc}")

    # Who writes what.

    @property
    def failing_parts(self) -> frozenset[int]:
        """The parts of failing queries."""
        return frozenset(n for n, query in self.queries.items() if query in self.failing)

    def _fail(self, number: int, reason: str) -> None:
        self.failing.setdefault(self.queries[number], reason)

    def _targets(self, batch: int) -> dict[int, list[tuple[str, str]]]:
        """Return format and file of what executors write, by part."""
        targets: dict[int, list[tuple[str, str]]] = {}
        for number, query in self.queries.items():
            if number in self.strict or query in self.failing:
                continue
            for sink in self.sinks.get(query, ()):
                if sink.by_executors:
                    target = sink.target(self.unit, batch, f"-{number}")
                    targets.setdefault(number, []).append((sink.format, str(target)))
        return targets

    def _inline(self) -> Iterator[int]:
        """Yield the parts whose answers the driver must have."""
        for number, query in self.queries.items():
            if number in self.strict or any(not s.by_executors for s in self.sinks.get(query, ())):
                yield number

    def _write(self, apart: Apart, batch: int, *, remote: bool) -> set[str]:
        """Write what the driver has to, and return the files."""
        by_query: dict[str, list[pa.Table]] = {}
        alone: set[str] = set()
        for number, table in sorted(apart.answers.items()):
            by_query.setdefault(self.queries[number], []).append(table)
            if number in self.strict:
                alone.add(self.queries[number])
        jobs = [
            (query, sink, tables)
            for query, tables in by_query.items()
            if query not in self.failing
            for sink in self.sinks.get(query, ())
            if not (remote and sink.by_executors and query not in alone)
        ]
        groups = _written_together(jobs)
        if len(groups) == 1:
            self._write_group(groups[0], batch)
        elif groups:
            with ThreadPoolExecutor(_MOST_WRITERS, WRITERS) as pool:
                for done in [pool.submit(self._write_group, group, batch) for group in groups]:
                    done.result()
        return {str(sink.target(self.unit, batch)) for _, sink, _ in jobs if sink.by_executors}

    def _write_group(self, jobs: list[_Job], batch: int) -> None:
        """Write what may go out at once; what does not, alone."""
        topics = [(s, pa.concat_tables(t)) for _, s, t in jobs if isinstance(s, KafkaSink)]
        try:
            if len(topics) > 1 and write_together(topics, self.unit, batch):
                return
        except SinkError as exc:
            self.failing.update({q: exc.message for q, _, _ in jobs if q not in self.failing})
            return
        for job in jobs:
            self._write_one(*job, batch)

    def _write_one(self, query: str, sink: AnswerSink, tables: list[pa.Table], batch: int) -> None:
        """Write the parts of a query, of which a UNION ALL has several, as one.

        Whatever a sink raises is its query's trouble, and nobody else's.
        """
        try:
            sink.write(pa.concat_tables(tables), self.unit, batch)
        except SinkError as exc:
            self.failing.setdefault(query, exc.message)
        except Exception as exc:  # noqa: BLE001  # a function of the user's
            self.failing.setdefault(query, f"its sink failed: {type(exc).__name__}: {exc}"[:300])

    def note_kept(
        self,
        tuples: Mapping[str, tuple[int, int]],
        records: Mapping[str, Sequence[Record]],
        batch: int,
    ) -> None:
        """Take what gates left of the windows that a batch has closed, or of the batch.

        Args:
            tuples: By query, how many were kept, and how many were not. Where there were none,
                nothing new is told.
            records: By query, what is written of it; nothing if nothing was dropped.
            batch: Which.
        """
        for query, (kept, lost) in tuples.items():
            if kept or lost:
                progress = self.progress.setdefault(query, QueryProgress())
                progress.kept, progress.lost = kept, lost
        in_state: list[Record] = []
        for query, told in sorted(records.items()):
            sinks = self.sinks.get(query, ())
            if not told or query in self.failing:
                continue
            try:
                write_beside(sinks, told, self.unit, batch)
            except SinkError as exc:
                self.failing.setdefault(query, exc.message)
            if has_no_place(sinks):
                in_state += told
        if self.shares is not None:
            write_in_state(self.shares, in_state, self.unit, batch)

    def _note(self, apart: Apart, rows: Mapping[int, int]) -> None:
        now = time.time()
        for number, count in rows.items():
            progress = self.progress.setdefault(self.queries[number], QueryProgress())
            progress.answers += count
            progress.last_answer_at = now
            if self.arrived_after is not None:
                progress.delay_seconds = now - self.arrived_after
            self.answered[number] = self.answered.get(number, 0) + count
        for number, count in apart.answers_rejected.items():
            if number not in self.queries:
                continue
            progress = self.progress.setdefault(self.queries[number], QueryProgress())
            progress.answers_rejected += count


@dataclass(slots=True)
class StackBatches:
    """The `foreachBatch` function of a stack. Spark calls it for one batch at a time."""

    plans: tuple[AnswerPlan, ...]
    """Also of parts that are kept: what of their windows is not whole is cut as well."""
    counts: tuple[str, ...]
    """Columns that hold counts."""
    told: Told
    tally: StackTally
    delivery: Delivery
    rejects: Rejects

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the batch: exactly one job, then files."""
        gates = self.told.in_state(batch)
        take = partial(take_apart, plans=self.plans, counts=self.counts, gates=gates)
        apart = self.delivery.deliver(
            frame,
            batch,
            take,
            rejected=self._rejected_parts,
            gather_by=F.col(FAMILY) % MOST_FAMILIES,
        )
        self._tell_kept(apart, batch)
        self.tally.batch(apart.totals, self.delivery.failing_parts, apart.cut)
        samples = apart.answer_samples
        self.rejects.take((), {n: samples[n] for n in samples if n in self.delivery.queries})
        self.told.batch_done(batch)

    def _tell_kept(self, apart: Apart, batch: int) -> None:
        """Write beside the answers what gates left of the windows that were closed."""
        tuples: dict[str, tuple[int, int]] = {}
        windows: dict[str, list[tuple[int, Window]]] = {}
        for plan in self.plans:
            if plan.number not in self.delivery.queries:
                continue
            there = apart.totals.get(plan.family, {}).get(plan.count, 0)
            dropped = apart.totals.get(GATED + plan.family, {}).get(plan.count, 0)
            cut = apart.cut.get(plan.number, 0)
            kept, lost = tuples.get(plan.query, (0, 0))
            tuples[plan.query] = kept + there - cut, lost + dropped + cut
            closed = ((plan.size_us, each) for each in apart.windows.get(plan.number, ()))
            windows.setdefault(plan.query, []).extend(closed)
        records = {query: window_records(query, found) for query, found in windows.items()}
        self.delivery.note_kept(tuples, records, batch)

    @property
    def layout(self) -> UnitLayout:
        """What the unit carries."""
        return self.tally.layout

    @property
    def settled(self) -> dict[int, Counts]:
        """Counts of what has left the state, by part."""
        return self.tally.settled

    def take_over(self, layout: UnitLayout, since_us: int) -> None:
        """Go on with a layout, in which new families begin after an event time."""
        self.tally.layout = layout
        self.told.since_us = since_us

    def restore(self, settled: dict[int, Counts]) -> None:
        """Set the counts of what has left the state."""
        self.tally.restore(settled)

    def _rejected_parts(self, apart: Apart) -> Iterator[int]:
        yield from apart.answers_rejected
        yield from self.tally.rejecting(apart.totals)


def _written_together(jobs: Iterable[_Job]) -> list[list[_Job]]:
    """Return the jobs in groups: topics on the same servers, and everything else by itself."""
    groups: dict[object, list[_Job]] = {}
    for job in jobs:
        sink = job[1]
        shared = tuple(sorted(sink.options.items())) if isinstance(sink, KafkaSink) else id(sink)
        groups.setdefault(shared, []).append(job)
    return list(groups.values())
