"""Bound expressions: names resolved, types known, coercions explicit, in canonical form.

A closed set of five kinds. Everything that computes is a `Call` of a function named in
`model.functions`; nothing outside that list can be expressed, so nothing outside it can run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from evenflow.model.types import BOOLEAN, DataType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Value = bool | int | float | Decimal | str | date | datetime | None
"""What a literal holds. Timestamps are aware datetimes in UTC."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the input, or a field inside it: `("address", "city")`."""

    path: tuple[str, ...]
    type: DataType

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `True == 1` in Python, so the type takes part in equality."""

    value: Value
    type: DataType

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return "NULL" if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function or operator applied to arguments of exactly the types it takes."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Case:
    """CASE WHEN ... THEN ... ELSE ... END, all results of one type."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    type: DataType

    def __str__(self) -> str:
        body = " ".join(f"WHEN {c} THEN {v}" for c, v in self.branches)
        tail = f" ELSE {self.otherwise}" if self.otherwise is not None else ""
        return f"CASE {body}{tail} END"


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion, written by the user or made explicit by the binder."""

    operand: Expression
    type: DataType

    def __str__(self) -> str:
        return f"CAST({self.operand} AS {self.type})"


Expression = Column | Literal | Call | Case | Cast

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of a window: `sum(kwh) FILTER (WHERE valid)`."""

    function: str
    """A name in `model.functions.AGGREGATES`."""
    argument: Expression | None
    """None for count(*) only."""
    condition: Expression | None
    """The FILTER clause. NULL and FALSE leave the tuple out."""
    type: DataType

    def __str__(self) -> str:
        inner = "*" if self.argument is None else str(self.argument)
        tail = f" FILTER (WHERE {self.condition})" if self.condition is not None else ""
        return f"{self.function}({inner}){tail}"


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct operands, in order."""
    match expression:
        case Call(arguments=arguments):
            return arguments
        case Case(branches=branches, otherwise=otherwise):
            flat = tuple(e for branch in branches for e in branch)
            return flat if otherwise is None else (*flat, otherwise)
        case Cast(operand=operand):
            return (operand,)
        case _:
            return ()


def with_children(expression: Expression, new: tuple[Expression, ...]) -> Expression:
    """Return the same expression over other operands, given as `children` orders them."""
    match expression:
        case Call(function=function, type=type_):
            return Call(function, new, type_)
        case Case(branches=branches, otherwise=otherwise, type=type_):
            pairs = tuple((new[2 * i], new[2 * i + 1]) for i in range(len(branches)))
            return Case(pairs, None if otherwise is None else new[-1], type_)
        case Cast(type=type_):
            return Cast(new[0], type_)
        case _:
            return expression


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and everything inside it, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Apply `change` to every node, innermost first."""
    before = children(expression)
    after = tuple(rewrite(child, change) for child in before)
    return change(with_children(expression, after) if after != before else expression)
