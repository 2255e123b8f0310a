"""Bound expressions as Spark columns, built by calls: no text ever reaches Spark's parser.

Every expression becomes a value and, if it can fail, the condition under which it failed. Values
use Spark's `try_` forms, so nothing raises: FALSE AND error is FALSE, TRUE OR error is TRUE, a
CASE branch not taken raises nothing, and any other error is left to the caller to reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenflow.errors import InternalError
from evenflow.model import types as t
from evenflow.model.expression import Call, Case, Cast, Column, Expression, Literal
from evenflow.model.functions import can_fail
from evenflow.spark.compile.delay import delayed
from evenflow.spark.compile.types import to_spark

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

Resolve = Callable[[Column], "SparkColumn"]
"""Where a column of the input is found."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A value, and when it is an error."""

    value: SparkColumn
    error: SparkColumn | None = None
    """Never NULL. None if the expression cannot fail."""
    null_on_error: bool = True
    """Whether the value is certainly NULL where it is an error."""


def compile_expression(expression: Expression, resolve: Resolve) -> Compiled:
    """Return the expression as Spark columns."""
    match expression:
        case Column():
            return Compiled(resolve(expression))
        case Literal():
            return Compiled(literal(expression))
        case Cast():
            return _cast(expression, resolve)
        case Case():
            return _case(expression, resolve)
        case Call(function=function, arguments=arguments):
            parts = [compile_expression(each, resolve) for each in arguments]
            if function in _SPECIAL:
                return _SPECIAL[function](expression, parts)
            value = _FUNCTIONS[function](*(part.value for part in parts))
            strict = function not in _SEES_NULL
            return Compiled(value, _any(part.error for part in parts), strict and _strict(parts))


def literal(expression: Literal) -> SparkColumn:
    """Return a constant of exactly its type."""
    value = expression.value
    type_ = to_spark(expression.type)
    if isinstance(value, datetime):
        # Not F.lit(datetime), which goes through this process's time zone.
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
        return F.timestamp_micros(F.lit(micros))
    if isinstance(value, date):
        # Not F.lit(date): it goes through another calendar, and fails before the year 1000.
        return F.date_from_unix_date(F.lit(value.toordinal() - _EPOCH_DAY))
    return F.lit(value).cast(type_)


def _any(errors: Any) -> SparkColumn | None:
    present = [error for error in errors if error is not None]
    return reduce(lambda a, b: a | b, present) if present else None


def _strict(parts: list[Compiled]) -> bool:
    """Whether what is NULL if any part is NULL is NULL on an error of any part."""
    return all(part.null_on_error for part in parts)


def _cast(expression: Cast, resolve: Resolve) -> Compiled:
    operand = compile_expression(expression.operand, resolve)
    type_ = to_spark(expression.type)
    bare = Cast(Column(("x",), expression.operand.type), expression.type)
    if not can_fail(bare):
        return Compiled(operand.value.cast(type_), operand.error, operand.null_on_error)
    value = operand.value.try_cast(type_)
    failed = operand.value.isNotNull() & value.isNull()
    if expression.operand.type == t.DOUBLE and isinstance(expression.type, t.DecimalType):
        # NaN and infinity are NULL as decimals, in ANSI mode too.
        failed = failed & (F.abs(operand.value) < F.lit(math.inf))
    return Compiled(value, _any((operand.error, failed)), operand.null_on_error)


def _case(expression: Case, resolve: Resolve) -> Compiled:
    branches = [
        (compile_expression(c, resolve), compile_expression(v, resolve))
        for c, v in expression.branches
    ]
    other = (
        Compiled(F.lit(None).cast(to_spark(expression.type)))
        if expression.otherwise is None
        else compile_expression(expression.otherwise, resolve)
    )
    value = other.value
    error = other.error
    for condition, result in reversed(branches):
        value = F.when(condition.value, result.value).otherwise(value)
        taken = result.error if result.error is not None else F.lit(False)
        if error is not None or result.error is not None:
            error = F.when(condition.value, taken).otherwise(
                error if error is not None else F.lit(False)
            )
        error = _any((condition.error, error))
    return Compiled(value, error, null_on_error=False)


def _and(_: Call, parts: list[Compiled]) -> Compiled:
    value = reduce(lambda a, b: a & b, (part.value for part in parts))
    error = _any(part.error for part in parts)
    if error is None:
        return Compiled(value)
    return Compiled(value, error & ~_decided(parts, when=False), _strict(parts))


def _or(_: Call, parts: list[Compiled]) -> Compiled:
    value = reduce(lambda a, b: a | b, (part.value for part in parts))
    error = _any(part.error for part in parts)
    if error is None:
        return Compiled(value)
    return Compiled(value, error & ~_decided(parts, when=True), _strict(parts))


def _decided(parts: list[Compiled], *, when: bool) -> SparkColumn:
    """Whether some part that did not fail decides the whole, whatever the others are."""

    def decides(part: Compiled) -> SparkColumn:
        sure = part.value.eqNullSafe(F.lit(when))
        # Without this the error would stand here twice, and grow with every level of nesting.
        return sure if part.error is None or part.null_on_error else sure & ~part.error

    return reduce(lambda a, b: a | b, map(decides, parts))


def _coalesce(_: Call, parts: list[Compiled]) -> Compiled:
    value = F.coalesce(*(part.value for part in parts))
    error: SparkColumn | None = None
    for part in reversed(parts):
        later = None if error is None else part.value.isNull() & error
        error = _any((part.error, later))
    return Compiled(value, error, null_on_error=False)


def _checked(
    plain: Callable[[SparkColumn, SparkColumn], SparkColumn],
    trying: Callable[[SparkColumn, SparkColumn], SparkColumn],
) -> Callable[[Call, list[Compiled]], Compiled]:
    """Return the compiler of a binary operator that gives NULL instead of raising."""

    def compile_(call: Call, parts: list[Compiled]) -> Compiled:
        left, right = parts[0].value, parts[1].value
        inner = _any(part.error for part in parts)
        if not can_fail(_bare(call)):
            return Compiled(plain(left, right), inner, _strict(parts))
        value = trying(left, right)
        failed = left.isNotNull() & right.isNotNull() & value.isNull()
        return Compiled(value, _any((inner, failed)), _strict(parts))

    return compile_


def _bare(call: Call) -> Call:
    """The call without what is inside its arguments; literals stay, they decide if it can fail."""
    if not any(can_fail(a) for a in call.arguments):
        return call
    arguments = tuple(
        a if isinstance(a, Literal) else Column((f"x{i}",), a.type)
        for i, a in enumerate(call.arguments)
    )
    return Call(call.function, arguments, call.type)


def _negate(call: Call, parts: list[Compiled]) -> Compiled:
    part = parts[0]
    if not can_fail(_bare(call)):
        return Compiled(F.negate(part.value), part.error, part.null_on_error)
    if isinstance(call.type, t.DecimalType):
        return _changed_sign(part, call.type, F.negate)
    value = F.try_subtract(F.lit(0).cast(to_spark(call.type)), part.value)
    failed = part.value.isNotNull() & value.isNull()
    return Compiled(value, _any((part.error, failed)), part.null_on_error)


def _abs(call: Call, parts: list[Compiled]) -> Compiled:
    part = parts[0]
    if not can_fail(_bare(call)):
        return Compiled(F.abs(part.value), part.error, part.null_on_error)
    if isinstance(call.type, t.DecimalType):
        return _changed_sign(part, call.type, F.abs)
    negated = F.try_subtract(F.lit(0).cast(to_spark(call.type)), part.value)
    value = F.when(part.value < 0, negated).otherwise(part.value)
    failed = part.value.isNotNull() & value.isNull()
    return Compiled(value, _any((part.error, failed)), part.null_on_error)


def _changed_sign(
    part: Compiled, type_: t.DecimalType, change: Callable[[SparkColumn], SparkColumn]
) -> Compiled:
    """Return a decimal whose sign is changed where `change` says so.

    Spark rounds a decimal to 34 digits when it changes the sign; what is then one digit too long
    raises.
    """
    nines = (9,) * 34 + (5,) + (0,) * (type_.precision - 35)
    spark_type = to_spark(type_)
    low = F.lit(Decimal((1, nines, -type_.scale))).cast(spark_type)
    high = F.lit(Decimal((0, nines, -type_.scale))).cast(spark_type)
    value = part.value
    too_long = value <= low if change is F.abs else (value <= low) | (value >= high)
    failed = value.isNotNull() & too_long
    changed = change(F.when(~failed, value))
    return Compiled(changed, _any((part.error, failed)), part.null_on_error)


def _round(call: Call, parts: list[Compiled]) -> Compiled:
    digits = call.arguments[1] if len(call.arguments) == 2 else Literal(0, t.INT)
    if not isinstance(digits, Literal) or not isinstance(digits.value, int):
        raise InternalError("round without literal digits")
    rounded = F.round(parts[0].value, digits.value)
    return Compiled(rounded, parts[0].error, parts[0].null_on_error)


def _like(call: Call, parts: list[Compiled]) -> Compiled:
    escape = call.arguments[2] if len(parts) == 3 else Literal("\\", t.STRING)
    if not isinstance(escape, Literal):
        raise InternalError("like without a literal escape character")
    # Spark wants the bare literal; a cast around it is refused.
    found = F.like(parts[0].value, parts[1].value, F.lit(escape.value))
    return Compiled(found, parts[0].error, parts[0].null_on_error)


def _date_trunc(call: Call, parts: list[Compiled]) -> Compiled:
    unit = call.arguments[0]
    if not isinstance(unit, Literal):
        raise InternalError("date_trunc without a literal unit")
    start = F.date_trunc(str(unit.value), parts[1].value)
    return Compiled(start, parts[1].error, parts[1].null_on_error)


def _delay(call: Call, parts: list[Compiled]) -> Compiled:
    settings = [float(str(a.value)) for a in call.arguments[1:] if isinstance(a, Literal)]
    if len(settings) != 2:
        raise InternalError("delay without literal settings")
    microseconds, share = settings
    done = delayed(parts[0].value, microseconds, share)
    return Compiled(done, parts[0].error, null_on_error=False)


_MICROSECOND = datetime.resolution
_EPOCH_DAY = date(1970, 1, 1).toordinal()

_SPECIAL: dict[str, Callable[[Call, list[Compiled]], Compiled]] = {
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
    "+": _checked(lambda a, b: a + b, F.try_add),
    "-": _checked(lambda a, b: a - b, F.try_subtract),
    "*": _checked(lambda a, b: a * b, F.try_multiply),
    "/": _checked(lambda a, b: a / b, F.try_divide),
    "%": _checked(lambda a, b: a % b, F.try_mod),
    "neg": _negate,
    "abs": _abs,
    "round": _round,
    "like": _like,
    "date_trunc": _date_trunc,
    "delay": _delay,
}

_SEES_NULL = ("<=>", "in", "is_null", "greatest", "least")
"""Functions that can give a value although an argument is NULL."""

_FUNCTIONS: dict[str, Callable[..., SparkColumn]] = {
    "not": lambda a: ~a,
    "=": lambda a, b: a == b,
    "<=>": lambda a, b: a.eqNullSafe(b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "in": lambda a, *items: a.isin(*items),
    "is_null": lambda a: a.isNull(),
    "ceil": F.ceil,
    "floor": F.floor,
    "sqrt": F.sqrt,
    "exp": F.exp,
    "ln": F.ln,
    "log10": F.log10,
    "power": F.pow,
    "sign": F.sign,
    "greatest": F.greatest,
    "least": F.least,
    "upper": F.upper,
    "lower": F.lower,
    "length": F.length,
    "trim": F.trim,
    "ltrim": F.ltrim,
    "rtrim": F.rtrim,
    "substring": F.substr,
    "concat": F.concat,
    "replace": F.replace,
    "startswith": F.startswith,
    "endswith": F.endswith,
    "contains": F.contains,
    "year": F.year,
    "month": F.month,
    "day": F.day,
    "dayofweek": F.dayofweek,
    "hour": F.hour,
    "minute": F.minute,
    "second": F.second,
    "unix_seconds": F.unix_seconds,
    "unix_millis": F.unix_millis,
}
