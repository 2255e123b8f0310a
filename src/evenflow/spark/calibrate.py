"""What tuples cost: each query alone on a sample that was recorded, less reading alone.

Queries of a stack share one stage, so that nothing tells them apart while they run. Here each is
built as it would run, over a sample in memory instead of a stream, and its work is thrown away.
What is measured is the processor time of Spark's processes, as the difference to reading alone;
the least of a few rounds. State and sinks are not in it: the factors that a running unit is
corrected by have them.

It takes all cores, so it is done before the units start. `record` reads the sources for the sample.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from evenflow.errors import RunError
from evenflow.model.costs import Costs, QueryCost
from evenflow.model.operator import Source, upstream
from evenflow.model.unit import Kind
from evenflow.schedule.cut import cut
from evenflow.schedule.input_gate import below_joins
from evenflow.spark.compile.gates import GateColumns, GatePlan
from evenflow.spark.compile.stack import Bounds, StackBuilder
from evenflow.spark.compile.trunk import TrunkBuilder
from evenflow.spark.compile.types import struct
from evenflow.spark.gate.history import OPEN
from evenflow.spark.interrupt import AnyOf, end_if_interrupted, put_off_interrupt
from evenflow.spark.processor_time import processor_seconds
from evenflow.spark.record import record, recorded_files
from evenflow.spark.session import is_one_process
from evenflow.spark.source.sources import Sources
from evenflow.spark.state.directory import StateDirectory
from evenflow.spark.unit.failure import failure_of
from evenflow.spark.unit.stateless import plan_stateless

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from evenflow.model.flow import FlowSpec
    from evenflow.model.query import Query
    from evenflow.model.unit import Unit
    from evenflow.spark.compile.trunk import Trunk

SAMPLE_ROWS = 10_000
MOST_TIMES, LEAST_TIMES = 40, 4
"""How often the sample is read at once, so that it is not too short to be measured."""
LONG_SECONDS = 3.0
"""Processor time that is enough."""
JOB_SECONDS = 0.4
"""About what a job takes without tuples."""
UNSURE_SECONDS = 0.03
"""By how much processor times of two jobs differ for no reason."""
UNSURE = 2.0
"""How many times its error a difference must be to count."""
LEAST_READING = 1e-7
"""Processor-seconds that reading a tuple takes at least: what is measured below that is noise."""
LEAST_CERTAINTY = 0.01
"""Of what was measured at all: 0 is for guesses."""
ROUNDS = 3
BUDGET_SECONDS = 60.0
"""After this the queries that are left are guessed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Rounds of one measurement, in processor-seconds per tuple."""

    rounds: tuple[float, ...]
    unsure: float = 0.0
    """How wrong they may be however alike they are."""

    @property
    def least(self) -> float:
        """The least: whatever else takes processor time, as code that is compiled, only adds."""
        return min(self.rounds)

    @property
    def error(self) -> float:
        """How far most rounds are above the least, and how wrong they may be besides.

        One alone says nothing of that: it may be wrong by half.
        """
        if len(self.rounds) == 1:
            return abs(self.least) / 2 + self.unsure
        return statistics.median(self.rounds) - self.least + self.unsure


@dataclass(frozen=True, slots=True)
class _Alone:
    """What some queries cost without the others, in processor-seconds per tuple."""

    net: float
    error: float
    """How wrong that may be."""
    trunk: float
    certainty: float

    @property
    def beyond_trunk(self) -> float:
        return max(0.0, self.net - self.trunk)

    def cost(self, row: float) -> QueryCost:
        own = self.beyond_trunk - row
        return QueryCost(trunk=self.trunk, row=row, own=own, certainty=round(self.certainty, 3))


def calibrate(
    session: SparkSession,
    spec: FlowSpec,
    folder: Path,
    *,
    rows: int = SAMPLE_ROWS,
    rounds: int = ROUNDS,
    budget: float = BUDGET_SECONDS,
    on_step: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> Costs:
    """Return what the queries of a flow cost.

    Args:
        session: Where to measure; nothing else should run there.
        spec: The flow.
        folder: For the sample.
        rows: Tuples of each source to record.
        rounds: How often each is measured.
        budget: Seconds after which it stops measuring.
        on_step: Told what is being done.
        stop: Ends it as Ctrl-C does.

    Raises:
        ConfigError: A source gave no tuples.
        RunError: A source cannot be read, or nothing could be measured.
        KeyboardInterrupt: Ctrl-C, put off until Spark has done what it was doing.
    """
    say = on_step or (lambda _: None)
    say(f"recording {rows:,} tuples of each source to measure costs")
    with put_off_interrupt() as pressed:
        interrupted = AnyOf(pressed, stop)
        record(session, spec, folder, rows, interrupted)
        say(f"measuring {len(spec.queries)} queries, each alone")
        deadline = time.monotonic() + budget
        try:
            found = _Calibration(session, spec, folder, rounds, deadline, interrupted, say).run()
        except (PySparkException, Py4JJavaError) as exc:
            raise RunError(f"Spark failed: {failure_of(str(exc)).reason}") from exc
        end_if_interrupted(interrupted)
        return found


class _Calibration:
    """Measures one flow."""

    def __init__(
        self,
        session: SparkSession,
        spec: FlowSpec,
        folder: Path,
        rounds: int,
        deadline: float,
        interrupted: AnyOf,
        say: Callable[[str], None],
    ) -> None:
        self._session = session
        self._spec = spec
        self._folder = folder
        self._rounds = rounds
        self._deadline = deadline
        self._interrupted = interrupted
        self._say = say
        self._sources = Sources(session, spec, StateDirectory(folder / "state"))
        self._cores = session.sparkContext.defaultParallelism
        self._samples: dict[str, DataFrame] = {}
        self._counts: dict[str, int] = {}
        self._reading: dict[str, float] = {}

    def run(self) -> Costs:
        try:
            for source in self._spec.sources():
                self._hold(source)
            alone: dict[str, _Alone] = {}
            for query in self._spec.queries:
                if self._is_late():
                    left = sorted({query.name for query in self._spec.queries} - set(alone))
                    self._say(f"no time is left: the costs of {', '.join(left)} are guessed")
                    break
                try:
                    alone[query.name] = self._alone((query,))
                except Exception as exc:  # noqa: BLE001  # a user's function may raise anything
                    # What fails on a tuple, or on a sample, is for the run to deal with.
                    reason = failure_of(str(exc)).reason
                    self._say(f"the cost of {query.name} is guessed: {reason}")
            rows = self._shared_rows(alone)
            return Costs(
                measured_at=time.time(),
                reading={name: self._read_one(name) for name in self._samples},
                queries={
                    name: each.cost(rows.get(name, 0.0)) for name, each in sorted(alone.items())
                },
            )
        finally:
            for sample in self._samples.values():
                sample.unpersist()

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _alone(self, queries: tuple[Query, ...]) -> _Alone:
        """Return what some queries cost without the others."""
        parts = [self._unit(unit) for unit in cut(queries)]
        return _Alone(
            net=sum(part.net for part in parts),
            error=sum(part.error for part in parts),
            trunk=max(part.trunk for part in parts),
            certainty=min(part.certainty for part in parts),
        )

    def _shared_rows(self, alone: Mapping[str, _Alone]) -> dict[str, float]:
        """Return what the row that a query shares with its family costs.

        Together the members of a family pay for one row, alone each for its own: the difference
        tells what it costs. What may come of errors alone is not counted: members that seem to
        share what they do not are kept and dropped together.
        """
        known = {query.name: query for query in self._spec.queries}
        found: dict[str, float] = {}
        for unit in cut(self._spec.queries):
            for family in unit.families:
                names = sorted({member.query for member in family.members} & set(alone))
                if len(names) < 2 or self._is_late():
                    continue
                together = self._alone(tuple(known[name] for name in names))
                apart = [alone[name].beyond_trunk for name in names]
                error = math.hypot(together.error, *(alone[name].error for name in names))
                shared = sum(apart) - together.beyond_trunk - UNSURE * error
                row = shared / (len(names) - 1)
                found |= dict.fromkeys(names, max(0.0, min(row, *apart)))
        return found

    def _hold(self, source: Source) -> None:
        schema = struct(source.schema)
        files = map(str, recorded_files(self._folder / source.name))
        frame = self._session.read.schema(schema).parquet(*files).repartition(self._cores).cache()
        self._counts[source.name] = frame.count()
        self._samples[source.name] = frame

    # Measuring.

    def _unit(self, unit: Unit) -> _Alone:
        """Return what a unit costs beyond reading, and what of it is the trunk's."""
        names = tuple(s.name for s in upstream(unit.trunk) if isinstance(s, Source))
        times = self._times(self._built(unit, LEAST_TIMES))
        reading = self._read(names)
        made = self._slope(partial(self._built, unit), names, times)
        net, trunk = beyond(made, reading), 0.0
        if len(upstream(unit.trunk)) > len(names):
            trunk = beyond(self._slope(lambda n: self._trunk(unit, n).frame, names, times), reading)
        return _Alone(
            net=net,
            error=made.error,
            trunk=min(trunk, net),
            certainty=certainty(made.error, reading + net),
        )

    def _times(self, few: DataFrame) -> int:
        """Return how often the sample is to be read, an even number."""
        _throw_away(few)  # compiles
        taken = self._seconds(partial(_throw_away, few)) - JOB_SECONDS
        wanted = LEAST_TIMES * LONG_SECONDS / max(taken, 1e-3)
        return 2 * round(max(LEAST_TIMES, min(MOST_TIMES, wanted)) / 2)

    def _slope(self, built: Callable[[int], DataFrame], names: Sequence[str], times: int) -> Timing:
        """Return what a tuple costs without what a job does: two sizes, the larger one first.

        What is compiled only when it has run for a while would count for the first of them.
        """
        many = self._measured(built(times), names, times)
        half = self._measured(built(times // 2), names, times // 2)
        found = slope(half, many, times)
        unsure = UNSURE_SECONDS / self._rows(names, times // 2)
        return replace(found, unsure=unsure)

    def _read(self, names: tuple[str, ...]) -> float:
        """Return what reading a tuple of some sources costs, without what a job does."""
        counts = [self._counts[name] for name in names]
        costs = [self._read_one(name) for name in names]
        return sum(c * n for c, n in zip(costs, counts, strict=True)) / max(1, sum(counts))

    def _read_one(self, name: str) -> float:
        if name not in self._reading:
            _throw_away(self._open(LEAST_TIMES, name))  # compiles
            found = self._slope(partial(self._open, name=name), (name,), MOST_TIMES)
            self._reading[name] = max(LEAST_READING, found.least)
        return self._reading[name]

    def _measured(self, frame: DataFrame, names: Sequence[str], times: int) -> Timing:
        rows = self._rows(names, times)
        taken: list[float] = []
        for _ in range(self._rounds):
            taken.append(self._seconds(partial(_throw_away, frame)) / rows)
            if self._is_late():
                break
        return Timing(tuple(taken))

    def _seconds(self, work: Callable[[], None]) -> float:
        """Return the processor time of some work; on a cluster, time on all cores."""
        end_if_interrupted(self._interrupted)
        own = is_one_process(self._session.conf.get("spark.master", "local") or "local")
        spent, began = processor_seconds(os.getpid()), time.monotonic()
        work()
        wall = (time.monotonic() - began) * self._cores
        after = processor_seconds(os.getpid())
        if not own or spent is None or after is None:
            return wall
        return max(0.0, after - spent)

    def _rows(self, names: Iterable[str], times: int) -> int:
        return max(1, sum(self._counts[name] for name in names) * times)

    # Building.

    def _open(self, times: int, name: str) -> DataFrame:
        frame = self._samples[name]
        if times == 1:
            return frame
        copies = F.explode(F.sequence(F.lit(1), F.lit(times)))
        return frame.withColumn("_copy", copies).drop("_copy")

    def _trunk(self, unit: Unit, times: int) -> Trunk:
        return TrunkBuilder(
            source=lambda source: self._open(times, source.name),
            pulse=None,
            table=self._sources.open_table,
            applied=self._spec.applied,
            has_misfits=lambda _: False,
        ).build(unit.trunk)

    def _built(self, unit: Unit, times: int) -> DataFrame:
        """Return what a unit computes, over the sample."""
        trunk = self._trunk(unit, times)
        if unit.kind is Kind.STATELESS:
            plan = plan_stateless(unit, trunk, self._sources.identity(below_joins(unit.trunk)))
            return trunk.frame.select(*plan.columns({})).filter(plan.wanted)
        event_time = unit.trunk.event_time
        at = unit.trunk.schema.names.index(event_time or "")
        return StackBuilder(
            unit,
            trunk.frame,
            trunk.resolve,
            event_time=F.col(f"c{at}"),
            bounds=_open_bounds(unit),
            delay_ms=0,
            pulse=None,
            why=trunk.why,
        ).build()


def slope(half: Timing, many: Timing, times: int) -> Timing:
    """Return what a tuple costs without what a job costs: planning, and code that is compiled.

    Args:
        half: The sample read half as often, per tuple.
        many: Several times at once, per tuple.
        times: How often, an even number.
    """
    least = half.least * (times // 2)
    return Timing(tuple((each * times - least) / (times - times // 2) for each in many.rounds))


def beyond(made: Timing, reading: float) -> float:
    """Return what tuples cost beyond reading them."""
    return max(0.0, made.least - reading)


def certainty(error: float, cost: float) -> float:
    """Return how sure a measurement is: 1 if its error is nothing for what tuples cost.

    That is reading included: a query that costs next to nothing beyond it is as well known.
    """
    return max(LEAST_CERTAINTY, 1 / (1 + error / max(cost, LEAST_READING)))


def _open_bounds(unit: Unit) -> Bounds:
    """Return what a batch is told in which nothing is late and all gates are open."""
    plan = GatePlan(unit)
    told = F.array(*(F.lit(number).cast("long") for number in plan.told(OPEN)))
    return Bounds(F.lit(0).cast("long"), GateColumns(plan, told, 0))


def _throw_away(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
