"""Which type values of different types meet in, and conversions, as Spark's ANSI mode has them.

Text and numbers never meet: the user writes the CAST. Decimal results follow Spark with
`allowPrecisionLoss`, so that a query here and the same query in Spark have one type.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from evenflow.base.instant import parse_date, parse_timestamp
from evenflow.model import types as t
from evenflow.model.expression import Cast, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenflow.model.expression import Expression, Value

_MIN_SCALE = 6
"""Fraction digits that a division or a capped result keeps if it has as many."""

EXACT_DOUBLE = 2**53
"""Up to here every integer is a double."""


def integer_range(type_: t.IntegerType) -> tuple[int, int]:
    """Return the smallest and the largest value."""
    return -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1


def adjusted(precision: int, scale: int) -> t.DecimalType:
    """Return the decimal of an arithmetic result, giving up fraction digits above 38."""
    if precision <= t.MAX_PRECISION:
        return t.DecimalType(precision, scale)
    whole = precision - scale
    kept = max(t.MAX_PRECISION - whole, min(scale, _MIN_SCALE))
    return t.DecimalType(t.MAX_PRECISION, kept)


def bounded(precision: int, scale: int) -> t.DecimalType:
    """Return the decimal with both numbers cut at 38, as aggregates have it."""
    return t.DecimalType(min(precision, t.MAX_PRECISION), min(scale, t.MAX_PRECISION))


def raw_result(function: str, left: t.DecimalType, right: t.DecimalType) -> tuple[int, int]:
    """Return precision and scale that + - * / % would need, before any limit."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match function:
        case "*":
            return p1 + p2 + 1, s1 + s2
        case "/":
            scale = max(_MIN_SCALE, s1 + p2 + 1)
            return p1 - s1 + s2 + scale, scale
        case "%":
            return min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2)
        case _:
            return max(s1, s2) + max(p1 - s1, p2 - s2) + 1, max(s1, s2)


def literal_decimal(value: int) -> t.DecimalType:
    """Return the smallest decimal that holds an integer literal."""
    return t.DecimalType(len(str(abs(value))), 0)


def _wider_decimal(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    if precision <= t.MAX_PRECISION:
        return t.DecimalType(precision, scale)
    return t.DecimalType(t.MAX_PRECISION, max(0, scale - (precision - t.MAX_PRECISION)))


def wider(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return the type that both convert to without being asked; None if there is none."""
    match left, right:
        case _ if left == right:
            return left
        case (t.NullType(), other) | (other, t.NullType()):
            return other
        case t.IntegerType(), t.IntegerType():
            return left if left.bits >= right.bits else right
        case t.DecimalType(), t.DecimalType():
            return _wider_decimal(left, right)
        case t.DecimalType(), t.IntegerType():
            return _wider_decimal(left, t.integer_as_decimal(right))
        case t.IntegerType(), t.DecimalType():
            return _wider_decimal(t.integer_as_decimal(left), right)
        case (t.DateType(), t.TimestampType()) | (t.TimestampType(), t.DateType()):
            return t.TIMESTAMP
        case _ if t.is_numeric(left) and t.is_numeric(right):
            return t.DOUBLE
    return None


def common(types: Iterable[t.DataType]) -> t.DataType | None:
    """Return the type that all of them convert to without being asked."""
    found: t.DataType = t.NULL
    for type_ in types:
        met = wider(found, type_)
        if met is None:
            return None
        found = met
    return found


def can_cast(source: t.DataType, target: t.DataType) -> bool:
    """Whether CAST may be written between two types."""
    if isinstance(source, t.StructType) or isinstance(target, t.StructType | t.NullType):
        return False
    if source == target or isinstance(source, t.NullType) or target == t.STRING:
        return True
    match source, target:
        case t.StringType(), _:
            return True
        case _ if t.is_numeric(source):
            return t.is_numeric(target) or target in (t.BOOLEAN, t.TIMESTAMP)
        case t.BooleanType(), _:
            return t.is_numeric(target)
        case t.DateType(), t.TimestampType():
            return True
        case t.TimestampType(), _:
            return t.is_numeric(target) or target == t.DATE
    return False


def convert(expression: Expression, target: t.DataType) -> Expression:
    """Return the expression as a value of another type: itself, a folded literal or a Cast."""
    if expression.type == target:
        return expression
    if isinstance(expression, Literal):
        if expression.value is None:
            return Literal(None, target)
        folded = _fold(expression.value, target)
        if folded is not None:
            return Literal(folded, target)
    return Cast(expression, target)


def _fold(value: Value, target: t.DataType) -> Value:
    """Return the converted constant; None where it is not exact or left to the run."""
    match value, target:
        case bool(), _:
            return None
        case int(), t.IntegerType():
            low, high = integer_range(target)
            return value if low <= value <= high else None
        case int(), t.DoubleType():
            return float(value) if abs(value) <= EXACT_DOUBLE else None
        case int() | Decimal(), t.DecimalType():
            return as_decimal(value, target)
        case Decimal(), t.DoubleType():
            return float(value)
        case int(), t.StringType():
            return str(value)
        case str(), t.DateType():
            return parse_date(value)
        case str(), t.TimestampType():
            return parse_timestamp(value)
    return None


def as_decimal(value: int | Decimal, target: t.DecimalType) -> Decimal | None:
    """Return the number with exactly the scale of the type; None if it does not fit exactly."""
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):
        return None
    shift = exponent + target.scale
    if len(digits) + max(shift, 0) > t.MAX_PRECISION + target.scale:
        return Decimal((0, (0,), -target.scale)) if not any(digits) else None
    if shift < 0 and any(digits[shift:]):
        return None
    moved = (digits + (0,) * shift) if shift >= 0 else (digits[:shift] or (0,))
    number = int("".join(map(str, moved)))
    if len(str(number)) > target.precision and number:
        return None
    return Decimal((sign if number else 0, tuple(map(int, str(number))), -target.scale))
