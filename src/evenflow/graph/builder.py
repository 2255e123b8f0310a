"""The fluent builder: Python methods that give the same operators as SQL.

A `Stream` is a place in a graph: an operator, and the names by which its columns go. Each method
returns a new one. `query` puts the result into the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evenflow.base.duration import parse_duration_us
from evenflow.errors import ConfigError, QueryError
from evenflow.graph import steps
from evenflow.graph import syntax as s
from evenflow.graph.bind import Budget
from evenflow.graph.expr import (
    Expr,
    Functions,
    When,
    approx_count_distinct,
    as_node,
    avg,
    col,
    count,
    fn,
    lit,
    max_,
    min_,
    stddev,
    sum_,
    when,
)
from evenflow.graph.grouping import checked_window
from evenflow.graph.joining import JoinStep, joined
from evenflow.graph.parse import parse_expression, parse_item
from evenflow.graph.scope import Scope, Visible
from evenflow.model import types as t
from evenflow.model.operator import Apply, JoinType, Table, is_grouped
from evenflow.model.query import Query, Sink
from evenflow.model.schema import Schema, parse_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evenflow.graph.graph import Graph
    from evenflow.model.operator import Operator, Window

__all__ = [
    "Expr",
    "Functions",
    "Stream",
    "When",
    "Windowed",
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

_EVERYTHING = (s.Item(s.Star(None)),)


@dataclass(frozen=True)
class Stream:
    """A stream of a graph. Immutable."""

    graph: Graph
    _operator: Operator = field(repr=False)
    _scope: Scope = field(repr=False)
    _sinks: tuple[Sink, ...] = ()

    @classmethod
    def of(cls, graph: Graph, operator: Operator, name: str | None = None) -> Stream:
        """Return the output of an operator as a stream that can be called by a name."""
        return cls(graph, operator, Scope.of(operator, name))

    @property
    def operator(self) -> Operator:
        """The operator whose output has this stream's columns under their names."""
        return steps.projected(self._operator, steps.selected(self._scope, _EVERYTHING, Budget()))

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self.operator.schema

    def where(self, condition: Expr | str) -> Stream:
        """Return the tuples for which a condition is TRUE. After `agg` it is HAVING."""
        text = condition if isinstance(condition, str) else condition.text
        try:
            made = steps.filtered(self._operator, self._scope, as_node(condition), Budget())
        except QueryError as exc:
            raise exc.located(None, text) from exc.__cause__
        return replace(self, _operator=made)

    having = where

    def select(self, *items: Expr | str, **named: Expr | str) -> Stream:
        """Return other columns: names, SQL text, expressions, and new names for them."""
        columns = steps.selected(self._scope, _items(items, named), Budget())
        return self._next(steps.projected(self._operator, columns))

    def join(
        self,
        table: str | Table,
        on: str | Sequence[str] | Expr,
        how: str = "inner",
        alias: str | None = None,
    ) -> Stream:
        """Return each tuple with the table's rows that have the same key.

        Args:
            table: A table of the graph.
            on: The columns that both sides have, or a condition over both.
            how: `inner`, or `left` to keep tuples without a row.
            alias: What conditions call the table; its name if not given.

        Raises:
            ConfigError: `how` is neither.
            QueryError: The table or a column is not known, or the condition is not allowed.
        """
        if how not in ("inner", "left"):
            raise ConfigError(f"join takes how='inner' or 'left', not {how!r}")
        name = table if isinstance(table, str) else table.name
        found = self.graph.find_table(name)
        if found is None:
            raise QueryError("table.unknown", f"table {name[:60]} is not known")
        condition, using = _join_keys(on)
        step = JoinStep(
            table=found,
            alias=alias or found.name,
            join_type=JoinType(how),
            condition=condition,
            using=using,
        )
        operator, scope = joined(self._operator, self._scope, step, Budget())
        return replace(self, _operator=steps.limited(operator), _scope=scope)

    def union(self, *others: Stream) -> Stream:
        """Return all tuples of all these streams, as UNION ALL does."""
        return self._next(steps.united([(each.operator, None) for each in (self, *others)]))

    def window(self, size: str, slide: str | None = None) -> Windowed:
        """Return the stream cut into windows of event time, to be grouped.

        Raises:
            ConfigError: A duration is not one.
            QueryError: The stream has no event time, or slides by more than the size.
        """
        if self._operator.event_time is None:
            raise QueryError("window.invalid", "this stream has no event time")
        size_us = parse_duration_us(size)
        slide_us = size_us if slide is None else parse_duration_us(slide)
        return Windowed(self, checked_window(size_us, slide_us, None))

    def apply(
        self,
        function: Callable[..., Any],
        schema: str | Schema,
        *arguments: Any,
        event_time: str | None = None,
        **options: Any,
    ) -> Stream:
        """Return what a `DataFrame -> DataFrame` function makes of the stream.

        Args:
            function: Called as `function(frame, *arguments, **options)`.
            schema: The columns it gives.
            arguments: Plain values.
            event_time: The column of the result that carries event time; if not given, that of
                the input if it is still there.
            options: Plain values.

        Raises:
            ConfigError: The schema or an argument is wrong.
        """
        if is_grouped(self.operator):
            raise ConfigError(
                "a function cannot be applied to answers of a window",
                "apply it to the stream, or give the query a callback as its sink",
            )
        made = parse_schema(schema) if isinstance(schema, str) else schema
        identity, text = self.graph.register(function, arguments, options)
        operator = self.operator
        kept = made.find(event_time or operator.event_time or "")
        if event_time is not None and (kept is None or kept.type != t.TIMESTAMP):
            raise ConfigError(f"{event_time} is not a TIMESTAMP column of the function's schema")
        name = kept.name if kept is not None and kept.type == t.TIMESTAMP else None
        return self._next(steps.limited(Apply(operator, identity, text, made, name)))

    def sink(self, sink: Sink) -> Stream:
        """Return the same stream; its answers go there too once it is a query."""
        return replace(self, _sinks=(*self._sinks, sink))

    def query(self, name: str, sink: Sink | Sequence[Sink] = (), **options: Any) -> Query:
        """Add the stream to the graph as a query; options are the fields of `Query`."""
        sinks = (sink,) if isinstance(sink, Sink) else tuple(sink)
        operator = self.operator
        query = Query(
            name=name,
            operator=operator,
            schema=operator.schema,
            sinks=(*self._sinks, *sinks),
            **options,
        )
        return self.graph.add_query(query)

    def grouped(self, clause: steps.GroupClause) -> Stream:
        """Return the groups of the stream; `window` is the way to write it."""
        operator, columns = steps.grouped(self._operator, self._scope, clause, Budget())
        return replace(self, _operator=operator, _scope=Scope([Visible(None, columns)]))

    def _next(self, operator: Operator) -> Stream:
        return replace(self, _operator=operator, _scope=Scope.of(operator))


@dataclass(frozen=True)
class Windowed:
    """A stream cut into windows. The window is a column `window` with fields start and end."""

    stream: Stream
    window: Window
    _keys: tuple[s.Item, ...] = ()

    def by(self, *keys: Expr | str, **named: Expr | str) -> Windowed:
        """Return it grouped by columns or expressions."""
        return replace(self, _keys=(*self._keys, *_items(keys, named)))

    def agg(self, *aggregates: Expr | str, **named: Expr | str) -> Stream:
        """Return one tuple per group and window: keys, `window`, aggregates.

        Raises:
            ConfigError: Nothing is aggregated.
        """
        items = _items(aggregates, named)
        if not items:
            raise ConfigError("agg takes at least one aggregate", "use distinct() for none")
        return self._grouped(items)

    def distinct(self) -> Stream:
        """Return the different keys of each window."""
        return self._grouped(())

    def _grouped(self, items: tuple[s.Item, ...]) -> Stream:
        window = s.Item(s.Name(("window",)))
        nodes = [i.expression for i in self._keys if not isinstance(i.expression, s.Star)]
        clause = steps.GroupClause(
            items=(*self._keys, window, *items), keys=tuple(nodes), window=self.window
        )
        return self.stream.grouped(clause)


def _items(items: Sequence[Expr | str], named: dict[str, Expr | str]) -> tuple[s.Item, ...]:
    made = [parse_item(i) if isinstance(i, str) else s.Item(i.node, i.name) for i in items]
    made += [s.Item(as_node(value), name) for name, value in named.items()]
    return tuple(made)


def _join_keys(on: str | Sequence[str] | Expr) -> tuple[s.Node | None, tuple[s.Name, ...]]:
    if isinstance(on, Expr):
        return on.node, ()
    nodes = [parse_expression(text) for text in ([on] if isinstance(on, str) else on)]
    names = tuple(n for n in nodes if isinstance(n, s.Name) and len(n.parts) == 1)
    if names and len(names) == len(nodes):
        return None, names
    if len(nodes) == 1:
        return nodes[0], ()
    raise ConfigError("join takes on= as one or more columns, or as one condition")
