"""The catalogue: every scalar function and aggregate there is, with its types.

A `Call` may only name what stands in `FUNCTIONS`, an `AggregateCall` what stands in `AGGREGATES`.
Types are those of Spark's ANSI mode. `can_fail` says whether evaluation can raise there.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from evenflow.errors import QueryError
from evenflow.model import types as t
from evenflow.model.coercion import adjusted, bounded, common, literal_decimal, raw_result
from evenflow.model.expression import Call, Cast, Literal, walk
from evenflow.model.failure import aggregate_can_fail, can_fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenflow.model.expression import Expression

__all__ = [
    "AGGREGATES",
    "FUNCTIONS",
    "TRUNCATE_UNITS",
    "Aggregate",
    "Function",
    "Signature",
    "aggregate_can_fail",
    "aggregate_type",
    "can_fail",
    "signature",
]

Arguments = tuple["Expression", ...]

TRUNCATE_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
    **{u: u for u in ("quarter", "week", "hour", "minute", "second")},
    **{u: u for u in ("millisecond", "microsecond")},
}
"""What date_trunc takes, and the one name that stands for it in a bound call."""

MAX_ROUND_DIGITS = 18
MOST_DELAY_US = 1_000_000

_SIMPLE = (t.IntegerType, t.DoubleType, t.StringType, t.BooleanType, t.DateType, t.TimestampType)
"""Types whose values compare as they are; the common case is decided without further rules."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The types a call converts its arguments to, and the type it gives."""

    arguments: tuple[t.DataType, ...]
    result: t.DataType


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function or operator."""

    name: str
    form: str
    """How it is written, for the reference table."""
    result: str
    """Its type in words, for the reference table."""
    minimum: int
    maximum: int | None
    """None for any number of arguments."""
    rule: Callable[[str, Arguments], Signature]

    @property
    def is_called_by_name(self) -> bool:
        """Whether users write it as `name(...)`; the others are operators."""
        return self.form.startswith(f"{self.name}(")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of the tuples of one group."""

    name: str
    form: str
    result: str
    """Its type in words, for the reference table."""


def _mismatch(name: str, wanted: str, found: Arguments, hint: str | None = None) -> QueryError:
    types = " and ".join(dict.fromkeys(str(e.type) for e in found))
    return QueryError("type.mismatch", f"{name} takes {wanted}, not {types}", hint=hint)


def _together(name: str, arguments: Arguments) -> t.DataType:
    """Return the one type of values that are compared or chosen from."""
    type_ = common(e.type for e in arguments)
    if type_ is None or isinstance(type_, t.StructType):
        raise _mismatch(name, "values of one plain type", arguments, "write a CAST")
    return t.BOOLEAN if isinstance(type_, t.NullType) else type_


def _literal_types(arguments: Arguments) -> list[t.DataType]:
    """Return the types, an integer literal beside a decimal by its own number of digits."""
    decimal = any(isinstance(e.type, t.DecimalType) for e in arguments)
    return [
        literal_decimal(e.value)
        if decimal and isinstance(e, Literal) and isinstance(e.value, int) and e.type != t.BOOLEAN
        else e.type
        for e in arguments
    ]


def _comparison(name: str, arguments: Arguments) -> Signature:
    left, right = arguments
    if left.type is right.type and isinstance(left.type, _SIMPLE):
        return Signature((left.type, left.type), t.BOOLEAN)
    _together(name, arguments)
    type_ = common(_literal_types(arguments)) or t.NULL
    if isinstance(type_, t.NullType):
        type_ = t.BOOLEAN
    return Signature((type_, type_), t.BOOLEAN)


def _membership(name: str, arguments: Arguments) -> Signature:
    return Signature((_together(name, arguments),) * len(arguments), t.BOOLEAN)


def _choice(name: str, arguments: Arguments) -> Signature:
    type_ = _together(name, arguments)
    if all(e.type == t.NULL for e in arguments):
        raise _mismatch(name, "at least one value with a type", arguments, "write a CAST")
    return Signature((type_,) * len(arguments), type_)


def _numbers(name: str, arguments: Arguments) -> None:
    if not all(t.is_numeric(e.type) or e.type == t.NULL for e in arguments):
        raise _mismatch(name, "numbers", arguments, "write a CAST")


def _arithmetic(name: str, arguments: Arguments) -> Signature:
    given = arguments[0].type
    if given is arguments[1].type and isinstance(given, t.DoubleType | t.IntegerType):
        same = t.DOUBLE if name == "/" else given
        return Signature((same, same), same)
    _numbers(name, arguments)
    left, right = _literal_types(arguments)
    type_ = common((left, right))
    if isinstance(type_, t.DecimalType):
        left = t.integer_as_decimal(left) if isinstance(left, t.IntegerType) else left
        right = t.integer_as_decimal(right) if isinstance(right, t.IntegerType) else right
        left = left if isinstance(left, t.DecimalType) else type_
        right = right if isinstance(right, t.DecimalType) else type_
        return Signature((left, right), adjusted(*raw_result(name, left, right)))
    if type_ is None or isinstance(type_, t.NullType) or name == "/":
        type_ = t.DOUBLE
    return Signature((type_, type_), type_)


def _same_number(name: str, arguments: Arguments) -> Signature:
    _numbers(name, arguments)
    type_ = t.DOUBLE if arguments[0].type == t.NULL else arguments[0].type
    return Signature((type_,), type_)


def _doubles(name: str, arguments: Arguments) -> Signature:
    _numbers(name, arguments)
    return Signature((t.DOUBLE,) * len(arguments), t.DOUBLE)


def _whole(name: str, arguments: Arguments) -> Signature:
    _numbers(name, arguments)
    match arguments[0].type:
        case t.DecimalType(_, 0) as type_:
            return Signature((type_,), type_)
        case t.DecimalType(p, s) as type_:
            return Signature((type_,), bounded(p - s + 1, 0))
        case t.IntegerType():
            return Signature((t.BIGINT,), t.BIGINT)
        case _:
            return Signature((t.DOUBLE,), t.BIGINT)


def _round(name: str, arguments: Arguments) -> Signature:
    _numbers(name, arguments[:1])
    digits = 0
    if len(arguments) == 2:
        match arguments[1]:
            case Literal(value=int(digits), type=t.IntegerType()) if (
                0 <= digits <= MAX_ROUND_DIGITS
            ):
                pass
            case _:
                message = f"round takes a number of digits from 0 to {MAX_ROUND_DIGITS}"
                raise QueryError("function.arguments", message)
    given: t.DataType = arguments[0].type
    result = given
    match given:
        case t.DecimalType(p, s):
            scale = min(s, digits)
            result = t.DecimalType(min(p - s + 1 + scale, t.MAX_PRECISION), scale)
        case t.NullType():
            given = result = t.DOUBLE
    return Signature((given, t.INT)[: len(arguments)], result)


def _fixed(result: t.DataType, *wanted: t.DataType) -> Callable[[str, Arguments], Signature]:
    """Return the rule of a function whose arguments have one type each; the last may repeat."""

    def rule(name: str, arguments: Arguments) -> Signature:
        types = wanted + wanted[-1:] * (len(arguments) - len(wanted))
        for argument, type_ in zip(arguments, types, strict=False):
            if not _accepts(type_, argument.type):
                raise _mismatch(name, str(type_), (argument,), "write a CAST")
        return Signature(types[: len(arguments)], result)

    return rule


def _accepts(wanted: t.DataType, given: t.DataType) -> bool:
    match wanted, given:
        case (_, t.NullType()) | (t.DateType(), t.TimestampType()):
            return True
        case t.TimestampType(), t.DateType():
            return True
        case t.IntegerType(), t.IntegerType():
            return given.bits <= wanted.bits
    return wanted == given


def _like(name: str, arguments: Arguments) -> Signature:
    found = _fixed(t.BOOLEAN, t.STRING)(name, arguments)
    for each in arguments[1:]:
        if not isinstance(each, Literal):
            raise QueryError("function.arguments", "LIKE takes its pattern as a literal")
    escape = arguments[2] if len(arguments) == 3 else Literal("\\", t.STRING)
    pattern = arguments[1]
    if isinstance(escape, Literal) and isinstance(pattern, Literal):
        _check_pattern(pattern.value, escape.value)
    return found


def _check_pattern(pattern: object, escape: object) -> None:
    if not isinstance(escape, str) or len(escape) != 1:
        raise QueryError("literal.invalid", "ESCAPE takes exactly one character")
    rest = iter(pattern if isinstance(pattern, str) else "")
    for character in rest:
        if character == escape and next(rest, "") not in ("%", "_", escape):
            raise QueryError(
                "literal.invalid",
                f"in a LIKE pattern {escape} must stand before %, _ or itself",
            )


def _is_null(_: str, arguments: Arguments) -> Signature:
    return Signature((arguments[0].type,), t.BOOLEAN)


def _date_trunc(name: str, arguments: Arguments) -> Signature:
    unit = arguments[0]
    if not isinstance(unit, Literal) or str(unit.value).lower() not in TRUNCATE_UNITS:
        units = ", ".join(dict.fromkeys(TRUNCATE_UNITS.values()))
        raise QueryError("function.arguments", "date_trunc takes a unit as text", hint=units)
    return _fixed(t.TIMESTAMP, t.STRING, t.TIMESTAMP)(name, arguments)


def _delay(name: str, arguments: Arguments) -> Signature:
    number, *settings = arguments
    if not isinstance(number.type, t.IntegerType):
        raise _mismatch(name, "a whole number", (number,))
    for each, most in zip(settings, (MOST_DELAY_US, 1), strict=True):
        value = each.value if isinstance(each, Literal) else None
        if not isinstance(value, int | float | Decimal) or not 0 <= value <= most:
            raise QueryError(
                "function.arguments",
                f"{name} takes microseconds up to {MOST_DELAY_US} and a share up to 1 as literals",
            )
    return Signature((t.BIGINT, t.DOUBLE, t.DOUBLE), t.BOOLEAN)


_TEXT = _fixed(t.STRING, t.STRING)
_TEXT_TEST = _fixed(t.BOOLEAN, t.STRING)
_FROM_DATE = _fixed(t.INT, t.DATE)
_FROM_TIME = _fixed(t.INT, t.TIMESTAMP)
_SECONDS = _fixed(t.BIGINT, t.TIMESTAMP)

FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        Function("and", "a AND b", "BOOLEAN", 2, None, _fixed(t.BOOLEAN, t.BOOLEAN)),
        Function("or", "a OR b", "BOOLEAN", 2, None, _fixed(t.BOOLEAN, t.BOOLEAN)),
        Function("not", "NOT a", "BOOLEAN", 1, 1, _fixed(t.BOOLEAN, t.BOOLEAN)),
        Function("=", "a = b", "BOOLEAN", 2, 2, _comparison),
        Function("<=>", "a <=> b", "BOOLEAN", 2, 2, _comparison),
        Function("<", "a < b", "BOOLEAN", 2, 2, _comparison),
        Function("<=", "a <= b", "BOOLEAN", 2, 2, _comparison),
        Function("in", "a IN (b, ...)", "BOOLEAN", 2, None, _membership),
        Function("like", "a LIKE 'pattern' [ESCAPE 'c']", "BOOLEAN", 2, 3, _like),
        Function("is_null", "a IS NULL", "BOOLEAN", 1, 1, _is_null),
        Function("+", "a + b", "the wider type; DECIMAL by Spark's formulas", 2, 2, _arithmetic),
        Function("-", "a - b", "the wider type; DECIMAL by Spark's formulas", 2, 2, _arithmetic),
        Function("*", "a * b", "the wider type; DECIMAL by Spark's formulas", 2, 2, _arithmetic),
        Function("/", "a / b", "DOUBLE; DECIMAL by Spark's formulas", 2, 2, _arithmetic),
        Function("%", "a % b", "the wider type; DECIMAL by Spark's formulas", 2, 2, _arithmetic),
        Function("neg", "-a", "that of a", 1, 1, _same_number),
        Function("abs", "abs(x)", "that of x", 1, 1, _same_number),
        Function("ceil", "ceil(x)", "BIGINT; DECIMAL(p-s+1,0)", 1, 1, _whole),
        Function("floor", "floor(x)", "BIGINT; DECIMAL(p-s+1,0)", 1, 1, _whole),
        Function("round", "round(x [, digits])", "that of x; DECIMAL(p-s+1+n,n)", 1, 2, _round),
        Function("sqrt", "sqrt(x)", "DOUBLE", 1, 1, _doubles),
        Function("exp", "exp(x)", "DOUBLE", 1, 1, _doubles),
        Function("ln", "ln(x)", "DOUBLE", 1, 1, _doubles),
        Function("log10", "log10(x)", "DOUBLE", 1, 1, _doubles),
        Function("power", "power(x, y)", "DOUBLE", 2, 2, _doubles),
        Function("sign", "sign(x)", "DOUBLE", 1, 1, _doubles),
        Function("greatest", "greatest(a, b, ...)", "the common type", 2, None, _choice),
        Function("least", "least(a, b, ...)", "the common type", 2, None, _choice),
        Function("coalesce", "coalesce(a, ...)", "the common type", 1, None, _choice),
        Function("upper", "upper(s)", "STRING", 1, 1, _TEXT),
        Function("lower", "lower(s)", "STRING", 1, 1, _TEXT),
        Function("length", "length(s)", "INT", 1, 1, _fixed(t.INT, t.STRING)),
        Function("trim", "trim(s)", "STRING", 1, 1, _TEXT),
        Function("ltrim", "ltrim(s)", "STRING", 1, 1, _TEXT),
        Function("rtrim", "rtrim(s)", "STRING", 1, 1, _TEXT),
        Function(
            "substring",
            "substring(s, from [, n])",
            "STRING",
            2,
            3,
            _fixed(t.STRING, t.STRING, t.INT),
        ),
        Function("concat", "concat(s, ...)", "STRING", 1, None, _TEXT),
        Function("replace", "replace(s, old [, new])", "STRING", 3, 3, _TEXT),
        Function("startswith", "startswith(s, start)", "BOOLEAN", 2, 2, _TEXT_TEST),
        Function("endswith", "endswith(s, end)", "BOOLEAN", 2, 2, _TEXT_TEST),
        Function("contains", "contains(s, part)", "BOOLEAN", 2, 2, _TEXT_TEST),
        Function("year", "year(d)", "INT", 1, 1, _FROM_DATE),
        Function("month", "month(d)", "INT", 1, 1, _FROM_DATE),
        Function("day", "day(d)", "INT", 1, 1, _FROM_DATE),
        Function("dayofweek", "dayofweek(d)", "INT", 1, 1, _FROM_DATE),
        Function("hour", "hour(ts)", "INT", 1, 1, _FROM_TIME),
        Function("minute", "minute(ts)", "INT", 1, 1, _FROM_TIME),
        Function("second", "second(ts)", "INT", 1, 1, _FROM_TIME),
        Function("date_trunc", "date_trunc('unit', ts)", "TIMESTAMP", 2, 2, _date_trunc),
        Function("unix_seconds", "unix_seconds(ts)", "BIGINT", 1, 1, _SECONDS),
        Function("unix_millis", "unix_millis(ts)", "BIGINT", 1, 1, _SECONDS),
        Function("delay", "delay(n, microseconds, share)", "BOOLEAN", 3, 3, _delay),
    )
}

_DEAR = frozenset(
    {"delay", "like", "upper", "lower", "trim", "ltrim", "rtrim", "replace", "concat"}
    | {"exp", "ln", "log10", "power", "date_trunc"}
)


def is_dear(expression: Expression) -> bool:
    """Whether evaluating it costs more than what happens to a row later: texts, above all."""
    return any(
        each.function in _DEAR
        if isinstance(each, Call)
        else isinstance(each, Cast) and each.operand.type == t.STRING and each.type != t.STRING
        for each in walk(expression)
    )


AGGREGATES: dict[str, Aggregate] = {
    a.name: a
    for a in (
        Aggregate("count", "count(*), count(x)", "BIGINT"),
        Aggregate("sum", "sum(x)", "BIGINT, DOUBLE, or DECIMAL(p+10,s)"),
        Aggregate("avg", "avg(x)", "DOUBLE, or DECIMAL(p+4,s+4)"),
        Aggregate("min", "min(x)", "that of x"),
        Aggregate("max", "max(x)", "that of x"),
        Aggregate("stddev", "stddev(x)", "DOUBLE"),
        Aggregate("approx_count_distinct", "approx_count_distinct(x)", "BIGINT"),
    )
}


def signature(name: str, arguments: Arguments) -> Signature:
    """Return the types of a call of a catalogue function.

    Raises:
        QueryError: The number or the types of the arguments are wrong.
    """
    function = FUNCTIONS[name]
    low, high, given = function.minimum, function.maximum, len(arguments)
    if given < low or (high is not None and given > high):
        message = f"{name} is written {function.form}; it was given {given} arguments"
        raise QueryError("function.arguments", message)
    return function.rule(name, arguments)


def aggregate_type(name: str, argument: Expression | None) -> Signature:
    """Return the type an aggregate converts its argument to, and the type it gives.

    Raises:
        QueryError: It does not take this argument.
    """
    given = t.NULL if argument is None else argument.type
    if argument is not None and isinstance(given, t.StructType):
        raise _mismatch(name, "plain values", (argument,), "name one of its fields")
    if name in ("count", "approx_count_distinct"):
        return Signature((t.BOOLEAN if given == t.NULL else given,), t.BIGINT)
    if argument is None:
        raise QueryError("function.arguments", f"{name} takes one argument")
    if name in ("min", "max"):
        _choice(name, (argument,))
        return Signature((given,), given)
    _numbers(name, (argument,))
    match name, given:
        case "sum", t.IntegerType():
            return Signature((given,), t.BIGINT)
        case "sum", t.DecimalType(p, s):
            return Signature((given,), bounded(p + 10, s))
        case "avg", t.DecimalType(p, s):
            return Signature((given,), bounded(p + 4, s + 4))
        case "avg", t.IntegerType():
            return Signature((given,), t.DOUBLE)
    return Signature((t.DOUBLE,), t.DOUBLE)
