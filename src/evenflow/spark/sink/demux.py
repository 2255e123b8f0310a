"""Taking the stack's output apart into answers per query, with Arrow, on driver or executors."""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import types as t
from evenflow.spark.compile.answers import AnswerPlan, Copy, Part, Quotient
from evenflow.spark.compile.entries import GATED
from evenflow.spark.compile.keys import FAMILY
from evenflow.spark.compile.sample import MOST_SAMPLES
from evenflow.spark.compile.stack import END
from evenflow.spark.compile.types import to_arrow
from evenflow.spark.gate.whole import FamilyRows, Window, split_windows, untouched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.spark.gate.history import GateRow

_MOST_ANSWERS = 2
"""Rejected answers of a query that are shown, per batch."""

Totals = dict[int, dict[str, int]]
"""Sums of count columns, per family number."""


class Rows:
    """The rows of one batch, sorted so that each family is one slice."""

    def __init__(self, table: pa.Table) -> None:
        families = table.column(FAMILY).to_numpy()
        order = np.argsort(families, kind="stable")
        self._table = table.take(pa.array(order)).combine_chunks()
        numbers, starts = np.unique(families[order], return_index=True)
        ends = np.append(starts[1:], len(families))
        self._slices = {
            int(n): (int(a), int(b)) for n, a, b in zip(numbers, starts, ends, strict=True)
        }

    def of(self, family: int) -> pa.Table | None:
        """Return the rows of one family, if there are any."""
        if family not in self._slices:
            return None
        start, end = self._slices[family]
        return self._table.slice(start, end - start)

    def totals(self, counts: Sequence[str]) -> Totals:
        """Return the sums of count columns, per family."""
        return {
            family: {
                name: int(pc.sum(self._table.column(name).slice(a, b - a)).as_py() or 0)
                for name in counts
            }
            for family, (a, b) in self._slices.items()
        }


@dataclass(slots=True)
class Apart:
    """What a batch's rows say."""

    answers: dict[int, pa.Table] = field(default_factory=dict)
    """By member number."""
    answers_rejected: dict[int, int] = field(default_factory=dict)
    totals: Totals = field(default_factory=dict)
    samples: list[str] = field(default_factory=list)
    """Some of the tuples that were rejected."""
    answer_samples: dict[int, list[str]] = field(default_factory=dict)
    """Some of the answers that were, by part."""
    cut: dict[int, int] = field(default_factory=dict)
    """By part, tuples of windows that are not answered because gates dropped the rest."""
    windows: dict[int, list[Window]] = field(default_factory=dict)
    """By part, windows of which gates dropped something; all, of a query of several parts."""

    def add(self, other: Apart) -> None:
        """Add what another part of the batch's rows says."""
        for number, table in other.answers.items():
            known = self.answers.get(number)
            self.answers[number] = table if known is None else pa.concat_tables([known, table])
        for number, count in other.answers_rejected.items():
            self.answers_rejected[number] = self.answers_rejected.get(number, 0) + count
        for family, sums in other.totals.items():
            known_sums = self.totals.setdefault(family, {})
            for name, value in sums.items():
                known_sums[name] = known_sums.get(name, 0) + value
        for number, count in other.cut.items():
            self.cut[number] = self.cut.get(number, 0) + count
        for number, windows in other.windows.items():
            self.windows.setdefault(number, []).extend(windows)
        self.samples = [*self.samples, *other.samples][:MOST_SAMPLES]
        self.answer_samples.update(other.answer_samples)


def take_apart(
    table: pa.Table,
    plans: Sequence[AnswerPlan],
    counts: Sequence[str],
    gates: Mapping[int, GateRow],
) -> Apart:
    """Take rows of a stack apart.

    Args:
        table: The rows; all of a family are there.
        plans: How answers are made.
        counts: Columns that count.
        gates: What gates kept, by version.
    """
    apart = Apart()
    if table.num_rows == 0:
        return apart
    rows = Rows(table)
    apart.totals = rows.totals(counts)
    gated = _gated(rows, plans)
    unions = _unions(plans) if gates or gated else ()
    for plan in plans:
        family = rows.of(plan.family)
        if plan.family in gated:
            parted = split_windows(gated[plan.family], plan, gates)
            family = parted.whole
            apart.cut[plan.number] = parted.cut
            apart.windows[plan.number] = parted.windows
        if family is not None and plan.query in unions:
            named = apart.windows.setdefault(plan.number, [])
            named += untouched(family, plan, {window.end_us for window in named})
        made, rejected = answers(family, plan)
        if made is not None:
            apart.answers[plan.number] = made
        if rejected is not None:
            apart.answers_rejected[plan.number] = rejected.num_rows
            apart.answer_samples[plan.number] = _samples(rejected)
    return apart


def _gated(rows: Rows, plans: Sequence[AnswerPlan]) -> dict[int, FamilyRows]:
    """Return, by number, the families of which gates dropped something."""
    found = {}
    for family in {plan.family for plan in plans}:
        dropped = rows.of(GATED + family)
        if dropped is not None:
            found[family] = FamilyRows(rows.of(family), dropped)
    return found


def _unions(plans: Sequence[AnswerPlan]) -> set[str]:
    """Return the queries that have several parts."""
    seen = Counter(plan.query for plan in plans)
    return {query for query, parts in seen.items() if parts > 1}


def answers(table: pa.Table | None, plan: AnswerPlan) -> tuple[pa.Table | None, pa.Table | None]:
    """Return a query's answers, and those that were rejected; None where there are none.

    Args:
        table: The rows of its family, if there are any.
        plan: How answers are made.
    """
    if table is None:
        return None, None
    keep = pc.greater(table.column(plan.count), 0)
    rejected = []
    if plan.errors:
        rejected.append(pc.and_(keep, _any(table, plan.errors)))
        keep = pc.and_not(keep, rejected[-1])
    if plan.having is not None:
        keep = pc.and_(keep, pc.fill_null(table.column(plan.having), False))
    if plan.output_errors:
        rejected.append(pc.and_(keep, _any(table, plan.output_errors)))
        keep = pc.and_not(keep, rejected[-1])
    return _answers(table, keep, plan), (
        _answers(table, functools.reduce(pc.or_, rejected), plan) if rejected else None
    )


def _answers(table: pa.Table, keep: pa.ChunkedArray, plan: AnswerPlan) -> pa.Table | None:
    table = table.filter(keep)
    if table.num_rows == 0:
        return None
    columns = [_part(table, part, plan) for _, part in plan.outputs]
    return pa.table(columns, names=[name for name, _ in plan.outputs])


def _any(table: pa.Table, errors: Sequence[str]) -> pa.ChunkedArray | pa.Array:
    """Return which rows have one of some errors."""
    found = pa.array(np.zeros(table.num_rows, dtype=bool))
    for name in errors:
        found = pc.or_(found, pc.fill_null(table.column(name), False))
    return found


def _samples(rejected: pa.Table) -> list[str]:
    return [json.dumps(row, default=str) for row in rejected.slice(0, _MOST_ANSWERS).to_pylist()]


def answer_schema(outputs: Sequence[tuple[str, t.DataType]]) -> pa.Schema:
    """Return the Arrow schema of a query's answers."""
    return pa.schema([pa.field(name, to_arrow(type_)) for name, type_ in outputs])


def _part(table: pa.Table, part: Part, plan: AnswerPlan) -> pa.ChunkedArray | pa.Array:
    if isinstance(part, Copy):
        return decode(table.column(part.column), part.type)
    if isinstance(part, Quotient):
        count = table.column(part.count)
        total = table.column(part.total)
        values = pc.if_else(pc.greater(count, 0), count, pa.scalar(None, pa.int64()))
        return pc.divide(total, values.cast(pa.float64()))
    end = pc.add(table.column(END).cast(pa.int64()), 1)
    start = pc.subtract(end, plan.size_us)
    moment = to_arrow(t.TIMESTAMP)
    if part.part == "start":
        return start.cast(moment)
    if part.part == "end":
        return end.cast(moment)
    both = [start.cast(moment).combine_chunks(), end.cast(moment).combine_chunks()]
    return pa.StructArray.from_arrays(both, names=["start", "end"])


def decode(column: pa.ChunkedArray, type_: t.DataType) -> pa.ChunkedArray:
    """Return a column in its own type, whatever carried it."""
    wanted = to_arrow(type_)
    if column.type == wanted:
        return column
    if pa.types.is_int64(column.type):
        if isinstance(type_, t.BooleanType):
            return pc.not_equal(column, 0)
        if isinstance(type_, t.DateType):
            return column.cast(pa.int32()).cast(wanted)
    return column.cast(wanted)
