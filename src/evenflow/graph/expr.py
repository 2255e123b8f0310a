"""Expressions for the builder: Python operators and functions that write syntax.

Where an expression is wanted, a text is SQL: `sum_("kwh * 2")`. Beside an operator, a Python value
is a literal: `col("meter") == "m1"`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from evenflow.errors import ConfigError
from evenflow.graph import syntax as s
from evenflow.graph.bind import aggregate_name
from evenflow.graph.literals import decimal, number
from evenflow.graph.parse import parse_expression
from evenflow.model import types as t
from evenflow.model.functions import FUNCTIONS
from evenflow.model.schema import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Expr",
    "Functions",
    "When",
    "approx_count_distinct",
    "avg",
    "col",
    "count",
    "fn",
    "lit",
    "max_",
    "min_",
    "stddev",
    "sum_",
    "when",
]


class Expr:
    """An expression over the columns of some stream. Immutable."""

    __slots__ = ("name", "node", "text")

    def __init__(self, node: s.Node, name: str | None = None, text: str | None = None) -> None:
        self.node = node
        self.name = name
        """What `alias` called it."""
        self.text = text
        """The SQL that it is, for messages."""

    def alias(self, name: str) -> Expr:
        """Return it under another name."""
        return Expr(self.node, name, self.text)

    def cast(self, type_: str) -> Expr:
        """Return it converted: `col("id").cast("STRING")`."""
        return Expr(s.Conversion(self.node, parse_type(type_)))

    def field(self, name: str) -> Expr:
        """Return a field of a struct."""
        return Expr(s.Member(self.node, name))

    def is_null(self) -> Expr:
        """Whether it is NULL."""
        return _operation("is_null", self)

    def is_not_null(self) -> Expr:
        """Whether it has a value."""
        return ~self.is_null()

    def isin(self, *values: Any) -> Expr:
        """Whether it equals one of the values."""
        return _operation("in", self, *values)

    def between(self, low: Any, high: Any) -> Expr:
        """Whether it lies between two values or equals one of them."""
        return _operation("between", self, low, high)

    def like(self, pattern: str, escape: str | None = None) -> Expr:
        """Whether a text matches a pattern of % and _."""
        return _operation("like", self, *((pattern,) if escape is None else (pattern, escape)))

    def eq_null_safe(self, other: Any) -> Expr:
        """Whether both are equal or both are NULL."""
        return _operation("<=>", self, other)

    def filter(self, condition: Expr | str) -> Expr:
        """Return an aggregate of only those tuples for which a condition is TRUE.

        Raises:
            ConfigError: It is not an aggregate.
        """
        node = self.node
        if not isinstance(node, s.FunctionCall) or aggregate_name(node) is None:
            raise ConfigError("only an aggregate has a filter")
        return Expr(replace(node, condition=as_node(condition)), self.name)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _operation("=", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _operation("<>", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _operation("<", self, other)

    def __le__(self, other: Any) -> Expr:
        return _operation("<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _operation(">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _operation(">=", self, other)

    def __and__(self, other: Any) -> Expr:
        return _chain("and", self, other)

    def __or__(self, other: Any) -> Expr:
        return _chain("or", self, other)

    def __invert__(self) -> Expr:
        return _operation("not", self)

    def __add__(self, other: Any) -> Expr:
        return _operation("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _operation("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _operation("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _operation("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _operation("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _operation("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _operation("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _operation("/", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _operation("%", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _operation("%", other, self)

    def __neg__(self) -> Expr:
        return _operation("neg", self)

    def __bool__(self) -> NoReturn:
        raise TypeError("an expression is not true or false yet: use & | ~ instead of and or not")

    __hash__ = None  # type: ignore[assignment]  # == makes an expression


class When(Expr):
    """A CASE that can still grow."""

    __slots__ = ()

    def when(self, condition: Expr | str, value: Any) -> When:
        """Return it with one more branch."""
        node = self.node
        assert isinstance(node, s.Choice)
        branches = (*node.branches, (as_node(condition), _value(value)))
        return When(replace(node, branches=branches))

    def otherwise(self, value: Any) -> Expr:
        """Return it with the value for all other tuples."""
        node = self.node
        assert isinstance(node, s.Choice)
        return Expr(replace(node, otherwise=_value(value)))


def when(condition: Expr | str, value: Any) -> When:
    """Return CASE WHEN condition THEN value END."""
    return When(s.Choice(None, ((as_node(condition), _value(value)),), None))


def col(name: str) -> Expr:
    """Return a column or a field of one: `col("kwh")`, `col("window.start")`.

    Raises:
        ConfigError: The text is not a name.
    """
    node = parse_expression(name)
    if not isinstance(node, s.Name):
        raise ConfigError(f"{name[:60]!r} is not the name of a column", "use text for expressions")
    return Expr(node, text=name)


def lit(value: Any) -> Expr:
    """Return a literal.

    Raises:
        ConfigError: The value has no type in SQL.
    """
    return Expr(_constant(value))


def _constant(value: Any) -> s.Constant:
    match value:
        case None:
            return s.Constant(None, t.NULL)
        case bool():
            return s.Constant(value, t.BOOLEAN)
        case int() if abs(value) < 10**t.MAX_PRECISION:
            return number(str(abs(value)), None, negative=value < 0)
        case float() if math.isfinite(value):
            return s.Constant(value, t.DOUBLE)
        case str():
            return s.Constant(value, t.STRING)
        case datetime():
            zoned = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return s.Constant(zoned.astimezone(UTC), t.TIMESTAMP)
        case date():
            return s.Constant(value, t.DATE)
        case Decimal() if (found := decimal(value)) is not None:
            return found
    raise ConfigError(f"{str(value)[:40]!r} of type {type(value).__name__} is not a literal")


def _value(value: Any) -> s.Node:
    return value.node if isinstance(value, Expr) else _constant(value)


def as_node(value: Expr | str) -> s.Node:
    """Return the syntax of an expression or of SQL text."""
    return value.node if isinstance(value, Expr) else parse_expression(value)


def _operation(operator: str, *operands: Any) -> Expr:
    return Expr(s.Operation(operator, tuple(_value(operand) for operand in operands)))


def _chain(operator: str, left: Expr, right: Any) -> Expr:
    """Join conditions side by side, so that a long chain stays flat."""
    node = left.node
    first = (
        node.operands if isinstance(node, s.Operation) and node.operator == operator else (node,)
    )
    return Expr(s.Operation(operator, (*first, _value(right))))


def _aggregate(name: str, argument: Expr | str) -> Expr:
    return Expr(s.FunctionCall(name, (as_node(argument),)))


def count(argument: Expr | str | None = None) -> Expr:
    """Return the number of tuples, or of values that are not NULL."""
    if argument is None or (isinstance(argument, str) and argument == "*"):
        return Expr(s.FunctionCall("count", (), star=True))
    return _aggregate("count", argument)


def sum_(argument: Expr | str) -> Expr:
    """Return the sum."""
    return _aggregate("sum", argument)


def avg(argument: Expr | str) -> Expr:
    """Return the mean."""
    return _aggregate("avg", argument)


def min_(argument: Expr | str) -> Expr:
    """Return the least value."""
    return _aggregate("min", argument)


def max_(argument: Expr | str) -> Expr:
    """Return the greatest value."""
    return _aggregate("max", argument)


def stddev(argument: Expr | str) -> Expr:
    """Return the standard deviation of the sample."""
    return _aggregate("stddev", argument)


def approx_count_distinct(argument: Expr | str) -> Expr:
    """Return about how many different values there are."""
    return _aggregate("approx_count_distinct", argument)


class Functions:
    """The scalar functions by name: `fn.upper("meter")`, `fn.round(col("kwh"), 1)`."""

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name not in FUNCTIONS or not FUNCTIONS[name].is_called_by_name:
            raise AttributeError(f"function {name} is not known; docs/sql.md lists the functions")

        def call(*arguments: Any) -> Expr:
            nodes = [as_node(a) if isinstance(a, Expr | str) else _value(a) for a in arguments]
            if name == "date_trunc" and arguments and isinstance(arguments[0], str):
                nodes[0] = _constant(arguments[0])
            return Expr(s.FunctionCall(name, tuple(nodes)))

        return call

    def __dir__(self) -> list[str]:
        return [name for name, function in FUNCTIONS.items() if function.is_called_by_name]


fn = Functions()
