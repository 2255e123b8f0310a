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
from pyspark.sql import Observation
from pyspark.sql import functions as F

from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.sink.demux import Apart, decode
from evenflow.spark.tally import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model import types as t
    from evenflow.model.expression import Expression
    from evenflow.model.unit import Branch, Condition, Unit
    from evenflow.spark.batch import Delivery
    from evenflow.spark.compile.trunk import Trunk

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

    columns: tuple[SparkColumn, ...]
    wanted: SparkColumn
    branches: tuple[BranchPlan, ...]


def plan_stateless(unit: Unit, trunk: Trunk) -> StatelessPlan:
    """Return what a batch of a stateless unit computes."""
    resolve = trunk.resolve
    outputs: dict[Expression, str] = {}
    plans: list[BranchPlan] = []
    masks: list[SparkColumn] = []
    for start in range(0, len(unit.branches), BITS):
        group = unit.branches[start : start + BITS]
        name = f"_m{start // BITS}"
        held, failed = _masks(group, trunk)
        masks += [held.alias(name), failed.alias(name + "r")]
        for bit, branch in enumerate(group):
            columns = []
            for output, expression in branch.outputs:
                at = outputs.setdefault(expression, f"_o{len(outputs)}")
                columns.append((output, at, expression.type))
            plans.append(
                BranchPlan(branch.query, branch.number, name, name + "r", bit, tuple(columns))
            )
    values = [compile_expression(e, resolve).value.alias(n) for e, n in outputs.items()]
    names = [f"_m{i}{r}" for i in range(len(masks) // 2) for r in ("", "r")]
    # Never TRUE, but not foldable: where nothing can be wanted, Spark would not even count.
    wanted = F.rand() + F.rand() < 0
    for name in names:
        wanted = wanted | (F.col(name) != 0)
    return StatelessPlan((*masks, *values), wanted, tuple(plans))


def _masks(group: Sequence[Branch], trunk: Trunk) -> tuple[SparkColumn, SparkColumn]:
    zero = F.lit(0).cast(LONG)
    held, failed = zero, zero
    for bit, branch in enumerate(group):
        holds, fails = _verdict(branch.condition, trunk)
        one = F.lit(1 << bit).cast(LONG)
        held = held.bitwiseOR(F.when(holds, one).otherwise(zero))
        if fails is not None:
            failed = failed.bitwiseOR(F.when(fails, one).otherwise(zero))
    return held, failed


def _verdict(condition: Condition, trunk: Trunk) -> tuple[SparkColumn, SparkColumn | None]:
    compiled = compile_expression(condition.predicate, trunk.resolve)
    failures = [e for e in (compiled.error, trunk.failed) if e is not None]
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


@dataclass(slots=True)
class StatelessBatches:
    """The `foreachBatch` function of a stateless unit."""

    plan: StatelessPlan
    delivery: Delivery
    counts: dict[int, Counts] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the batch: exactly one job, then files."""
        seen = Observation()
        counted = frame.observe(seen, F.count(F.lit(1)).alias("n"))
        wanted = counted.select(*self.plan.columns).filter(self.plan.wanted)
        take = partial(take_branches_apart, branches=self.plan.branches)
        apart = self.delivery.deliver(wanted, batch, take, gather_by=None)
        tuples = int(seen.get["n"])
        for plan in self.plan.branches:
            counts = self.counts.setdefault(plan.number, Counts())
            totals = apart.totals.get(plan.number, {})
            counts.tuples_in += tuples
            counts.contributed += totals.get("held", 0)
            counts.rejected += totals.get("rejected", 0)

    def restore(self, settled: dict[int, Counts], ledger: dict[int, int]) -> None:  # noqa: ARG002
        """Set the counts; a stateless unit has no ledger."""
        self.counts = dict(settled)
