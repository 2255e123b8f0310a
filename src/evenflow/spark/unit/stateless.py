"""Stateless units: many filters and projections over one scan.

The streaming query is the trunk alone. Each batch computes a mask of the branches that want a
tuple and the distinct columns that any of them selects, in one job; Arrow takes it apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Observation
from pyspark.sql import functions as F

from evenflow.model import types as t
from evenflow.model.expression import Column
from evenflow.schedule.input_gate import below_joins
from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.gates import identity_hash, threshold
from evenflow.spark.compile.sample import MOST_SAMPLES, sample_text
from evenflow.spark.compile.trunk import SHUT
from evenflow.spark.gate.shares import batch_record
from evenflow.spark.sink.demux import Apart, decode
from evenflow.spark.unit.rejects import can_reject
from evenflow.spark.unit.tally import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model.expression import Expression
    from evenflow.model.unit import Branch, Condition, Unit
    from evenflow.schedule.layout import UnitLayout
    from evenflow.spark.compile.trunk import Trunk
    from evenflow.spark.gate.history import ControlHistory
    from evenflow.spark.unit.batch import Delivery
    from evenflow.spark.unit.rejects import Rejects

SAMPLE = "_sample"
BITS = 62
"""Branches per mask column."""


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """Where a branch's tuples and columns are found in a batch's table."""

    query: str
    number: int
    mask: str
    rejects: str
    bit: int
    outputs: tuple[tuple[str, str, t.DataType], ...]
    """Name, column, type."""


@dataclass(frozen=True, slots=True)
class StatelessPlan:
    """The columns that a batch computes, and how branches read them."""

    unit: Unit
    trunk: Trunk
    values: tuple[SparkColumn, ...]
    """What branches select."""
    identity: SparkColumn
    """The hash by which gates drop tuples."""
    wanted: SparkColumn
    event_time: SparkColumn | None
    """Of a tuple, in microseconds, if it has one."""
    sampled: bool
    """Whether rejected tuples come as samples."""
    branches: tuple[BranchPlan, ...]

    def columns(self, limits: Mapping[int, int]) -> tuple[SparkColumn, ...]:
        """Return the columns.

        Args:
            limits: Thresholds of closed gates, by part.
        """
        masks: list[SparkColumn] = []
        for start in range(0, len(self.unit.branches), BITS):
            group = self.unit.branches[start : start + BITS]
            name = f"_m{start // BITS}"
            gates = {n: self.dropped(limit) for n, limit in limits.items()}
            held, failed = _masks(group, self.trunk, gates)
            masks += [held.alias(name), failed.alias(name + "r")]
        sample = [_sample(masks[1::2], self.unit, self.trunk)] if self.sampled else []
        return (*masks, *self.values, *sample) or (F.lit(0).alias("_nothing"),)

    def dropped(self, limit: int) -> SparkColumn:
        """Return whether a gate drops a tuple. All queries reject those that failed before."""
        drops = self.identity > F.lit(limit).cast(LONG)
        return drops if self.trunk.why is None else drops & self.trunk.why.isNull()


def plan_stateless(unit: Unit, trunk: Trunk, identity: str | None) -> StatelessPlan:
    """Return what a batch of a stateless unit computes.

    Args:
        unit: What to compute.
        trunk: Its tuples.
        identity: The column that tells them apart before joins; all columns together if there is
            none. What tables add is no part of it, so that it is known before them.
    """
    resolve = trunk.resolve
    outputs: dict[Expression, str] = {}
    plans: list[BranchPlan] = []
    for start in range(0, len(unit.branches), BITS):
        group = unit.branches[start : start + BITS]
        name = f"_m{start // BITS}"
        for bit, branch in enumerate(group):
            columns = []
            for output, expression in branch.outputs:
                at = outputs.setdefault(expression, f"_o{len(outputs)}")
                columns.append((output, at, expression.type))
            plans.append(
                BranchPlan(branch.query, branch.number, name, name + "r", bit, tuple(columns))
            )
    values = [compile_expression(e, resolve).value.alias(n) for e, n in outputs.items()]
    names = [f"_m{i}{r}" for i in range(-(-len(unit.branches) // BITS)) for r in ("", "r")]
    # Never TRUE, but not foldable: where nothing can be wanted, Spark would not even count.
    wanted = F.rand() + F.rand() < 0
    for name in names:
        wanted = wanted | (F.col(name) != 0)
    sampled = bool(unit.branches) and (can_reject(unit) or trunk.why is not None)
    there = trunk.operator.schema.names
    before_joins = range(len(below_joins(trunk.operator).schema))
    whole = [F.col(f"c{at}") for at in before_joins]
    told_apart_by = None if identity is None else [F.col(f"c{there.index(identity)}")]
    return StatelessPlan(
        unit=unit,
        trunk=trunk,
        values=tuple(values),
        identity=identity_hash(told_apart_by, whole),
        wanted=wanted,
        event_time=_event_time(unit, trunk),
        sampled=sampled,
        branches=tuple(plans),
    )


def _sample(rejects: Sequence[SparkColumn], unit: Unit, trunk: Trunk) -> SparkColumn:
    """Return the tuple as text if a branch rejects it, or else NULL."""
    rejected = reduce(lambda a, b: a | b, (mask != 0 for mask in rejects))
    return F.when(rejected, sample_text(unit.trunk, trunk.why)).alias(SAMPLE)


def _event_time(unit: Unit, trunk: Trunk) -> SparkColumn | None:
    name = unit.trunk.event_time
    if name is None:
        return None
    return F.unix_micros(trunk.resolve(Column((name,), t.TIMESTAMP)))


def _masks(
    group: Sequence[Branch], trunk: Trunk, gates: Mapping[int, SparkColumn]
) -> tuple[SparkColumn, SparkColumn]:
    zero = F.lit(0).cast(LONG)
    held, failed = zero, zero
    for bit, branch in enumerate(group):
        holds, fails = _verdict(branch.condition, trunk)
        one = F.lit(1 << bit).cast(LONG)
        if branch.number in gates:
            passes = ~gates[branch.number]
            holds, fails = passes & holds, None if fails is None else passes & fails
        held = held.bitwiseOR(F.when(holds, one).otherwise(zero))
        if fails is not None:
            failed = failed.bitwiseOR(F.when(fails, one).otherwise(zero))
    return held, failed


def _verdict(condition: Condition, trunk: Trunk) -> tuple[SparkColumn, SparkColumn | None]:
    compiled = compile_expression(condition.predicate, trunk.resolve)
    failures = [] if compiled.error is None else [compiled.error]
    if trunk.why is not None:
        failures.append(trunk.why.isNotNull())
    for guard in condition.guards:
        error = compile_expression(guard, trunk.resolve).error
        if error is not None:
            failures.append(F.coalesce(compiled.value, F.lit(False)) & error)
    if not failures:
        return compiled.value, None
    fails = reduce(lambda a, b: a | b, failures)
    return compiled.value & ~fails, fails


def take_branches_apart(table: pa.Table, branches: Sequence[BranchPlan]) -> Apart:
    """Take rows of a stateless unit apart. Totals are by branch number, `held` and `rejected`."""
    apart = Apart()
    if table.num_rows == 0:
        return apart
    if SAMPLE in table.column_names:
        apart.samples = _samples(table, branches)
    for plan in branches:
        bit = np.int64(1 << plan.bit)
        held = (table.column(plan.mask).to_numpy() & bit) != 0
        failed = (table.column(plan.rejects).to_numpy() & bit) != 0
        apart.totals[plan.number] = {"held": int(held.sum()), "rejected": int(failed.sum())}
        if held.any():
            rows = table.filter(pa.array(held))
            columns = [decode(rows.column(c), type_) for _, c, type_ in plan.outputs]
            apart.answers[plan.number] = pa.table(columns, names=[n for n, _, _ in plan.outputs])
    return apart


def _samples(table: pa.Table, branches: Sequence[BranchPlan]) -> list[str]:
    """Return rejected tuples, one for each set of branches that rejected some."""
    rejected = table.filter(pc.is_valid(table.column(SAMPLE)))
    masks = sorted({plan.rejects for plan in branches})
    sets = zip(*(rejected.column(mask).to_numpy() for mask in masks), strict=True)
    first: dict[tuple[int, ...], int] = {}
    for row, each in enumerate(sets):
        first.setdefault(each, row)
        if len(first) == MOST_SAMPLES:
            break
    return [rejected.column(SAMPLE)[row].as_py() for row in first.values()]


def _rejected_parts(apart: Apart) -> Iterator[int]:
    for number, totals in apart.totals.items():
        if totals["rejected"]:
            yield number


@dataclass(slots=True)
class StatelessBatches:
    """The `foreachBatch` function of a stateless unit."""

    plan: StatelessPlan
    delivery: Delivery
    layout: UnitLayout
    rejects: Rejects
    history: ControlHistory
    joins: Callable[[DataFrame], DataFrame] | None = None
    """What is left to do of a trunk that joins: tuples that meet nothing have been read, too."""
    gated: bool = False
    """Whether there is an input gate before the joins."""
    settled: dict[int, Counts] = field(default_factory=dict)
    """Counts by part."""
    read_us: int | None = None
    """The newest event time read."""

    def __post_init__(self) -> None:
        self.restore({})

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the batch: exactly one job, then files."""
        seen = read = Observation()
        observed = [F.count(F.lit(1)).alias("n")]
        if self.plan.event_time is not None:
            newest = F.max(self.plan.event_time).alias("read")
            if self.joins is None:
                observed.append(newest)
            else:
                read = Observation()
                frame = frame.observe(read, newest)
        row = self.history.of(batch)
        fractions = {b.number: row.fraction(b.number) for b in self.plan.branches}
        limits = {n: threshold(fraction) for n, fraction in fractions.items() if fraction < 1.0}
        observed += [
            F.count_if(self.plan.dropped(limit)).alias(f"gate{limit}")
            for limit in sorted(set(limits.values()))
        ]
        counted = self._joined(frame, limits).observe(seen, *observed)
        wanted = counted.select(*self.plan.columns(limits)).filter(self.plan.wanted)
        take = partial(take_branches_apart, branches=self.plan.branches)
        apart = self.delivery.deliver(wanted, batch, take, rejected=_rejected_parts, gather_by=None)
        dropped = {number: int(seen.get[f"gate{limit}"]) for number, limit in limits.items()}
        self._tell_kept(int(seen.get["n"]), dropped, fractions, batch)
        self._count(int(seen.get["n"]), apart, dropped)
        self.rejects.take(apart.samples, apart.answer_samples)
        if self.plan.event_time is not None:
            known = [us for us in (self.read_us, read.get["read"]) if us is not None]
            self.read_us = max(known, default=None)
        # Nothing is left of batches that are committed.
        self.history.needed(batch, late_ms=0, watermark_ms=0, stay_ms=0)
        self.history.begin(batch + 1)

    def _tell_kept(
        self, arrived: int, dropped: Mapping[int, int], fractions: Mapping[int, float], batch: int
    ) -> None:
        """Write beside the answers what gates let pass of the batch."""
        tuples: dict[str, tuple[int, int]] = {}
        smallest: dict[str, float] = {}
        for branch in self.plan.branches:
            if branch.number not in self.delivery.queries:
                continue  # it is kept for nobody
            query, lost = branch.query, dropped.get(branch.number, 0)
            known = tuples.get(query, (0, 0))
            tuples[query] = known[0] + arrived - lost, known[1] + lost
            smallest[query] = min(smallest.get(query, 1.0), fractions[branch.number])
        records = {
            query: [batch_record(query, batch, smallest[query], kept, lost)]
            for query, (kept, lost) in tuples.items()
            if lost
        }
        self.delivery.note_kept(tuples, records, batch)

    def _joined(self, frame: DataFrame, limits: Mapping[int, int]) -> DataFrame:
        """Return the trunk's tuples; those that no branch keeps have not been joined.

        They have their identity, and so are dropped, and counted, by the gate of every branch.
        """
        if self.joins is None:
            return frame
        if self.gated and len(limits) == len(self.plan.branches):
            frame = frame.withColumn(SHUT, self.plan.dropped(max(limits.values())))
        return self.joins(frame)

    def _count(self, tuples: int, apart: Apart, dropped: Mapping[int, int]) -> None:
        failing = self.delivery.failing_parts
        for number, fate in self.layout.era.fates.items():
            counts = self.settled[number]
            counts.arrive(tuples, fate)
            totals = apart.totals.get(number, {})
            counts.rejected += totals.get("rejected", 0)
            counts.gate += dropped.get(number, 0)
            if number in failing:
                counts.quarantined += totals.get("held", 0)
            else:
                counts.contributed += totals.get("held", 0)

    def restore(self, settled: dict[int, Counts]) -> None:
        """Set the counts."""
        self.settled = {n: settled.get(n, Counts()) for n in self.layout.numbers}
