"""One unit as a StreamingQuery: built, started, stopped between batches, read at the end."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.errors import InternalError, RunError
from evenflow.model.operator import Source, upstream
from evenflow.model.unit import Kind
from evenflow.spark.batch import Delivery, QueryProgress, StackBatches
from evenflow.spark.compile.answers import AnswerCompiler
from evenflow.spark.compile.entries import irregular_windows, is_narrow
from evenflow.spark.compile.stack import StackBuilder
from evenflow.spark.compile.trunk import TrunkBuilder
from evenflow.spark.late_bound import LateBound, next_batch
from evenflow.spark.source.feed import spark_path
from evenflow.spark.state_dir import write_json
from evenflow.spark.state_reader import last_open_end, open_counts
from evenflow.spark.stateless import StatelessBatches, plan_stateless
from evenflow.spark.tally import Counts, StackTally

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from evenflow.model.operator import Apply, Table
    from evenflow.model.unit import Unit
    from evenflow.spark.sink.sinks import AnswerSink
    from evenflow.spark.state_dir import UnitDirectory

_COMMIT_SECONDS = 10.0
"""How long to wait for Spark to commit a batch whose work is done."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a unit needs from the flow that it runs in."""

    session: SparkSession
    open_source: Callable[[Source], DataFrame]
    open_table: Callable[[Table], DataFrame]
    applied: Callable[[Apply], Callable[[DataFrame], DataFrame]]
    sinks: dict[str, tuple[AnswerSink, ...]]

    @property
    def on_cluster(self) -> bool:
        """Whether executors are other processes than the driver."""
        master = self.session.conf.get("spark.master", "local") or "local"
        return master != "local" and not master.startswith("local[")


class UnitRun:
    """Builds and drives one unit."""

    def __init__(self, unit: Unit, directory: UnitDirectory, around: Surroundings) -> None:
        self.unit = unit
        self.directory = directory
        self._around = around
        self._query: StreamingQuery | None = None
        self._between = threading.Lock()
        """Held while a batch works; taken by `stop`, so that no batch is cut in the middle."""
        self._stopping = False
        self._failure: str | None = None
        self._last_batch = -1
        self._frame, self._batches = self._build()
        self._load_counts(next_batch(directory.checkpoint) - 1)

    @property
    def progress(self) -> dict[str, QueryProgress]:
        """What its queries have answered."""
        return self._batches.delivery.progress

    def _build(self) -> tuple[DataFrame, StackBatches | StatelessBatches]:
        trunk = TrunkBuilder(
            source=self._around.open_source,
            pulse=None if self.unit.kind is Kind.STATELESS else self._open_pulse,
            table=self._around.open_table,
            applied=self._around.applied,
        ).build(self.unit.trunk)
        if self.unit.kind is Kind.STATELESS:
            plan = plan_stateless(self.unit, trunk)
            names = {b.number: b.query for b in plan.branches}
            return trunk.frame, StatelessBatches(plan, self._delivery(names))
        bound = LateBound(self.directory.late_bound, self.directory.checkpoint)
        bound.prepare()
        event_time = self.unit.trunk.event_time
        if event_time is None:
            raise InternalError(f"unit {self.unit.id} has windows but no event time")
        at = self.unit.trunk.schema.names.index(event_time)
        delays = [s.watermark_us for s in upstream(self.unit.trunk) if isinstance(s, Source)]
        stack = StackBuilder(
            self.unit,
            trunk.frame,
            trunk.resolve,
            event_time=F.col(f"c{at}"),
            late_bound=bound.column(self._around.session),
            delay_ms=max(delays) // 1000,
            pulse=trunk.pulse,
            failed=trunk.failed,
        ).build()
        answers, plans = AnswerCompiler(self.unit, irregular_windows(self.unit)).compile(stack)
        counts = tuple(s.name for s in self.unit.slots if s.function == "count")
        tally = StackTally(plans, counts[0], is_narrow(self.unit))
        delivery = self._delivery({p.number: p.query for p in plans})
        return answers, StackBatches(plans, counts, bound, tally, delivery)

    def _delivery(self, queries: dict[int, str]) -> Delivery:
        files = any(s.by_executors for q in self.unit.queries for s in self._around.sinks[q])
        # Without windows the first batch answers with all that has waited for the flow to begin.
        many = files and self.unit.kind is Kind.STATELESS
        return Delivery(
            self.unit.id, queries, self._around.sinks, self._around.on_cluster, many=many
        )

    def _open_pulse(self, source: Source) -> DataFrame:
        folder = self.directory.pulse(source.name)
        schema = st.StructType([st.StructField("us", st.LongType())])
        return self._around.session.readStream.schema(schema).json(spark_path(folder))

    # Life.

    def start(self, *, available_now: bool) -> None:
        """Start the StreamingQuery."""
        if isinstance(self._batches, StackBatches):
            self._batches.late_bound.prepare()
        writer = (
            self._frame.writeStream.foreachBatch(self._run_batch)
            .queryName(f"evenflow-{self.unit.id}")
            .option("checkpointLocation", str(self.directory.checkpoint))
            .outputMode("append")
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(
                processingTime=f"{max(1, round(self.unit.every * 1000))} milliseconds"
            )
        self._stopping = False
        self._query = writer.start()

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        while not self._between.acquire(timeout=0.05):
            if self._stopping:
                # `stop` waits for this thread. The batch has done nothing and is done later.
                raise RunError(f"unit {self.unit.id} is stopping")
        try:
            if batch <= self._last_batch:
                # Stopping came between its work and its commit: it is done again.
                self._load_counts(batch - 1)
                self._batches.delivery.begin_again()
            try:
                self._batches(frame, batch)
                self._save_counts(batch)
            except BaseException:
                self._load_counts(batch - 1)
                self._batches.delivery.begin_again()
                raise
            self._last_batch = batch
        finally:
            self._between.release()

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return self._query is not None and self._query.isActive

    def raise_failure(self) -> None:
        """Raise what ended the StreamingQuery, if something did.

        Raises:
            RunError: With the first line of Spark's reason.
        """
        failure = self.failure
        if failure is not None:
            raise RunError(f"unit {self.unit.id} failed: {failure}")

    @property
    def failure(self) -> str | None:
        """What ended the StreamingQuery, if it did not end by itself or because we stopped it."""
        if self._query is not None and not self._stopping:
            failure = self._query.exception()
            self._failure = None if failure is None else _reason(failure)
        return self._failure

    def stop(self) -> None:
        """Stop after the running batch, if there is one."""
        if self._query is None:
            return
        with self._between:
            self._await_commit()
            self._failure = self.failure
            self._stopping = True
            self._query.stop()

    def _await_commit(self) -> None:
        """Wait until the last batch whose work is done is committed, or else it is done again."""
        commit = self.directory.checkpoint / "commits" / str(self._last_batch)
        deadline = time.monotonic() + _COMMIT_SECONDS
        while self._last_batch >= 0 and self.active and time.monotonic() < deadline:
            if commit.exists():
                return
            time.sleep(0.01)

    def recent_progress(self) -> list[Any]:
        """Return what Spark reported of its latest batches."""
        return list(self._query.recentProgress) if self._query is not None else []

    def progress_rate(self) -> float:
        """Return input rows per second of recent batches."""
        recent = self.recent_progress()[-5:]
        rows = sum(p["numInputRows"] for p in recent)
        millis = sum(max(1, p["durationMs"].get("triggerExecution", 1)) for p in recent)
        return 1000.0 * rows / millis if millis else 0.0

    # Draining and counting.

    def pulse_to_end(self) -> bool:
        """Push event time past the last open window. Returns whether one was open."""
        if self.unit.kind is Kind.STATELESS:
            return False
        end = last_open_end(self._around.session, self.unit, self.directory.checkpoint)
        if end is None:
            return False
        for source in upstream(self.unit.trunk):
            if isinstance(source, Source):
                folder = self.directory.pulse(source.name)
                # Watermarks are whole milliseconds; round up so that the window is below it.
                us = (end // 1000 + 1) * 1000 + source.watermark_us
                number = len(list(folder.glob("*.json")))
                beside = folder / f"_{number:06d}"
                beside.write_text(json.dumps({"us": us}) + "\n")
                beside.rename(folder / f"{number:06d}.json")
        return True

    def counts(self, *, exact: bool) -> dict[str, Counts]:
        """Return counts by query; with `exact` the state is read for what is open."""
        by_query: dict[str, Counts] = {}
        if isinstance(self._batches, StatelessBatches):
            parts = dict(self._batches.counts)
            names = {b.number: b.query for b in self.unit.branches}
        else:
            state = (
                open_counts(self._around.session, self.unit, self.directory.checkpoint)
                if exact
                else None
            )
            parts = self._batches.tally.counts(state)
            names = {p.number: p.query for p in self._batches.plans}
        for number, counts in parts.items():
            by_query.setdefault(names[number], Counts()).add(counts)
        for name in self.unit.queries:
            by_query.setdefault(name, Counts())
        return by_query

    def _save_counts(self, batch: int) -> None:
        """Keep the counts after this batch and after the one before, which may be done again."""
        known = _read_json(self.directory.counts)
        kept = {n: c for n, c in known.items() if int(n) == batch - 1}
        kept[str(batch)] = self._counts_as_json()
        write_json(self.directory.counts, kept)

    def _counts_as_json(self) -> dict[str, Any]:
        answered = {
            q: [p.answers, p.answers_rejected, p.last_answer_at] for q, p in self.progress.items()
        }
        if isinstance(self._batches, StatelessBatches):
            settled, ledger = self._batches.counts, {}
        else:
            settled, ledger = self._batches.tally.settled, self._batches.tally.ledger
        fields = {n: [getattr(c, f) for f in Counts.__slots__] for n, c in settled.items()}
        return {"settled": fields, "ledger": ledger, "answered": answered}

    def _load_counts(self, batch: int) -> None:
        """Set the counts to what they were after a batch."""
        known = _read_json(self.directory.counts)
        nothing: dict[str, Any] = {"settled": {}, "ledger": {}, "answered": {}}
        saved = known.get(str(batch), nothing)
        settled = {int(n): Counts(*values) for n, values in saved["settled"].items()}
        self.progress.clear()
        for query, (answers, rejected, at) in saved["answered"].items():
            self.progress[query] = QueryProgress(answers, rejected, at)
        self._batches.restore(settled, {int(n): c for n, c in saved["ledger"].items()})


def _read_json(file: Any) -> dict[str, Any]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _reason(failure: Any) -> str:
    """Return the most telling line of a Spark failure."""
    lines = [x.strip() for x in str(failure).splitlines() if x.strip()]
    for mark in ("evenflow.errors.", "Caused by:", "Error: ", "Exception: "):
        for line in reversed(lines):
            if mark in line:
                return line.removeprefix("Caused by:").strip()[:300]
    return lines[0][:300] if lines else "unknown reason"
