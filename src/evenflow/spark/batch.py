"""One micro-batch of a unit: from Spark's rows to answers in their sinks and counts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.spark.compile.keys import FAMILY
from evenflow.spark.sink.demux import Apart, take_apart
from evenflow.spark.sink.remote import deliver_remotely

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from evenflow.spark.compile.answers import AnswerPlan
    from evenflow.spark.late_bound import LateBound
    from evenflow.spark.sink.sinks import AnswerSink
    from evenflow.spark.tally import Counts, StackTally

_WRITERS = 4
MANY_ANSWERS = 500_000
"""Above this many rows in a batch the next one is written by executors, even in one process."""


@dataclass(slots=True)
class QueryProgress:
    """What a query has answered so far."""

    answers: int = 0
    answers_rejected: int = 0
    last_answer_at: float | None = None
    """Wall-clock seconds at which the newest answer became visible."""


@dataclass(slots=True)
class Delivery:
    """Brings a unit's answers to their sinks, through the driver or by the executors.

    Few answers are collected and written here, one file per query. Many, or any on a cluster,
    are written by the tasks that hold them, and only counts come back.
    """

    unit: str
    queries: Mapping[int, str]
    """Query names by member number."""
    sinks: Mapping[str, tuple[AnswerSink, ...]]
    on_cluster: bool
    progress: dict[str, QueryProgress] = field(default_factory=dict)
    many: bool = False
    """The batch to come may have many answers."""
    _first: bool = True
    """No batch has been delivered yet: the next one may be one that is done again."""

    def deliver(
        self,
        frame: DataFrame,
        batch: int,
        take: Callable[[pa.Table], Apart],
        *,
        gather_by: str | None,
    ) -> Apart:
        """Run the batch's one job and deliver its answers.

        Args:
            frame: The batch.
            batch: Its number.
            take: Takes a table of its rows apart.
            gather_by: Column by which rows of a query are brought together before executors
                write them, so that there is one file; None leaves them where they are.
        """
        if self._by_executors:
            gathered = frame if gather_by is None else frame.repartition(gather_by)
            apart, rows, written = deliver_remotely(
                gathered, take, self.queries, self.sinks, self.unit, batch
            )
        else:
            apart = take(frame.toArrow())
            rows = {number: table.num_rows for number, table in apart.answers.items()}
            written = set()
        written |= self._write(apart, batch, remote=self._by_executors)
        if self._first:
            self._remove_others(batch, written)
            self._first = False
        self._note(apart, rows)
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
            for sink in self.sinks.get(query, ()):
                for file in sink.files(self.unit, batch):
                    if str(file) not in written:
                        file.unlink(missing_ok=True)

    def _write(self, apart: Apart, batch: int, *, remote: bool) -> set[str]:
        """Write what the driver has to, and return the files."""
        by_query: dict[str, list[pa.Table]] = {}
        for number, table in sorted(apart.answers.items()):
            by_query.setdefault(self.queries[number], []).append(table)
        jobs = [
            (sink, tables)
            for query, tables in by_query.items()
            for sink in self.sinks.get(query, ())
            if not (remote and sink.by_executors)
        ]
        if len(jobs) == 1:
            self._write_one(*jobs[0], batch)
        elif jobs:
            with ThreadPoolExecutor(_WRITERS) as pool:
                done = [pool.submit(self._write_one, *job, batch) for job in jobs]
                for each in done:
                    each.result()
        return {str(sink.target(self.unit, batch)) for sink, _ in jobs if sink.by_executors}

    def _write_one(self, sink: AnswerSink, tables: list[pa.Table], batch: int) -> None:
        """Write the parts of a query, of which a UNION ALL has several, as one."""
        sink.write(pa.concat_tables(tables), self.unit, batch)

    def _note(self, apart: Apart, rows: Mapping[int, int]) -> None:
        now = time.time()
        for number, count in rows.items():
            progress = self.progress.setdefault(self.queries[number], QueryProgress())
            progress.answers += count
            progress.last_answer_at = now
        for number, count in apart.answers_rejected.items():
            progress = self.progress.setdefault(self.queries[number], QueryProgress())
            progress.answers_rejected += count


@dataclass(slots=True)
class StackBatches:
    """The `foreachBatch` function of a stack. Spark calls it for one batch at a time."""

    plans: tuple[AnswerPlan, ...]
    counts: tuple[str, ...]
    """Columns that hold counts."""
    late_bound: LateBound
    tally: StackTally
    delivery: Delivery

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the batch: exactly one job, then files."""
        take = partial(take_apart, plans=self.plans, counts=self.counts)
        apart = self.delivery.deliver(frame, batch, take, gather_by=FAMILY)
        self.tally.batch(apart.totals)
        self.late_bound.batch_done(batch)

    def restore(self, settled: dict[int, Counts], ledger: dict[int, int]) -> None:
        """Set the counts of what has left the state."""
        self.tally.restore(settled, ledger)
