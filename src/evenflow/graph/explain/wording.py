"""Expressions and operators in words that people read: infix, with what they compute from."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from evenflow.base.duration import format_us
from evenflow.model.expression import AggregateCall, Call, Case, Cast, Column, Literal
from evenflow.model.failure import failing_parts
from evenflow.model.operator import (
    Aggregate,
    Apply,
    Join,
    Select,
    Source,
    Table,
    Union,
    Where,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator, Window

Names = dict[str, str]
"""Texts that stand for columns with names of our own."""

_MIRRORED = {"<": ">", "<=": ">=", "=": "=", "<=>": "<=>"}
_NEGATED = {"=": "<>", "in": "NOT IN", "like": "NOT LIKE", "is_null": "IS NOT NULL"}
_WORDS = {"and": "AND", "or": "OR", "in": "IN", "like": "LIKE", "is_null": "IS NULL"}
_BINDING = {"or": 1, "and": 2, "not": 3, "in": 4, "like": 4, "is_null": 4}
_BINDING |= dict.fromkeys(("=", "<=>", "<", "<="), 4)
_BINDING |= {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "neg": 7}
_TIGHT = 8


def expression_text(expression: Expression, names: Mapping[str, str] | None = None) -> str:
    """Return an expression as SQL that people read. `names` replaces columns of our own."""
    return _text(expression, names or {})[0]


def aggregate_text(call: AggregateCall, names: Mapping[str, str] | None = None) -> str:
    """Return `sum(kwh) FILTER (WHERE valid)`."""
    inner = "*" if call.argument is None else expression_text(call.argument, names)
    tail = (
        f" FILTER (WHERE {expression_text(call.condition, names)})"
        if call.condition is not None
        else ""
    )
    return f"{call.function}({inner}){tail}"


def failure_text(expression: Expression, names: Mapping[str, str] | None = None) -> str:
    """Return how an expression can fail on a tuple: `division by zero in a / b`."""
    found = dict.fromkeys(_failure(part, names or {}) for part in failing_parts(expression))
    return " or ".join(found)


def _failure(part: Expression, names: Mapping[str, str]) -> str:
    text = expression_text(part, names)
    match part:
        case Cast():
            return f"bad value for {text}"
        case Call(function="/" | "%"):
            return f"division by zero in {text}"
    return f"overflow in {text}"


def window_text(window: Window) -> str:
    """Return `1 hour`, or `1 hour every 10 minutes`."""
    size = format_us(window.size_us)
    sliding = window.slide_us != window.size_us
    return f"{size} every {format_us(window.slide_us)}" if sliding else size


def operator_text(operator: Operator) -> str:
    """Return what an operator does, without its kind."""
    names = column_names(operator.inputs[0]) if operator.inputs else {}
    match operator:
        case Source():
            return operator.name
        case Table():
            return operator.name
        case Where(predicate=predicate):
            return expression_text(predicate, names)
        case Select(columns=columns):
            return ", ".join(_column_text(name, value, names) for name, value in columns)
        case Aggregate():
            return _grouping_text(operator, names)
        case Join(table=table, keys=keys, join_type=join_type):
            pairs = (f"{expression_text(e, names)} = {table.name}.{column}" for e, column in keys)
            return f"{join_type.value} {table.name} ON {' AND '.join(pairs)}"
        case Union(inputs=inputs):
            return f"all of {len(inputs)} streams"
        case Apply(function=function):
            return function.rsplit("#", 1)[0].rsplit(".", 1)[-1] + "()"
    return operator.kind


def column_names(operator: Operator) -> Names:
    """Return what stands behind columns of our own names that leave an operator."""
    match operator:
        case Where(input=source):
            return column_names(source)
        case Join(input=source, table=table, table_prefix=prefix):
            joined = {prefix + f.name: f"{table.name}.{f.name}" for f in table.schema}
            return {**column_names(source), **joined}
        case Aggregate(input=source, window_name=window):
            names = column_names(source)
            keys = {name: expression_text(value, names) for name, value in operator.keys}
            values = {name: aggregate_text(call, names) for name, call in operator.aggregates}
            return {**keys, window: "window", **values}
    return {}


def _grouping_text(operator: Aggregate, names: Names) -> str:
    keys = ", ".join(expression_text(value, names) for _, value in operator.keys)
    values = ", ".join(aggregate_text(call, names) for _, call in operator.aggregates)
    by = f" by {keys}" if keys else ""
    return f"{window_text(operator.window)}{by}: {values or 'distinct'}"


def _column_text(name: str, value: Expression, names: Mapping[str, str]) -> str:
    text = expression_text(value, names)
    return name if text == name else f"{text} AS {name}"


def _text(expression: Expression, names: Mapping[str, str]) -> tuple[str, int]:
    """Return the text and how tightly it holds together."""
    match expression:
        case Column(path=path):
            first = names.get(path[0], path[0])
            return ".".join((first, *path[1:])), _TIGHT
        case Literal(value=value):
            return _literal_text(expression, value), _TIGHT
        case Cast(operand=operand, type=type_):
            return f"CAST({_text(operand, names)[0]} AS {type_})", _TIGHT
        case Case():
            return _case_text(expression, names), _TIGHT
        case Call():
            return _call_text(expression, names)


def _literal_text(literal: Literal, value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return str(literal)


def _case_text(case: Case, names: Mapping[str, str]) -> str:
    body = " ".join(
        f"WHEN {_text(c, names)[0]} THEN {_text(v, names)[0]}" for c, v in case.branches
    )
    tail = f" ELSE {_text(case.otherwise, names)[0]}" if case.otherwise is not None else ""
    return f"CASE {body}{tail} END"


def _call_text(call: Call, names: Mapping[str, str]) -> tuple[str, int]:
    function, arguments = call.function, call.arguments
    if function == "not" and isinstance(arguments[0], Call):
        word = _NEGATED.get(arguments[0].function)
        if word is not None:
            return _infix(arguments[0], word, names)
    if function in ("not", "neg"):
        level = _BINDING[function]
        inner = _inside(arguments[0], level, names)
        return f"{'NOT ' if function == 'not' else '-'}{inner}", level
    if function not in _BINDING:
        return f"{function}({', '.join(_text(a, names)[0] for a in arguments)})", _TIGHT
    mirrored = isinstance(arguments[0], Literal) and not isinstance(arguments[-1], Literal)
    if mirrored and function in _MIRRORED:
        # The canonical form has only < and <=; 2 < kwh reads better the other way round.
        turned = Call(function, (arguments[1], arguments[0]), call.type)
        return _infix(turned, _MIRRORED[function], names)
    return _infix(call, _WORDS.get(function, function), names)


def _infix(call: Call, word: str, names: Mapping[str, str]) -> tuple[str, int]:
    level = _BINDING[call.function]
    parts = [_inside(argument, level, names) for argument in call.arguments]
    match call.function:
        case "is_null":
            return f"{parts[0]} {word}", level
        case "in":
            return f"{parts[0]} {word} ({', '.join(parts[1:])})", level
        case "like":
            escape = f" ESCAPE {parts[2]}" if len(parts) > 2 else ""
            return f"{parts[0]} {word} {parts[1]}{escape}", level
    return f" {word} ".join(parts), level


def _inside(expression: Expression, level: int, names: Mapping[str, str]) -> str:
    text, own = _text(expression, names)
    return text if own > level else f"({text})"
