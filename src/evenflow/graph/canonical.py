"""The canonical form of bound expressions: what is the same to SQL becomes the same value.

Kept: three-valued logic, rounding, and every error that could be raised, except that FALSE AND
error is FALSE and TRUE OR error is TRUE (DESIGN.md, 3). Not done: NOT(a < b) to b <= a, which
differs on NaN; regrouping of sums, which differs in rounding and overflow.
"""

from __future__ import annotations

import operator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from evenflow.model import types as t
from evenflow.model.coercion import convert, integer_range
from evenflow.model.expression import FALSE, TRUE, Call, Case, Cast, Column, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenflow.model.expression import AggregateCall, Expression, Value

    Form = tuple[Expression, str]

_UNKNOWN = Literal(None, t.BOOLEAN)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}


def canonical(expression: Expression) -> Expression:
    """Return the canonical form. Applying it twice changes nothing more."""
    return Canonicaliser().visit(expression)[0]


def canonical_text(expression: Expression) -> str:
    """Return a text that is equal exactly for expressions of equal canonical form."""
    return Canonicaliser().visit(expression)[1]


def aggregate_text(call: AggregateCall) -> str:
    """Return such a text for an aggregate whose parts are canonical."""
    inner = "*" if call.argument is None else canonical_text(call.argument)
    tail = "" if call.condition is None else f" FILTER {canonical_text(call.condition)}"
    return f"{call.function}({inner}){tail}"


class Canonicaliser:
    """One pass, innermost first. Remembers the text of every node it was given."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        """By `id` of the nodes of the expression that was visited; keep it alive meanwhile."""

    def visit(self, expression: Expression) -> Form:
        """Return the canonical form and its text."""
        if isinstance(expression, Column | Literal):
            form = _leaf(expression)
        elif isinstance(expression, Call):
            parts = [self.visit(argument) for argument in expression.arguments]
            rule = _RULES.get(expression.function, _make)
            form = rule(expression.function, parts, expression.type)
        elif isinstance(expression, Cast):
            form = self._cast(expression)
        else:
            form = self._case(expression)
        self.texts[id(expression)] = form[1]
        return form

    def _cast(self, cast: Cast) -> Form:
        inner, text = self.visit(cast.operand)
        made = convert(inner, cast.type)
        return (made, f"CAST({text} AS {cast.type})") if isinstance(made, Cast) else _leaf(made)

    def _case(self, case: Case) -> Form:
        otherwise = None if case.otherwise is None else self.visit(case.otherwise)
        branches: list[tuple[Form, Form]] = []
        for when, then in case.branches:
            condition, value = self.visit(when), self.visit(then)
            if condition[0] == TRUE:
                otherwise = value
                break
            if not isinstance(condition[0], Literal):
                branches.append((condition, value))
        if otherwise is not None and _is_null(otherwise[0]):
            otherwise = None
        if not branches:
            return otherwise or _leaf(Literal(None, case.type))
        body = " ".join(f"WHEN {c[1]} THEN {v[1]}" for c, v in branches)
        made = tuple((c[0], v[0]) for c, v in branches)
        if otherwise is None:
            return Case(made, None, case.type), f"CASE {body} END"
        return Case(made, otherwise[0], case.type), f"CASE {body} ELSE {otherwise[1]} END"


def _leaf(expression: Expression) -> Form:
    """Return a column or literal, or anything else whose text is not at hand."""
    if isinstance(expression, Column):
        return expression, ".".join([f"`{part}`" for part in expression.path])
    if isinstance(expression, Literal):
        return expression, f"{expression.value!r}:{expression.type}"
    return Canonicaliser().visit(expression)


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def _make(function: str, parts: list[Form], type_: t.DataType) -> Form:
    arguments = tuple([part[0] for part in parts])
    return Call(function, arguments, type_), f"{function}({', '.join([p[1] for p in parts])})"


def _junction(function: str, parts: list[Form], _: t.DataType = t.BOOLEAN) -> Form:
    ends, neutral = (FALSE, TRUE) if function == "and" else (TRUE, FALSE)
    kept: dict[str, Form] = {}
    for part in parts:
        inner = part[0]
        nested = isinstance(inner, Call) and inner.function == function
        flat = [_leaf(a) for a in inner.arguments] if isinstance(inner, Call) and nested else [part]
        for each in flat:
            if each[0] == ends:
                return each
            if each[0] != neutral:
                kept[each[1]] = each
    if not kept:
        return _leaf(neutral)
    ordered = [kept[text] for text in sorted(kept)]
    return ordered[0] if len(ordered) == 1 else _make(function, ordered, t.BOOLEAN)


def _negation(function: str, parts: list[Form], type_: t.DataType) -> Form:
    match parts[0][0]:
        case Literal(value=None):
            return parts[0]
        case Literal(value=value):
            return _leaf(FALSE if value else TRUE)
        case Call(function="not", arguments=(inner,)):
            return _leaf(inner)
    return _make(function, parts, type_)


def _null_test(function: str, parts: list[Form], type_: t.DataType) -> Form:
    operand = parts[0][0]
    if isinstance(operand, Literal):
        return _leaf(TRUE if operand.value is None else FALSE)
    return _make(function, parts, type_)


def _coalesce(function: str, parts: list[Form], type_: t.DataType) -> Form:
    return parts[0] if len(parts) == 1 else _make(function, parts, type_)


def _comparison(function: str, parts: list[Form], _: t.DataType = t.BOOLEAN) -> Form:
    left, right = parts[0][0], parts[1][0]
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _leaf(_compared(function, left.value, right.value))
    if function == "<=>" and (_is_null(left) or _is_null(right)):
        return _make("is_null", [parts[1] if _is_null(left) else parts[0]], t.BOOLEAN)
    if function in ("=", "<=>") and parts[0][1] > parts[1][1]:
        parts = [parts[1], parts[0]]
    return _make(function, parts, t.BOOLEAN)


def _compared(function: str, left: Value, right: Value) -> Literal:
    if function == "<=>":
        same = left == right if left is not None and right is not None else left is right
        return TRUE if same else FALSE
    if left is None or right is None:
        return _UNKNOWN
    return TRUE if _COMPARE[function](left, right) else FALSE


def _membership(function: str, parts: list[Form], type_: t.DataType) -> Form:
    items = parts[1:]
    if all(isinstance(item[0], Literal) for item in items):
        items = sorted({item[1]: item for item in items}.values(), key=_by_text)
    if len(items) == 1:
        return _comparison("=", [parts[0], items[0]])
    if isinstance(parts[0][0], Literal) and all(isinstance(i[0], Literal) for i in items):
        found = [_comparison("=", [parts[0], item]) for item in items]
        return _junction("or", found)
    return _make(function, [parts[0], *items], type_)


def _arithmetic(function: str, parts: list[Form], type_: t.DataType) -> Form:
    literals = [p[0] for p in parts if isinstance(p[0], Literal)]
    if len(literals) == len(parts):
        folded = _folded(function, [each.value for each in literals], type_)
        if folded is not None:
            return _leaf(Literal(folded, type_))
    if function in ("+", "*") and parts[0][1] > parts[1][1]:
        parts = [parts[1], parts[0]]
    return _make(function, parts, type_)


def _folded(function: str, values: list[Value], type_: t.DataType) -> Value:
    """Return the constant result; None if it is not constant, or would raise or round."""
    match function, values:
        case "neg", [float(value)]:
            return -value
        case "neg", [Decimal() as value]:
            return value.copy_negate() if value else value  # minus would round to 28 digits
        case "neg", [int(value)] if isinstance(type_, t.IntegerType):
            result = -value
        case "%", [int(), 0]:
            return None
        case _, [int(left), int(right)] if isinstance(type_, t.IntegerType):
            result = _ARITHMETIC[function](left, right)
        case _:
            return None
    low, high = integer_range(type_)
    return result if low <= result <= high else None


def _by_text(form: Form) -> str:
    return form[1]


_RULES: dict[str, Callable[[str, list[Form], t.DataType], Form]] = {
    **dict.fromkeys(("and", "or"), _junction),
    **dict.fromkeys(("=", "<", "<=", "<=>"), _comparison),
    **dict.fromkeys(("+", "-", "*", "%", "neg"), _arithmetic),
    "not": _negation,
    "in": _membership,
    "is_null": _null_test,
    "coalesce": _coalesce,
}
