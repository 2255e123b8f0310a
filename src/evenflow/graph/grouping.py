"""GROUP BY: keys, window and aggregates of one query, found while its expressions are bound.

Expressions are first bound over the input, with columns of reserved names in the places of window
and aggregates. When all are known, they are named `k0..`, `w` and `a0..` in an order that does
not depend on how the query was written, and the expressions are rewritten over these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.base.duration import parse_duration_us
from evenflow.errors import ConfigError, QueryError
from evenflow.graph import syntax as s
from evenflow.graph.bind import INSIDE_AGGREGATE, Binder
from evenflow.graph.canonical import Canonicaliser, aggregate_text, canonical, canonical_text
from evenflow.graph.scope import member
from evenflow.model import types as t
from evenflow.model.coercion import convert
from evenflow.model.expression import (
    TRUE,
    AggregateCall,
    Column,
    Literal,
    children,
    walk,
    with_children,
)
from evenflow.model.functions import aggregate_type
from evenflow.model.operator import Aggregate, Window, is_grouped

if TYPE_CHECKING:
    from evenflow.graph.bind import Budget
    from evenflow.graph.scope import Scope
    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator

WINDOW_NAME = "w"
MOST_WINDOWS = 10_000
"""Windows that one tuple may be in: each is a row in every batch."""

_WINDOW = "\0window"
_AGGREGATE = "\0aggregate"
"""First parts of paths that stand for window and aggregates. No user can write them."""


class Grouping:
    """Collects what a query groups by and computes. Serves its binders as their `Groups`."""

    def __init__(self, operator: Operator, scope: Scope, budget: Budget) -> None:
        self._operator = operator
        self._scope = scope
        self._budget = budget
        self._keys: dict[str, Expression] = {}
        self._aggregates: dict[str, AggregateCall] = {}
        self._columns: dict[str, Column] = {}
        self._takes_keys = True
        self._in_having = False
        self.window: Window | None = None

    def check_input(self, position: int | None) -> None:
        """Refuse an input that is itself grouped.

        Raises:
            QueryError: It is.
        """
        if is_grouped(self._operator):
            raise QueryError(
                "aggregate.nested",
                "an aggregate over answers of an aggregate is not supported",
                position=position,
                hint="aggregate the stream itself",
            )

    # What binders ask.

    def binder(self, place: str, *, having: bool = False) -> Binder:
        """Return a binder whose expressions may use window and aggregates."""
        self._in_having = having
        return Binder(self._scope, self._budget, self, place, prefers_named=having)

    def find(self, name: s.Name) -> Expression | None:
        """Return the window for `window`; in HAVING a grouped column before any other name."""
        if name.parts[0].lower() == "window" and self.window is not None:
            if self._scope.find(name.parts[:1]) is not None:
                message = "window is the query's window and a column of its input"
                raise QueryError("column.ambiguous", message, position=name.position)
            return member(Column((_WINDOW,), t.WINDOW), name.parts[1:], name.position)
        if not self._in_having:
            return None
        found = self._scope.find(name.parts, name.position)
        return found if found is not None and canonical_text(found) in self._keys else None

    def bind_window(self, node: s.FunctionCall) -> Expression:
        """Check `window(ts, 'size'[, 'slide'])` and return what stands for it."""
        window = self._read_window(node)
        if self.window is not None and window != self.window:
            message = "a query has one window; this is another one"
            raise QueryError("window.invalid", message, position=node.position)
        self.window = window
        return Column((_WINDOW,), t.WINDOW)

    def _read_window(self, node: s.FunctionCall) -> Window:
        if not 2 <= len(node.arguments) <= 3 or node.condition is not None:
            message = "window is written window(event_time, 'size' [, 'slide'])"
            raise QueryError("window.invalid", message, position=node.position)
        instant = Binder(self._scope, self._budget, place="inside window()").bind(node.arguments[0])
        event_time = self._operator.event_time
        if event_time is None or instant != Column((event_time,), t.TIMESTAMP):
            raise QueryError(
                "window.invalid",
                "window takes the event time of the stream",
                position=node.arguments[0].position,
                hint=f"that is {event_time}" if event_time else "this stream has none",
            )
        sizes = [_duration(argument) for argument in node.arguments[1:]]
        return checked_window(sizes[0], sizes[-1], node.arguments[-1].position)

    def bind_aggregate(self, name: str, node: s.FunctionCall) -> Expression:
        """Note an aggregate and return what stands for it."""
        if self._takes_keys:
            message = "an aggregate cannot be grouped by"
            raise QueryError("sql.forbidden", message, position=node.position)
        if not node.star and len(node.arguments) != 1:
            message = f"{name} takes one argument"
            raise QueryError("function.arguments", message, position=node.position)
        inside = Binder(self._scope, self._budget, place=INSIDE_AGGREGATE)
        argument = None if node.star else inside.bind(node.arguments[0])
        condition = None if node.condition is None else inside.boolean(node.condition)
        call = _aggregate(name, argument, condition, node)
        text = aggregate_text(call)
        self._aggregates[text] = call
        return Column((_AGGREGATE, text), call.type)

    # Building.

    def add_key(self, key: Expression, position: int | None) -> None:
        """Group by an expression over the input.

        Raises:
            QueryError: Its type cannot be grouped by.
        """
        columns = [e for e in walk(key) if isinstance(e, Column)]
        of_window = [e for e in columns if e.path[0] == _WINDOW]
        if of_window and len(of_window) == len(columns):
            return  # the window is grouped by anyway
        if of_window:
            message = "the window cannot be mixed with columns in a group's key"
            raise QueryError("window.invalid", message, position=position)
        if isinstance(key.type, t.StructType):
            message = "a STRUCT cannot be grouped by"
            raise QueryError("type.mismatch", message, position=position, hint="name its fields")
        made = canonical(key)
        if not isinstance(made, Literal):  # a constant groups nothing
            self._keys[canonical_text(made)] = made

    def close_keys(self, position: int | None) -> None:
        """End the keys; aggregates may come now.

        Raises:
            QueryError: There is no window.
        """
        self._takes_keys = False
        if self.window is None:
            raise _no_window(position)

    def operator(self) -> Aggregate:
        """Return the operator, once everything was bound."""
        if self.window is None:
            raise _no_window(None)
        keys = [(f"k{i}", self._keys[text]) for i, text in enumerate(sorted(self._keys))]
        calls = [(f"a{i}", text) for i, text in enumerate(sorted(self._aggregates))]
        for name, key in keys:
            self._columns[canonical_text(key)] = Column((name,), key.type)
        for name, text in calls:
            self._columns[f"{_AGGREGATE}{text}"] = Column((name,), self._aggregates[text].type)
        aggregates = tuple((name, self._aggregates[text]) for name, text in calls)
        return Aggregate(self._operator, tuple(keys), self.window, WINDOW_NAME, aggregates)

    def over_answers(self, expression: Expression, binder: Binder) -> Expression:
        """Return an expression over the input as one over the operator's output.

        Raises:
            QueryError: It needs a column that is neither grouped by nor inside an aggregate.
        """
        visitor = Canonicaliser()
        if any(not isinstance(key, Column) for key in self._keys.values()):
            visitor.visit(expression)
        return canonical(self._replace(expression, visitor.texts, binder))

    def _replace(self, expression: Expression, texts: dict[int, str], binder: Binder) -> Expression:
        match expression:
            case Column(path=(first, *fields), type=type_) if first == _WINDOW:
                return Column((WINDOW_NAME, *fields), type_)
            case Column(path=(first, text)) if first == _AGGREGATE:
                return self._columns[f"{_AGGREGATE}{text}"]
        is_column = isinstance(expression, Column)
        text = canonical_text(expression) if is_column else texts.get(id(expression), "")
        key = self._columns.get(text)
        if key is not None:
            return key
        if isinstance(expression, Column):
            raise QueryError(
                "aggregate.not-grouped",
                f"{expression} is neither grouped by nor inside an aggregate",
                position=binder.positions.get(expression.path),
                hint="add it to GROUP BY",
            )
        parts = children(expression)
        if not parts:
            return expression
        return with_children(expression, tuple(self._replace(p, texts, binder) for p in parts))


def is_window(expression: Expression) -> bool:
    """Whether a bound expression is the whole window of its query."""
    return isinstance(expression, Column) and expression.path == (_WINDOW,)


def uses_window(expression: Expression) -> bool:
    """Whether a bound expression contains the window of its query or a part of it."""
    return any(isinstance(e, Column) and e.path[0] == _WINDOW for e in walk(expression))


def checked_window(size_us: int, slide_us: int, position: int | None) -> Window:
    """Return the window.

    Raises:
        QueryError: It slides by more than its size, is not whole milliseconds, as watermarks are,
            or a tuple would be in very many windows.
    """
    if size_us % 1000 or slide_us % 1000:
        message = "a window is whole milliseconds"
        raise QueryError("window.invalid", message, position=position)
    if slide_us > size_us:
        message = "a window cannot slide by more than its size"
        raise QueryError("window.invalid", message, position=position)
    window = Window(size_us, slide_us)
    if window.per_tuple > MOST_WINDOWS:
        message = (
            f"a tuple would be in {window.per_tuple:,} windows, at most {MOST_WINDOWS:,} can be"
        )
        raise QueryError("window.invalid", message, position=position, hint="use a longer slide")
    return window


def _duration(node: s.Node) -> int:
    if not isinstance(node, s.Constant) or not isinstance(node.value, str):
        message = "window takes its durations as text"
        raise QueryError("window.invalid", message, position=node.position, hint="'1 hour'")
    try:
        return parse_duration_us(node.value)
    except ConfigError as exc:
        raise QueryError(
            "window.invalid", exc.message, position=node.position, hint=exc.hint
        ) from exc


def _aggregate(
    name: str, argument: Expression | None, condition: Expression | None, node: s.Node
) -> AggregateCall:
    try:
        types = aggregate_type(name, argument)
    except QueryError as exc:
        raise QueryError(exc.code, exc.message, position=node.position, hint=exc.hint) from None
    made = None if argument is None else canonical(convert(argument, types.arguments[0]))
    if name == "count" and isinstance(made, Literal) and made.value is not None:
        made = None  # count(1) is count(*)
    test = None if condition is None else canonical(condition)
    if test == TRUE:
        test = None
    return AggregateCall(name, made, test, types.result)


def _no_window(position: int | None) -> QueryError:
    return QueryError(
        "aggregate.no-window",
        "a group of an endless stream needs a window to end",
        position=position,
        hint="add window(event_time, '1 hour') to GROUP BY",
    )
