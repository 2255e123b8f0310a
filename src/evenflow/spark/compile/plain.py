"""Plain Spark: each query as a user would run it, alone. The yardstick of `compare` and of tests.

Nothing here knows of families or slots. Predicates are kept above the watermark, which is the
source's over all its tuples; `pushed` leaves them where Spark puts them, for showing where a
query alone would differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.model import types as t
from evenflow.model.expression import Case, Column
from evenflow.model.operator import Aggregate, Source
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.trunk import TrunkBuilder, positional, resolver

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model.expression import AggregateCall, Expression
    from evenflow.model.operator import Apply, Operator, Table
    from evenflow.model.query import Query
    from evenflow.spark.compile.columns import Resolve


class PlainBuilder(TrunkBuilder):
    """Compiles whole queries, aggregates included, operator by operator."""

    def __init__(
        self,
        *,
        source: Callable[[Source], DataFrame],
        table: Callable[[Table], DataFrame],
        applied: Callable[[Apply], Callable[[DataFrame], DataFrame]],
        pushed: bool = False,
    ) -> None:
        super().__init__(source=source, pulse=None, table=table, applied=applied)
        self._pushed = pushed

    def query(self, query: Query) -> DataFrame:
        """Return a query's answers under their names."""
        return self.compile(query.operator).toDF(*query.schema.names)

    def compile(self, operator: Operator) -> DataFrame:
        """Return the output of any operator, columns in order."""
        if isinstance(operator, Source):
            return self._watermarked(operator)
        if isinstance(operator, Aggregate):
            return self._aggregated(operator)
        return super().compile(operator)

    def _watermarked(self, source: Source) -> DataFrame:
        frame = positional(self._source(source), source)
        if source.event_time is None:
            return frame
        at = source.schema.names.index(source.event_time)
        marked = frame.withWatermark(f"c{at}", f"{source.watermark_us // 1000} milliseconds")
        if self._pushed:
            return marked
        return marked.filter(F.rand() + F.rand() >= 0)

    def _aggregated(self, aggregate: Aggregate) -> DataFrame:
        below = aggregate.input
        resolve = resolver(below)
        frame = self.compile(below)
        for expression in _needed(aggregate):
            error = compile_expression(expression, resolve).error
            if error is not None:
                frame = frame.filter(~error)
        at = below.schema.names.index(below.event_time or "")
        size = f"{aggregate.window.size_us} microseconds"
        slide = f"{aggregate.window.slide_us} microseconds"
        window = F.window(F.col(f"c{at}"), size, slide).alias("_w")
        keys = [
            compile_expression(e, resolve).value.alias(f"_k{i}")
            for i, (_, e) in enumerate(aggregate.keys)
        ]
        values = [
            _call(call, resolve).alias(f"_a{i}") for i, (_, call) in enumerate(aggregate.aggregates)
        ]
        calls = [call for _, call in aggregate.aggregates]
        seen = {i: _values(c, resolve) for i, c in enumerate(calls) if _can_overflow(c)}
        values += [column.alias(f"_n{i}") for i, column in seen.items()]
        grouped = frame.groupBy(window, *keys)
        made = grouped.agg(*values) if values else grouped.agg(F.count(F.lit(1)).alias("_n"))
        for i in seen:
            # An answer that overflows is rejected: no value although there were some.
            made = made.filter(F.col(f"_a{i}").isNotNull() | (F.col(f"_n{i}") == 0))
        columns = [F.col(f"_k{i}") for i in range(len(keys))] + [F.col("_w")]
        columns += [F.col(f"_a{i}") for i in range(len(calls))]
        return made.select(*(c.alias(f"c{i}") for i, c in enumerate(columns)))


def _needed(aggregate: Aggregate) -> list[Expression]:
    needed = [e for _, e in aggregate.keys]
    for _, call in aggregate.aggregates:
        if call.condition is None or call.argument is None:
            needed += [e for e in (call.argument, call.condition) if e is not None]
        else:
            # What FILTER leaves out is not evaluated.
            needed.append(Case(((call.condition, call.argument),), None, call.argument.type))
    return [e for e in needed if not isinstance(e, Column)]


def _can_overflow(call: AggregateCall) -> bool:
    type_ = None if call.argument is None else call.argument.type
    return call.function in ("sum", "avg") and (
        isinstance(type_, t.DecimalType) or (type_ == t.BIGINT and call.function == "sum")
    )


def _values(call: AggregateCall, resolve: Resolve) -> SparkColumn:
    """Return how many values an aggregate has seen."""
    return F.count(_input(call, resolve))


def _input(call: AggregateCall, resolve: Resolve) -> SparkColumn:
    value = F.lit(1) if call.argument is None else compile_expression(call.argument, resolve).value
    if call.condition is not None:
        value = F.when(compile_expression(call.condition, resolve).value, value)
    return value


def _call(call: AggregateCall, resolve: Resolve) -> SparkColumn:
    value = _input(call, resolve)
    match call.function:
        case "count":
            return F.count(value)
        case "sum":
            return F.try_sum(value) if _can_overflow(call) else F.sum(value)
        case "avg":
            return F.try_avg(value) if _can_overflow(call) else F.avg(value)
        case "min":
            return F.min(value)
        case "max":
            return F.max(value)
        case "stddev":
            return F.stddev(value)
        case _:
            return F.approx_count_distinct(value)
