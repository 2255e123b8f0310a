"""From slots to answers: what leaves the stack, and how each query's answer is put together.

Plain references to keys, windows and slots are copied by Arrow. Anything that computes (HAVING,
arithmetic over aggregates) is evaluated by Spark in the same stage, as one more column that is
NULL in rows of other families. The plan is plain data: executors get it by pickle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.errors import InternalError
from evenflow.model import types as t
from evenflow.model.expression import Column
from evenflow.model.functions import aggregate_can_fail
from evenflow.spark.compile.carriers import from_key, from_long
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.keys import BITS, FAMILY, HASH
from evenflow.spark.compile.stack import END

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model.expression import Expression
    from evenflow.model.unit import Family, Member, Result, Unit


@dataclass(frozen=True, slots=True)
class Copy:
    """Take a column as it is, or change it back from its carrier."""

    column: str
    type: t.DataType


@dataclass(frozen=True, slots=True)
class WindowPart:
    """The window of the row: its start, its end, or both as a struct."""

    part: str
    type: t.DataType


@dataclass(frozen=True, slots=True)
class Quotient:
    """An average of doubles: sum divided by count, NULL without values."""

    total: str
    count: str
    type: t.DataType


Part = Copy | WindowPart | Quotient


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """How the answers of one member are read off the rows of its family."""

    query: str
    number: int
    family: int
    size_us: int
    count: str
    """Column with the number of the query's tuples; no answer where it is 0."""
    having: str | None
    errors: tuple[str, ...]
    """Columns that are TRUE where the answer is rejected, whatever HAVING says."""
    output_errors: tuple[str, ...]
    """Columns that are TRUE where an answer that passed HAVING is rejected."""
    outputs: tuple[tuple[str, Part], ...]
    sharing: tuple[int, ...] = ()
    """Parts whose fractions its gate keeps the largest of, itself included."""


class AnswerCompiler:
    """Adds the computed columns to a stack and plans the answers."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._users = {family.number: family.gate_users for family in unit.families}
        self._computed: dict[str, SparkColumn] = {}

    def compile(self, stack: DataFrame) -> tuple[DataFrame, tuple[AnswerPlan, ...]]:
        """Return the stack with computed columns, and a plan per member."""
        plans = tuple(self._plan(family, member) for family, member in self._unit.members)
        # All slots stay in the output: what is not selected is pruned out of the state.
        computed = [value.alias(name) for name, value in self._computed.items()]
        names = [FAMILY, END, *(k.name for k in self._unit.key_slots)]
        names += [s.name for s in self._unit.slots]
        return stack.select(*names, HASH, BITS, *computed), plans

    def _plan(self, family: Family, member: Member) -> AnswerPlan:
        scope = _Scope(family, member)
        errors = [self._keep(family, error) for error in scope.overflows()]
        having = None
        if member.having is not None:
            having = self._compute(family, member.having, scope, errors)
        output_errors: list[str] = []
        outputs = tuple(
            (name, scope.plain(e) or self._output(family, e, scope, output_errors))
            for name, e in member.outputs
        )
        return AnswerPlan(
            query=member.query,
            number=member.number,
            family=family.number,
            size_us=family.window.size_us,
            count=member.count.name,
            having=having,
            errors=tuple(errors),
            output_errors=tuple(output_errors),
            outputs=outputs,
            sharing=self._users[family.number][member.condition],
        )

    def _output(
        self, family: Family, expression: Expression, scope: _Scope, errors: list[str]
    ) -> Part:
        name = self._compute(family, expression, scope, errors)
        return Copy(name, expression.type)

    def _compute(
        self, family: Family, expression: Expression, scope: _Scope, errors: list[str]
    ) -> str:
        compiled = compile_expression(expression, scope.resolve)
        if compiled.error is not None:
            errors.append(self._keep(family, compiled.error))
        return self._keep(family, compiled.value)

    def _keep(self, family: Family, value: SparkColumn) -> str:
        name = f"_x{len(self._computed)}"
        self._computed[name] = F.when(F.col(FAMILY) == family.number, value)
        return name


class _Scope:
    """The columns of a member's Aggregate operator, found in the stack's output."""

    def __init__(self, family: Family, member: Member) -> None:
        self._family = family
        self._results = {result.name: result for result in member.results}

    def plain(self, expression: Expression) -> Part | None:
        """Return how an expression is copied, or None if it must be computed."""
        if not isinstance(expression, Column):
            return None
        head = expression.path[0]
        if head == "w":
            return WindowPart(".".join(expression.path[1:]), expression.type)
        if head in self._results:
            return self._plain_result(self._results[head])
        slot = self._family.key_slots[self._key_index(head)]
        return Copy(slot.name, expression.type)

    def _plain_result(self, result: Result) -> Part | None:
        slot = result.slots[0]
        if result.call.function == "avg" and slot.type == t.DOUBLE:
            return Quotient(slot.name, result.slots[1].name, result.call.type)
        return Copy(slot.name, result.call.type)

    def overflows(self) -> list[SparkColumn]:
        """Return when a sum or average did not fit its type."""
        return [
            F.col(result.slots[0].name).isNull() & (F.col(result.slots[1].name) > 0)
            for result in self._results.values()
            if aggregate_can_fail(result.call) and len(result.slots) == 2
        ]

    def resolve(self, column: Column) -> SparkColumn:
        head = column.path[0]
        if head == "w":
            return self._window(column)
        if head in self._results:
            return self._result(self._results[head])
        index = self._key_index(head)
        slot = self._family.key_slots[index]
        return from_key(F.col(slot.name), self._family.keys[index].type, slot.carrier)

    def _key_index(self, name: str) -> int:
        if not name.startswith("k"):
            raise InternalError(f"{name} is not a column of an aggregate")
        return int(name[1:])

    def _window(self, column: Column) -> SparkColumn:
        end = F.unix_micros(F.col(END)) + 1
        start = end - self._family.window.size_us
        if len(column.path) == 1:
            return F.struct(
                F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end")
            )
        return F.timestamp_micros(start if column.path[1] == "start" else end)

    def _result(self, result: Result) -> SparkColumn:
        slot = result.slots[0]
        value = F.col(slot.name)
        if result.call.function == "avg" and slot.type == t.DOUBLE:
            count = F.col(result.slots[1].name)
            return F.try_divide(value, count.cast(st.DoubleType()))
        if result.call.function in ("min", "max") and slot.type == t.BIGINT:
            return from_long(value, result.call.type)
        return value
