"""Trunks: the operators below all queries of a unit, as DataFrames with positional column names.

Columns are called `c0`, `c1`, ... here and above, so that no name a user chose reaches Spark's
parser. The watermark is set at the source, over all its tuples, and nothing is pushed below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenflow.errors import ConfigError, InternalError
from evenflow.graph.explain.wording import failure_text
from evenflow.model.failure import can_fail
from evenflow.model.operator import (
    Apply,
    Join,
    JoinType,
    Select,
    Source,
    Table,
    Union,
    Where,
)
from evenflow.schedule.input_gate import below_joins
from evenflow.spark.compile.columns import Compiled, compile_expression
from evenflow.spark.compile.types import from_spark, to_spark

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model import types as t
    from evenflow.model.expression import Column, Expression
    from evenflow.model.operator import Operator
    from evenflow.spark.compile.columns import Resolve

OpenSource = Callable[[Source], "DataFrame"]
"""Gives a source's stream under the names of its schema."""
OpenPulse = Callable[[Source], "DataFrame"]
"""Gives the pulse of a source: one column `us`, an event time in microseconds."""
OpenTable = Callable[[Table], "DataFrame"]
Applied = Callable[[Apply], Callable[["DataFrame"], "DataFrame"]]

MISFIT = "_misfit"
"""Of a source's stream: the text of a row that does not fit the schema, NULL where it does."""
WHY = "_why"
"""Why an operator of the trunk failed on a tuple, NULL where none did."""
_MOST_TEXT = 1000
"""Of a row that does not fit."""
_MET = "_met"
"""TRUE on rows that found their like in a table."""
SHUT = "_shut"
"""TRUE on tuples that an input gate drops. They pass joins, each as one row, and ask nothing: they
are counted behind them."""


@dataclass(frozen=True, slots=True)
class Trunk:
    """A trunk as a stream."""

    frame: DataFrame
    operator: Operator
    pulse: SparkColumn | None
    """Not NULL on rows that only move event time; None if there are none left."""
    why: SparkColumn | None = None
    """Why an operator of the trunk failed on a tuple, NULL where none did; None if none can."""

    @property
    def resolve(self) -> Resolve:
        """Finds the operator's columns in the frame."""
        return resolver(self.operator)


def resolver(operator: Operator) -> Resolve:
    """Return where the columns of an operator's output are found."""
    places = {name: index for index, name in enumerate(operator.schema.names)}

    def resolve(column: Column) -> SparkColumn:
        found = F.col(f"c{places[column.path[0]]}")
        return reduce(lambda value, name: value.getField(name), column.path[1:], found)

    return resolve


class TrunkBuilder:
    """Builds trunks out of what the shell can open."""

    def __init__(
        self,
        *,
        source: OpenSource,
        pulse: OpenPulse | None,
        table: OpenTable,
        applied: Applied,
        has_misfits: Callable[[Source], bool] = lambda _: False,
    ) -> None:
        self._source = source
        self._has_misfits = has_misfits
        """Whether the stream of a source has the column `MISFIT`."""
        self._pulse = pulse
        """None for units without windows, which need no event time."""
        self._table = table
        self._tables: dict[str, DataFrame] = {}
        """Those that were opened, by hash: what they hold is looked up once."""
        self._applied = applied

    def build(self, operator: Operator) -> Trunk:
        """Return the operator's output as a stream."""
        if isinstance(operator, Source):
            frame, pulse = self._open(operator)
            return Trunk(frame, operator, pulse, F.col(WHY) if WHY in frame.columns else None)
        if not self._can_fail(operator):
            return Trunk(self.compile(operator), operator, None)
        return Trunk(self._with_failed(operator), operator, None, F.col(WHY))

    def begin(self, operator: Operator) -> Trunk:
        """Return the operator's output as it is before its last joins, which `finish` adds."""
        below = below_joins(operator)
        if self._can_fail(operator):
            return Trunk(self._with_failed(below), operator, None, F.col(WHY))
        return Trunk(self.compile(below), operator, None)

    def finish(self, operator: Operator, begun: DataFrame, *, seen: bool = False) -> DataFrame:
        """Return the operator's output, of what has begun; it may say which tuples are shut.

        Args:
            operator: As begun.
            begun: Its tuples before the joins.
            seen: All of them are looked at: Spark must not leave them out where none can be joined.
        """
        if not isinstance(operator, Join):
            return begun
        return self._joined(operator, self.finish(operator.input, begun, seen=seen), seen=seen)

    def joins(self, trunk: Trunk) -> Callable[[DataFrame], DataFrame] | None:
        """Return what is left to do of a trunk that has begun; None if nothing is.

        It sees all tuples. Tables are opened now: one that cannot be is refused here, not later.
        """
        if not isinstance(trunk.operator, Join):
            return None
        finish = partial(self.finish, trunk.operator, seen=True)
        finish(trunk.frame)
        return finish

    def _with_failed(self, operator: Operator) -> DataFrame:
        """Return the operator's output, and beside it the tuples that failed on the way.

        Every query of the unit rejects those, and counts them.
        """
        match operator:
            case Source():
                frame, pulse = self._open(operator)
                if pulse is not None:
                    frame = _without_pulse(frame, pulse)
                return frame if WHY in frame.columns else _with_why(frame)
            case Where(input=below, predicate=predicate):
                held = compile_expression(predicate, resolver(below))
                frame = self._with_failed(below).withColumn(WHY, _or_why([predicate], [held]))
                return frame.filter(F.col(WHY).isNotNull() | held.value)
            case Select(input=below, columns=columns):
                resolve = resolver(below)
                expressions = [e for _, e in columns]
                made = [compile_expression(e, resolve) for e in expressions]
                named = [each.value.alias(f"c{i}") for i, each in enumerate(made)]
                why = _or_why(expressions, made)
                return self._with_failed(below).select(*named, why.alias(WHY))
            case Union(inputs=inputs):
                return reduce(lambda a, b: a.unionByName(b), map(self._with_failed, inputs))
            case Join():
                return self._joined(operator, self._with_failed(operator.input))
            case _:
                return _with_why(self.compile(operator))

    def _can_fail(self, operator: Operator) -> bool:
        """Whether a trunk, down to where a user's function begins, can fail on a tuple."""
        match operator:
            case Source():
                return self._has_misfits(operator)
            case Where(input=below, predicate=predicate):
                return can_fail(predicate) or self._can_fail(below)
            case Select(input=below, columns=columns):
                return any(can_fail(e) for _, e in columns) or self._can_fail(below)
            case Union(inputs=inputs):
                return any(map(self._can_fail, inputs))
            case Join(input=below, keys=keys):
                return any(can_fail(e) for e, _ in keys) or self._can_fail(below)
            case _:
                return False

    def _open(self, source: Source) -> tuple[DataFrame, SparkColumn | None]:
        """Return a source's tuples, with `WHY` if some may not fit, and which are the pulse's."""
        frame = positional(self._source(source), source, kept=(MISFIT,))
        if MISFIT in frame.columns:
            why = F.concat(
                F.lit("does not fit the schema: "), F.left(F.col(MISFIT), F.lit(_MOST_TEXT))
            )
            frame = frame.withColumn(WHY, why).drop(MISFIT)
        if self._pulse is None or source.event_time is None:
            return frame, None
        at = source.schema.names.index(source.event_time)
        pulse = self._pulse(source).select(
            *(
                F.timestamp_micros(F.col("us")).alias(f"c{i}")
                if i == at
                else _unknown_null(f.type).alias(f"c{i}")
                for i, f in enumerate(source.schema)
            ),
            *([F.lit(None).cast("string").alias(WHY)] if WHY in frame.columns else []),
            F.lit(True).alias("_is_pulse"),
        )
        both = frame.withColumn("_is_pulse", F.lit(None).cast("boolean")).unionByName(pulse)
        delay = f"{source.watermark_us // 1000} milliseconds"
        return both.withWatermark(f"c{at}", delay), F.col("_is_pulse")

    def compile(self, operator: Operator) -> DataFrame:
        """Return the operator's output without the pulse."""
        match operator:
            case Source():
                return _that_fit(*self._open(operator))
            case Where(input=below, predicate=predicate):
                compiled = compile_expression(predicate, resolver(below))
                held = compiled.value
                if compiled.error is not None:
                    held = held & ~compiled.error
                return self.compile(below).filter(held)
            case Select(input=below, columns=columns):
                return self._selected(below, tuple(e for _, e in columns))
            case Union(inputs=inputs):
                return reduce(lambda a, b: a.unionByName(b), map(self.compile, inputs))
            case Join():
                return self._joined(operator, self.compile(operator.input))
            case Apply():
                return self._apply(operator)
            case _:
                raise InternalError(f"{operator.kind} cannot be a trunk")

    def _selected(self, below: Operator, columns: tuple[Expression, ...]) -> DataFrame:
        resolve = resolver(below)
        made = [compile_expression(e, resolve) for e in columns]
        frame = _without_errors(self.compile(below), made)
        return frame.select(*(each.value.alias(f"c{i}") for i, each in enumerate(made)))

    def _joined(self, join: Join, left: DataFrame, *, seen: bool = False) -> DataFrame:
        """Return the join; tuples that failed before, or whose key fails, are in it if they stay.

        They stay where `left` says which tuples failed; and so do those that are shut.
        """
        resolve = resolver(join.input)
        shut = SHUT in left.columns
        keys = [compile_expression(e, resolve) for e, _ in join.keys]
        keys = [_unless_shut(key) for key in keys] if shut else keys
        names = join.table.schema.names
        right = self._open_table(join.table)
        right = right.select(*(F.col(quoted(n)).alias(f"r{i}") for i, n in enumerate(names)))
        equal = reduce(
            lambda a, b: a & b,
            (
                _unless_it_fails(key) == F.col(f"r{names.index(column)}")
                for key, (_, column) in zip(keys, join.keys, strict=True)
            ),
        )
        inner = join.join_type is JoinType.INNER
        stay = WHY in left.columns
        if stay:
            left = left.withColumn(WHY, _or_why([e for e, _ in join.keys], keys))
        else:
            left = _without_errors(left, keys)
        if inner and (stay or shut or seen):
            joined = left.join(F.broadcast(right.withColumn(_MET, F.lit(True))), equal, "left")
            held = F.col(_MET).isNotNull()
            held = F.col(WHY).isNotNull() | held if stay else held
            held = F.col(SHUT) | held if shut else held
            # Spark would take it for an inner join again.
            joined = joined.filter(held.eqNullSafe(_barrier()) if seen else held)
        else:
            joined = left.join(F.broadcast(right), equal, "inner" if inner else "left")
        width = len(join.input.schema)
        columns = [F.col(f"c{i}") for i in range(width)]
        columns += [F.col(f"r{i}").alias(f"c{width + i}") for i in range(len(names))]
        return joined.select(*columns, *([WHY] if stay else []), *([SHUT] if shut else []))

    def _open_table(self, table: Table) -> DataFrame:
        if table.hash not in self._tables:
            self._tables[table.hash] = self._table(table)
        return self._tables[table.hash]

    def _apply(self, apply: Apply) -> DataFrame:
        below = self.compile(apply.input).toDF(*apply.input.schema.names)
        result: Any = self._applied(apply)(below)
        return positional(result, apply)


def positional(frame: DataFrame, operator: Operator, kept: Sequence[str] = ()) -> DataFrame:
    """Return a frame's columns under positional names, checked against the operator's schema.

    Args:
        frame: Has the columns of the schema, in any order and perhaps others.
        operator: What gives the frame.
        kept: Other columns that stay, if they are there.
    """
    found = {f.name.lower(): f for f in frame.schema.fields}
    columns = []
    for index, field in enumerate(operator.schema):
        given = found.get(field.name.lower())
        if given is None:
            raise ConfigError(f"{operator.kind} gives no column {field.name}")
        column = F.col(quoted(given.name))
        if not _same(given.dataType, field.type):
            column = column.cast(to_spark(field.type))
        columns.append(column.alias(f"c{index}"))
    return frame.select(*columns, *(name for name in kept if name in frame.columns))


def _unknown_null(type_: t.DataType) -> SparkColumn:
    """Return NULL, in a form that Spark does not know to be.

    A batch of the pulse alone would meet nothing in any inner join. Spark would leave the whole
    input out, and nothing would move event time.
    """
    never = F.raise_error(F.lit("a pulse has an event time"))
    return F.when(F.col("us").isNull(), never.cast(to_spark(type_)))


def _or_why(expressions: Sequence[Expression], made: Sequence[Compiled]) -> SparkColumn:
    """Return why a tuple has failed before, or does so now."""
    why = F.col(WHY)
    for expression, each in zip(expressions, made, strict=True):
        if each.error is not None:
            why = F.coalesce(why, F.when(each.error, F.lit(failure_text(expression))))
    return why


def _with_why(frame: DataFrame) -> DataFrame:
    """Return tuples of which none has failed yet."""
    return frame.withColumn(WHY, F.lit(None).cast("string"))


def _that_fit(frame: DataFrame, pulse: SparkColumn | None) -> DataFrame:
    """Return the tuples that fit the schema, without the pulse."""
    fitting = F.lit(True) if WHY not in frame.columns else F.col(WHY).isNull()
    if pulse is not None:
        return _without_pulse(frame, pulse, fitting).drop(WHY)
    return frame.filter(fitting).drop(WHY)


def _unless_it_fails(compiled: Compiled) -> SparkColumn:
    """Return the value, NULL where it fails."""
    return compiled.value if compiled.error is None else F.when(~compiled.error, compiled.value)


def _unless_shut(compiled: Compiled) -> Compiled:
    """Return the same, not to be evaluated on tuples that are shut: NULL, which finds nothing."""
    shut, error = F.col(SHUT), compiled.error
    value = F.when(~shut, compiled.value)
    return Compiled(value, None if error is None else ~shut & error)


def _without_errors(frame: DataFrame, made: Sequence[Compiled]) -> DataFrame:
    """Return the tuples on which nothing fails; the others are rejected."""
    for each in made:
        if each.error is not None:
            frame = frame.filter(~each.error)
    return frame


def _same(given: Any, wanted: t.DataType) -> bool:
    try:
        return from_spark(given) == wanted
    except ConfigError:
        return False


def quoted(name: str) -> str:
    """Return a name so that Spark takes it for the name of one column."""
    return "`" + name.replace("`", "``") + "`"


def _without_pulse(
    frame: DataFrame, pulse: SparkColumn, wanted: SparkColumn | None = None
) -> DataFrame:
    """Remove the pulse's rows above the watermark, and let nothing be pushed below it.

    A random expression keeps the filter, and whatever is above it, where it is.
    """
    held = pulse.isNull() if wanted is None else pulse.isNull() & wanted
    return frame.filter(held.eqNullSafe(_barrier())).drop("_is_pulse")


def _barrier() -> SparkColumn:
    """Return what is always TRUE, and Spark does not know to be."""
    return F.rand() + F.rand() >= 0
