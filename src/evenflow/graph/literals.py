"""Numbers, dates and instants in SQL text, typed as Spark types them."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from evenflow.base.instant import parse_date, parse_timestamp
from evenflow.errors import QueryError
from evenflow.graph.syntax import Constant
from evenflow.model import types as t
from evenflow.model.coercion import integer_range

if TYPE_CHECKING:
    from evenflow.model.expression import Value

_NUMBER = re.compile(
    r"(\d*)(?:(\.)(\d*))?(?:E([+-]?\d{1,4}))?(L|S|Y|D|BD)?\Z", re.IGNORECASE | re.ASCII
)
_MAX_DIGITS = 80
_INTEGERS = {"L": t.BIGINT, "S": t.SMALLINT, "Y": t.TINYINT}


def number(text: str, position: int | None, *, negative: bool = False) -> Constant:
    """Return the constant that a number in SQL text stands for.

    Raises:
        QueryError: It is not a number or fits no type.
    """
    found = _NUMBER.match(text)
    if found is None or len(text) > _MAX_DIGITS or not (found[1] or found[3]):
        raise _invalid(text, "is not a number", position)
    suffix = (found[5] or "").upper()
    body = ("-" if negative else "") + text[: len(text) - len(suffix)]
    if suffix in _INTEGERS:
        if found[2] or found[4]:
            raise _invalid(text, "is not a whole number", position)
        return _integer(body, _INTEGERS[suffix], position)
    if suffix == "D" or (found[4] and suffix != "BD"):
        return _double(body, position)
    if found[2] or suffix == "BD":
        return _decimal(body, position)
    for type_ in (t.INT, t.BIGINT):
        if _fits(int(body), type_):
            return Constant(int(body), type_, position)
    return _decimal(body, position)


def _fits(value: int, type_: t.IntegerType) -> bool:
    low, high = integer_range(type_)
    return low <= value <= high


def _integer(body: str, type_: t.IntegerType, position: int | None) -> Constant:
    if not _fits(int(body), type_):
        raise _invalid(body, f"does not fit into {type_}", position)
    return Constant(int(body), type_, position)


def _double(body: str, position: int | None) -> Constant:
    value = float(body)
    if math.isinf(value):
        raise _invalid(body, "is too large for a DOUBLE", position)
    return Constant(value, t.DOUBLE, position)


def _decimal(body: str, position: int | None) -> Constant:
    constant = decimal(Decimal(body), position)
    if constant is None:
        raise _invalid(body, f"has more than {t.MAX_PRECISION} digits", position)
    return constant


def decimal(value: Decimal, position: int | None = None) -> Constant | None:
    """Return the constant with the type its digits ask for; None if there are too many."""
    sign, digits, exponent = value.as_tuple() if value else value.copy_abs().as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > t.MAX_PRECISION:
        return None
    if exponent > 0:
        digits, exponent = digits + (0,) * exponent, 0
    significant = len("".join(map(str, digits)).lstrip("0")) or 1
    precision = max(significant, -exponent)
    if precision > t.MAX_PRECISION:
        return None
    return Constant(
        Decimal((sign, digits, exponent)), t.DecimalType(precision, -exponent), position
    )


def moment(text: str, type_: t.DataType, position: int | None) -> Constant:
    """Return the constant of type DATE or TIMESTAMP that a text stands for.

    Raises:
        QueryError: The text is neither.
    """
    value: Value = parse_date(text) if type_ == t.DATE else parse_timestamp(text)
    if value is None:
        example = "2026-05-01" if type_ == t.DATE else "2026-05-01 10:30:00"
        hint = f"write it as '{example}'"
        raise QueryError(
            "literal.invalid", f"{text[:40]!r} is not a {type_}", position=position, hint=hint
        )
    return Constant(value, type_, position)


def _invalid(text: str, fault: str, position: int | None) -> QueryError:
    return QueryError("literal.invalid", f"{text[:40]} {fault}", position=position)
