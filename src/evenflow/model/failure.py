"""Which expressions can raise on some tuple in Spark's ANSI mode. True where it is not certain.

Integer results are followed by their range, so that `id % 100 + 1` is known to be safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.model import types as t
from evenflow.model.coercion import integer_range, raw_result
from evenflow.model.expression import Call, Cast, Literal, children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenflow.model.expression import AggregateCall, Expression

_OVERFLOWING = ("+", "-", "*", "neg", "abs")
_WHOLE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}
"""Digits that always fit into an integer type."""

_EXACT_SIGN = 34
"""Digits up to which Spark changes the sign of a decimal exactly; longer ones it rounds first."""


def can_fail(expression: Expression) -> bool:
    """Whether evaluating it can raise on some tuple."""
    return next(failing_parts(expression), None) is not None


def failing_parts(expression: Expression) -> Iterator[Expression]:
    """Yield the parts of an expression that can raise by themselves, the innermost first."""
    for child in children(expression):
        yield from failing_parts(child)
    if _can_fail_itself(expression):
        yield expression


def _can_fail_itself(expression: Expression) -> bool:
    match expression:
        case Cast(operand=operand, type=target):
            return _cast_can_fail(operand, target)
        case Call(function="/" | "%"):
            return _division_can_fail(expression)
        case Call(function=function) if function in _OVERFLOWING:
            return _overflows(expression)
    return False


def aggregate_can_fail(call: AggregateCall) -> bool:
    """Whether closing a group can raise: a sum that does not fit its type."""
    if call.function == "sum":
        return call.type != t.DOUBLE
    return call.function == "avg" and isinstance(call.type, t.DecimalType)


def _division_can_fail(call: Call) -> bool:
    divisor = call.arguments[1]
    if not isinstance(divisor, Literal) or divisor.value is None or divisor.value == 0:
        return True
    if isinstance(call.type, t.DecimalType):
        return _is_capped(call)
    return False


def _overflows(call: Call) -> bool:
    match call.type:
        case t.IntegerType():
            low, high = _raw_range(call)
            smallest, largest = integer_range(call.type)
            return low < smallest or high > largest
        case t.DecimalType(precision, _):
            if len(call.arguments) == 1:
                return precision > _EXACT_SIGN
            return _is_capped(call)
    return False


def _is_capped(call: Call) -> bool:
    """Whether a decimal result would need more than 38 digits to hold every value."""
    left, right = (e.type for e in call.arguments)
    if not isinstance(left, t.DecimalType) or not isinstance(right, t.DecimalType):
        return True
    return raw_result(call.function, left, right)[0] > t.MAX_PRECISION


def _range(expression: Expression) -> tuple[int, int]:
    """Return bounds of an integer expression that did not raise."""
    if not isinstance(expression.type, t.IntegerType):
        return -(1 << 127), 1 << 127
    smallest, largest = integer_range(expression.type)
    match expression:
        case Literal(value=int(value)):
            return value, value
        case Cast(operand=operand) if isinstance(operand.type, t.IntegerType):
            low, high = _range(operand)
        case Call(function="%", arguments=(_, Literal(value=int(divisor)))) if divisor:
            low, high = -abs(divisor) + 1, abs(divisor) - 1
        case Call(function=function) if function in _OVERFLOWING:
            low, high = _raw_range(expression)
        case _:
            return smallest, largest
    return max(low, smallest), min(high, largest)


def _raw_range(call: Call) -> tuple[int, int]:
    """Return bounds of the exact result of integer arithmetic, before any overflow."""
    a, b = _range(call.arguments[0])
    c, d = _range(call.arguments[-1])
    match call.function:
        case "+":
            return a + c, b + d
        case "-":
            return a - d, b - c
        case "*":
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)
        case "neg":
            return -b, -a
        case _:
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))


def _cast_can_fail(operand: Expression, target: t.DataType) -> bool:
    source = operand.type
    if target in (source, t.STRING) or isinstance(source, t.NullType):
        return False
    if isinstance(source, t.StringType):
        return True
    if isinstance(source, t.TimestampType) or isinstance(target, t.TimestampType):
        return _moment_cast_can_fail(source, target)
    match source, target:
        case t.IntegerType(), t.IntegerType():
            (low, high), (smallest, largest) = _range(operand), integer_range(target)
            return low < smallest or high > largest
        case t.IntegerType(), t.DecimalType(precision, scale):
            low, high = _range(operand)
            return len(str(max(abs(low), abs(high)))) > precision - scale
        case t.BooleanType(), t.DecimalType(precision, scale):
            return precision == scale
        case t.DecimalType(p1, s1), t.DecimalType(p2, s2):
            # Dropping fraction digits rounds, which can carry into one more whole digit.
            return p2 - s2 < p1 - s1 + (1 if s2 < s1 else 0)
        case t.DecimalType(precision, scale), t.IntegerType(bits):
            return precision - scale > _WHOLE_DIGITS[bits]
        case t.DoubleType(), t.IntegerType() | t.DecimalType():
            return True
    return False


def _moment_cast_can_fail(source: t.DataType, target: t.DataType) -> bool:
    """Seconds since the epoch may not fit a small type, nor a number into the years there are."""
    match source, target:
        case t.TimestampType(), t.IntegerType(bits):
            return bits < 64
        case t.IntegerType(bits), t.TimestampType():
            return bits == 64
    return isinstance(source, t.DoubleType | t.DecimalType) or isinstance(target, t.DecimalType)
