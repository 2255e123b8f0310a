"""One unit as a StreamingQuery: built, started, stopped between batches, read at the end."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.errors import InternalError, RunError
from evenflow.model.operator import Join, Source, upstream
from evenflow.model.query import OnError
from evenflow.model.unit import Kind
from evenflow.schedule.input_gate import below_joins, input_gate
from evenflow.spark.compile.answers import AnswerCompiler
from evenflow.spark.compile.gates import GatePlan
from evenflow.spark.compile.sample import observed_samples
from evenflow.spark.compile.shut import gated_trunk
from evenflow.spark.compile.stack import NOT_YET, StackBuilder
from evenflow.spark.compile.trunk import TrunkBuilder
from evenflow.spark.session import is_one_process
from evenflow.spark.source.feed import spark_path
from evenflow.spark.unit.batch import Delivery, QueryProgress, StackBatches
from evenflow.spark.unit.callback import Callback
from evenflow.spark.unit.checkpoint import is_planned, next_batch
from evenflow.spark.unit.failure import Failure, failure_of
from evenflow.spark.unit.giving_way import give_way
from evenflow.spark.unit.pace import Pace, part_totals
from evenflow.spark.unit.rejects import Rejects, can_reject
from evenflow.spark.unit.saved_counts import forget_failures, save_counts, saved_counts
from evenflow.spark.unit.state_reader import last_open_end, open_counts
from evenflow.spark.unit.stateless import StatelessBatches, plan_stateless
from evenflow.spark.unit.tally import Counts, StackTally
from evenflow.spark.unit.told import Told, stay_in_state_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from evenflow.model.operator import Apply, Operator, Table
    from evenflow.model.query import Query
    from evenflow.model.unit import Unit
    from evenflow.schedule.layout import UnitLayout, WrittenOff
    from evenflow.spark.gate.history import ControlHistory
    from evenflow.spark.sink.answer_sink import AnswerSink
    from evenflow.spark.state.directory import UnitDirectory

T = TypeVar("T")
_IDLE = "Waiting for"
"""How Spark begins to say that a StreamingQuery waits for data, or for its next trigger."""
_REST_BATCHES = 2
_REST_SECONDS = 10.0
"""How many batches, and how long, stopping waits for a moment without one."""
_COMMIT_SECONDS = 10.0
"""How long to wait for Spark to commit a batch whose work is done."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a unit needs from the flow that it runs in."""

    session: SparkSession
    open_source: Callable[[Source], DataFrame]
    has_misfits: Callable[[Source], bool]
    """Whether the stream of a source tells which rows do not fit its schema."""
    identity: Callable[[Operator], str | None]
    """Names the column that tells tuples of an operator apart, if there is one."""
    open_table: Callable[[Table], DataFrame]
    applied: Callable[[Apply], Callable[[DataFrame], DataFrame]]
    queries: Mapping[str, Query]
    sinks: dict[str, tuple[AnswerSink, ...]]
    """By query; it changes while units run."""
    gate_plan: Callable[[Unit], GatePlan] = GatePlan
    """Makes the gates of a unit."""

    @property
    def on_cluster(self) -> bool:
        """Whether executors are other processes than the driver."""
        return not is_one_process(self.session.conf.get("spark.master", "local") or "local")


@dataclass(frozen=True, slots=True)
class Charge:
    """What a unit is given to run."""

    unit: Unit
    layout: UnitLayout
    names: Mapping[int, str]
    """The queries of all parts, by number."""
    delivering: frozenset[str]
    """Queries whose answers go to their sinks."""


class UnitRun:
    """Builds and drives one unit, from one change to the next."""

    def __init__(
        self,
        charge: Charge,
        directory: UnitDirectory,
        around: Surroundings,
        history: ControlHistory,
    ) -> None:
        """Build the unit. Another one may still run on the same directory."""
        self.charge = charge
        self.history = history
        self.unit = charge.unit
        self.directory = directory
        self.around = around
        self._query: StreamingQuery | None = None
        self._callback = Callback()
        self._between = threading.Lock()
        """Held while a batch works; taken by `stop`, so that no batch is cut in the middle."""
        self._stopping = False
        self._failure: Failure | None = None
        self._last_batch = -1
        self.has_finished_batch = False
        """Whether a batch was finished since the last start."""
        self.batch_thread: int | None = None
        """The thread of the running batch."""
        self._observes = False
        """Whether progress tells samples of rejected tuples."""
        self._sampled: tuple[str, int] | None = None
        """The last batch whose samples were taken."""
        self.pace = Pace()
        self.started_at: float | None = None
        """When it was started last, in wall-clock seconds."""
        names = {n: q for n, q in charge.names.items() if q in charge.delivering}
        self._rejects = Rejects(around.session, charge.unit, names, directory.rejected)
        self._frame, self._batches = self._build()

    def take_over(self, layout: UnitLayout) -> None:
        """Begin where the unit stands: nothing runs on its directory now.

        Args:
            layout: As the one it was built for, with what was known only after stopping.
        """
        if isinstance(self._batches, StackBatches):
            begun = {f.number for f in self.unit.families if f.since_us == NOT_YET}
            since = [f.since_us for f in layout.families if f.number in begun]
            known = next((us for us in since if us is not None), NOT_YET)
            self._batches.take_over(layout, known)
        else:
            self._batches.layout = layout
        forget_failures(self.directory, self.charge.delivering)
        self._load_counts(next_batch(self.directory.checkpoint) - 1)

    @property
    def layout(self) -> UnitLayout:
        """What it carries, and where in its state."""
        return self._batches.layout

    @property
    def progress(self) -> dict[str, QueryProgress]:
        """What its queries have answered."""
        return self._batches.delivery.progress

    @property
    def failing(self) -> dict[str, str]:
        """Queries whose answers could not be delivered, and why."""
        return self._batches.delivery.failing

    def _build(self) -> tuple[DataFrame, StackBatches | StatelessBatches]:
        builder = TrunkBuilder(
            source=self.around.open_source,
            pulse=None if self.unit.kind is Kind.STATELESS else self._open_pulse,
            table=self.around.open_table,
            applied=self.around.applied,
            has_misfits=self.around.has_misfits,
        )
        operator = self.unit.trunk
        if self.unit.kind is Kind.STATELESS:
            trunk = (builder.begin if isinstance(operator, Join) else builder.build)(operator)
            plan = plan_stateless(self.unit, trunk, self.around.identity(below_joins(operator)))
            given = (plan, self._delivery(), self.charge.layout, self._rejects, self.history)
            gated = input_gate(self.unit) is not None
            return trunk.frame, StatelessBatches(*given, builder.joins(trunk), gated)
        told = Told(
            self.directory.told(self.unit.era),
            self.directory.checkpoint,
            self.history,
            self.around.gate_plan(self.unit),
            stay_in_state_ms(self.unit),
        )
        told.ensure()
        if operator.event_time is None:
            raise InternalError(f"unit {self.unit.id} has windows but no event time")
        event_time = F.col(f"c{operator.schema.names.index(operator.event_time)}")
        delays = [s.watermark_us for s in upstream(operator) if isinstance(s, Source)]
        begins = any(f.since_us == NOT_YET for f in self.unit.families)
        bounds = told.columns(self.around.session, since=begins)
        trunk = gated_trunk(builder, self.unit, bounds.gates, event_time)
        stack = StackBuilder(
            self.unit,
            trunk.frame,
            trunk.resolve,
            event_time=event_time,
            bounds=bounds,
            delay_ms=max(delays) // 1000,
            pulse=trunk.pulse,
            why=trunk.why,
        ).build()
        answers, plans = AnswerCompiler(self.unit).compile(stack)
        counts = tuple(s.name for s in self.unit.slots if s.function == "count")
        tally = StackTally(self.charge.layout)
        self._observes = trunk.why is not None or can_reject(self.unit)
        return answers, StackBatches(plans, counts, told, tally, self._delivery(), self._rejects)

    def _delivery(self) -> Delivery:
        delivering = self.charge.delivering
        queries = {n: q for n, q in self.charge.names.items() if q in delivering}
        files = any(s.by_executors for q in delivering for s in self.around.sinks[q])
        asked = self.around.queries
        strict = {n for n, q in queries.items() if asked[q].on_error is OnError.QUARANTINE}
        return Delivery(
            self.unit.id,
            queries,
            self.around.sinks,
            self.around.on_cluster,
            self.directory.shares,
            strict=frozenset(strict),
            # Without windows the first batch answers with all that has waited for the flow.
            many=files and self.unit.kind is Kind.STATELESS,
        )

    def _open_pulse(self, source: Source) -> DataFrame:
        folder = self.directory.pulse(source.name)
        schema = st.StructType([st.StructField("us", st.LongType())])
        return self.around.session.readStream.schema(schema).json(spark_path(folder))

    # Life.

    def start(self, *, available_now: bool) -> None:
        """Start the StreamingQuery."""
        batch = next_batch(self.directory.checkpoint)
        if not is_planned(self.directory.checkpoint, batch):
            self.history.begin(batch)
        if isinstance(self._batches, StackBatches):
            self._batches.told.prepare()
            self.directory.forget_told(before=self.unit.era)
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
        self.has_finished_batch = False
        self._callback.end()
        self.started_at = time.time()
        self._query = writer.start()

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        while not self._between.acquire(timeout=0.05):
            if self._stopping:
                # `stop` waits for this thread. The batch has done nothing and is done later.
                give_way(f"unit {self.unit.id} is stopping")
        self.batch_thread = threading.get_ident()
        self._callback.note()
        try:
            if batch <= self._last_batch:
                # Stopping came between its work and its commit: it is done again.
                self._load_counts(batch - 1)
                self._batches.delivery.begin_again()
            try:
                self._note_progress()
                lag = 0 if self.unit.kind is Kind.STATELESS else 1
                self._batches.delivery.arrived_after = self.pace.came_after(lag)
                self._batches(frame, batch)
                self._save_counts(batch)
                self._count_pace()
            except BaseException:
                self._load_counts(batch - 1)
                self._batches.delivery.begin_again()
                raise
            self._last_batch = batch
            self.has_finished_batch = True
        finally:
            self.batch_thread = None
            self._between.release()

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return self._query is not None and self._query.isActive

    @property
    def has_settled(self) -> bool:
        """Whether it has finished a batch since its start, or there is nothing for it to do.

        Spark says the latter in words. Should it say it in others, it has not settled.
        """
        if self.has_finished_batch or self._query is None or not self._query.isActive:
            return True
        return str(self._query.status["message"]).startswith(_IDLE)

    def raise_failure(self) -> None:
        """Raise what ended the StreamingQuery, if something did.

        Raises:
            RunError: With the first line of Spark's reason.
        """
        failure = self.failure
        if failure is not None:
            raise RunError(f"unit {self.unit.id} failed: {failure.reason}")

    @property
    def failure(self) -> Failure | None:
        """What ended the StreamingQuery, if it did not end by itself or because we stopped it."""
        if self._query is not None and not self._stopping:
            found = self._query.exception()
            self._failure = None if found is None else failure_of(str(found))
        return self._failure

    def carries(self, numbers: Collection[int]) -> bool:
        """Whether it carries one of some parts."""
        return not self.layout.numbers.isdisjoint(numbers)

    def stop(self) -> None:
        """Stop after the running batch, if there is one."""
        if self._query is None:
            return
        self._await_rest()
        with self._between:
            self._await_commit()
            self._failure = self.failure
            self._stopping = True
            self._query.stop()
            self._callback.end()
        self._note_progress()
        self._rejects.look()

    def close(self) -> None:
        """Let go of the StreamingQuery, which has stopped and is not started again.

        It refers to our batches and we to it, from one process to the other, where no collector
        of garbage sees the circle: both would stay for ever, with plans and all.
        """
        self._query = None

    def _note_progress(self) -> None:
        """Take what Spark reports of the last batch that is done."""
        last = self.update_pace()
        if last is None or not self._observes:
            return
        batch = (str(last["runId"]), int(last["batchId"]))
        if batch != self._sampled:
            self._sampled = batch
            self._rejects.take(observed_samples(last["observedMetrics"]), {})

    def update_pace(self) -> Any:
        """Take what Spark reported last, for whoever asks how fast it works, and return it."""
        query = self._query
        last = None if query is None else query.lastProgress
        self.pace.note(last)
        return last

    def _count_pace(self) -> None:
        answered = self._batches.delivery.answered
        self.pace.count(part_totals(self._batches.settled, answered, self.layout.numbers))

    def _await_rest(self) -> None:
        """Wait until it waits for its next trigger, unless it never does.

        A batch that has begun to plan when it is stopped takes most of a second to give way.
        """
        query, last = self._query, self._last_batch + _REST_BATCHES
        deadline = time.monotonic() + _REST_SECONDS
        while query is not None and query.isActive and query.status["isTriggerActive"]:
            if self._last_batch >= last or time.monotonic() > deadline:
                return
            time.sleep(0.01)

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

    @property
    def read_sources(self) -> list[str]:
        """Its sources, as often and in the order in which its plan reads them."""
        return [each.name for each in upstream(self.unit.trunk) if isinstance(each, Source)]

    def by_source(self, values: Sequence[T]) -> list[tuple[str, T]]:
        """Return values that Spark tells for each input of the plan, with the source's name."""
        # A source of a unit with windows is followed by its pulse.
        own = values if self.unit.kind is Kind.STATELESS else values[::2]
        return list(zip(self.read_sources, own, strict=False))

    # Draining and counting.

    def pulse_to_end(self) -> bool:
        """Push event time past the last open window. Returns whether one was open."""
        if self.unit.kind is Kind.STATELESS:
            return False
        end = last_open_end(self.around.session, self.unit, self.directory.checkpoint)
        if end is None:
            return False
        # Watermarks are whole milliseconds; round up so that the window is below it.
        self.pulse((end // 1000 + 1) * 1000)
        return True

    def pulse(self, us: int) -> None:
        """Push the watermark to an event time."""
        for source in upstream(self.unit.trunk):
            if isinstance(source, Source):
                folder = self.directory.pulse(source.name)
                number = len(list(folder.glob("*.json")))
                beside = folder / f"_{number:06d}"
                beside.write_text(json.dumps({"us": us + source.watermark_us}) + "\n")
                beside.rename(folder / f"{number:06d}.json")

    def counts(self, *, exact: bool) -> dict[str, Counts]:
        """Return counts by query; with `exact` the state is read for what is open.

        Batches wait while the state is read.
        """
        parts = self._batches.settled
        if isinstance(self._batches, StackBatches):
            if exact:
                with self._between:
                    self._await_commit()
                    parts = self._batches.tally.counts(self._state())
            else:
                parts = self._batches.tally.counts()
        by_query: dict[str, Counts] = {}
        for number, counts in parts.items():
            by_query.setdefault(self.charge.names[number], Counts()).add(counts)
        return by_query

    def written_off(self, numbers: Collection[int]) -> dict[int, WrittenOff]:
        """Return what the state holds of parts whose leases end. The unit has stopped."""
        if not isinstance(self._batches, StackBatches):
            return {}
        state = self._state()
        return {number: self._batches.tally.written_off(number, state) for number in numbers}

    def _state(self) -> dict[int, dict[str, int]]:
        return open_counts(self.around.session, self.unit, self.directory.checkpoint)

    def _save_counts(self, batch: int) -> None:
        counted = {
            "settled": {
                str(n): [getattr(c, f) for f in Counts.__slots__]
                for n, c in self._batches.settled.items()
            },
            "answered": {
                q: [p.answers, p.answers_rejected, p.last_answer_at, p.kept, p.lost]
                for q, p in self.progress.items()
            },
            "failing": dict(self.failing),
            "narrow": self.layout.narrow,
            "read_us": self._read_us,
        }
        save_counts(self.directory, batch, counted)

    @property
    def _read_us(self) -> int | None:
        """The newest event time read, where no watermark tells it."""
        return self._batches.read_us if isinstance(self._batches, StatelessBatches) else None

    def _load_counts(self, batch: int) -> None:
        """Set the counts to what they were after a batch."""
        saved = saved_counts(self.directory, batch)
        if isinstance(self._batches, StatelessBatches):
            self._batches.read_us = saved["read_us"]
        self._batches.restore({int(n): Counts(*values) for n, values in saved["settled"].items()})
        own = set(self.charge.names.values())
        self.progress.clear()
        for query, (answers, rejected, at, *tuples) in saved["answered"].items():
            if query in own:
                known = tuples if len(tuples) == 2 else ()  # it was a share once
                self.progress[query] = QueryProgress(answers, rejected, at, None, *known)
        self.failing.clear()
        self.failing.update(saved["failing"])
        if saved["narrow"] and not self.layout.narrow and isinstance(self._batches, StackBatches):
            self._batches.tally.widen(self._state())
