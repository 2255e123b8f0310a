"""The continuous-query graph: sources, tables, and queries over operators that they share.

Operators are immutable values with a structural hash, so sharing needs no search: two queries that
need the same operator hold equal ones, and `operators` lists each once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from evenflow.base.names import check_name
from evenflow.errors import ConfigError, QueryError
from evenflow.graph.builder import Stream
from evenflow.graph.parse import parse_statement
from evenflow.graph.sql import build_statement, ordered_statements
from evenflow.model import types as t
from evenflow.model.operator import Source, Table, upstream
from evenflow.model.query import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.graph import syntax as s
    from evenflow.model.operator import Apply, Operator
    from evenflow.model.query import OnError, Sink


T = TypeVar("T")

_PLAIN = (bool, int, float, str, bytes, Decimal, date, timedelta, type(None))
_MAX_ARGUMENT_DEPTH = 20


class QueryOptions(TypedDict, total=False):
    """What the owner of a query may ask: fields of `Query`."""

    weight: float
    floor: float
    every: float
    deadline: float | None
    on_error: OnError
    sinks: tuple[Sink, ...]


class Graph:
    """Everything that runs together. Names of sources, tables and queries never repeat."""

    def __init__(self, name: str = "flow") -> None:
        self.name = check_name("flow", name)
        self.sources: dict[str, Source] = {}
        self.tables: dict[str, Table] = {}
        self.queries: dict[str, Query] = {}
        self.functions: dict[str, Callable[..., Any]] = {}
        """Functions given to `apply`, by the identity that `Apply.function` holds."""
        self._calls: dict[tuple[str, str], tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._needs: dict[str, frozenset[str]] = {}

    # Adding.

    def add_source(self, source: Source) -> Stream:
        """Add a source and return its stream.

        Raises:
            ConfigError: Its name or its event time is wrong.
            QueryError: The name is taken.
        """
        self._check_name("source", source.name)
        if source.event_time is not None:
            column = source.schema.find(source.event_time)
            if column is None or column.type != t.TIMESTAMP:
                message = f"source {source.name}: event time {source.event_time} is not a column"
                raise ConfigError(f"{message} of type TIMESTAMP")
            source = replace(source, event_time=column.name)
        self.sources[source.name] = source
        return Stream.of(self, source, source.name)

    def add_table(self, table: Table) -> None:
        """Add a table.

        Raises:
            ConfigError: Its name is wrong.
            QueryError: The name is taken.
        """
        self._check_name("table", table.name)
        self.tables[table.name] = table

    def add_sql(
        self,
        queries: str | Mapping[str, str],
        sql: str | None = None,
        *,
        options: Mapping[str, QueryOptions] | None = None,
        **common: Unpack[QueryOptions],
    ) -> dict[str, Query]:
        """Add queries written in SQL: one by name and text, or several at once.

        Several may read one another in any order. All are added, or none.

        Args:
            queries: A name, or texts by name.
            sql: The text, where `queries` is a name.
            options: What the owners ask, by query.
            common: What holds for all of them.

        Raises:
            ConfigError: A name or an option is wrong.
            QueryError: A text is wrong, a name is taken, or queries read one another in a circle.
        """
        texts = {queries: sql or ""} if isinstance(queries, str) else dict(queries)
        self._check_names(list(texts))
        statements = {name: _parse(name, text) for name, text in texts.items()}
        made: dict[str, Query] = {}
        for name in ordered_statements(statements, texts):
            operator = self._build(name, texts[name], statements[name], made)
            asked = {**common, **(options or {}).get(name, {})}
            made[name] = _query(name, operator, texts[name], asked)
        for name in texts:
            self._store(made[name])
        return {name: made[name] for name in texts}

    def add_query(self, query: Query) -> Query:
        """Add a query that was built from operators.

        Raises:
            ConfigError: Its name is wrong, or it reads a source that is not of this graph.
            QueryError: The name is taken.
        """
        self._check_name("query", query.name)
        for each in upstream(query.operator):
            known = {**self.sources, **self.tables}
            if isinstance(each, Source | Table) and known.get(each.name) != each:
                message = f"query {query.name} reads {each.name}, which is not of this flow"
                raise ConfigError(message, "add it first")
        self._store(query)
        return query

    def register(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> tuple[str, str]:
        """Keep a function for `Apply`; return its identity and the text of its arguments.

        Raises:
            ConfigError: It is not a function, or an argument is not a plain value.
        """
        if not callable(function):
            raise ConfigError("apply takes a function")
        text = _argument_text((arguments, dict(sorted(options.items()))))
        module = getattr(function, "__module__", "") or ""
        base = f"{module}.{getattr(function, '__qualname__', type(function).__name__)}"
        serial = 0
        while self.functions.setdefault(f"{base}#{serial}", function) is not function:
            serial += 1
        identity = f"{base}#{serial}"
        self._calls[identity, text] = (arguments, dict(options))
        return identity, text

    # Asking.

    def stream(self, name: str) -> Stream:
        """Return a source or query as a stream to build on.

        Raises:
            QueryError: There is none of that name.
        """
        operator = self.find_stream(name)
        if operator is None:
            raise QueryError("stream.unknown", f"{name[:60]} is not a stream")
        return Stream.of(self, operator, name)

    def find_stream(self, name: str) -> Operator | None:
        """Return the operator of a source or query, by its name in any case."""
        source = _find(self.sources, name)
        if source is not None:
            return source
        query = _find(self.queries, name)
        return None if query is None else query.operator

    def find_table(self, name: str) -> Table | None:
        """Return a table by its name in any case."""
        return _find(self.tables, name)

    def operators(self) -> tuple[Operator, ...]:
        """Return every operator that a query needs, once, inputs before users."""
        found: dict[str, Operator] = {}
        for query in self.queries.values():
            for each in upstream(query.operator):
                found.setdefault(each.hash, each)
        return tuple(found.values())

    def operators_alone(self) -> int:
        """Return how many operators the queries would need, each on its own."""
        return sum(len(needed) for needed in self._needs.values())

    def operators_shared(self) -> int:
        """Return how many there are together."""
        return len(frozenset().union(*self._needs.values()))

    def users(self, operator: Operator) -> tuple[str, ...]:
        """Return the names of the queries that need an operator."""
        return tuple(name for name, needed in self._needs.items() if operator.hash in needed)

    def applied(self, operator: Apply) -> Callable[[Any], Any]:
        """Return what an `Apply` does to a frame: its function with its arguments."""
        function = self.functions[operator.function]
        arguments, options = self._calls[operator.function, operator.arguments]
        return lambda frame: function(frame, *arguments, **options)

    # Inside.

    def _check_name(self, kind: str, name: str) -> None:
        check_name(kind, name)
        for taken in (*self.sources, *self.tables, *self.queries):
            if taken.lower() == name.lower():
                message = f"{kind} {name}: the name is taken by {taken}"
                query = name if kind == "query" else None
                raise QueryError("name.duplicate", message, query=query)

    def _check_names(self, names: list[str]) -> None:
        seen: set[str] = set()
        for name in names:
            self._check_name("query", name)
            if name.lower() in seen:
                message = f"query {name}: the name is given twice"
                raise QueryError("name.duplicate", message, query=name)
            seen.add(name.lower())

    def _build(
        self, name: str, text: str, statement: s.Statement, made: Mapping[str, Query]
    ) -> Operator:
        try:
            return build_statement(statement, _Names(self, made))
        except QueryError as exc:
            raise exc.located(name, text) from exc.__cause__

    def _store(self, query: Query) -> None:
        self.queries[query.name] = query
        self._needs[query.name] = frozenset(each.hash for each in upstream(query.operator))


class _Names:
    """The names of a graph and of the queries that are being added to it."""

    def __init__(self, graph: Graph, made: Mapping[str, Query]) -> None:
        self._graph = graph
        self._made = made
        self.find_table = graph.find_table

    def find_stream(self, name: str) -> Operator | None:
        query = _find(self._made, name)
        return query.operator if query is not None else self._graph.find_stream(name)


def _find(values: Mapping[str, T], name: str) -> T | None:
    found = values.get(name)
    if found is None:
        found = next((v for n, v in values.items() if n.lower() == name.lower()), None)
    return found


def _parse(name: str, text: str) -> s.Statement:
    try:
        return parse_statement(text)
    except QueryError as exc:
        raise exc.located(name, text) from exc.__cause__


def _query(name: str, operator: Operator, text: str, asked: Mapping[str, Any]) -> Query:
    try:
        return Query(name=name, operator=operator, schema=operator.schema, text=text, **asked)
    except TypeError as exc:
        raise ConfigError(f"query {name}: an option is not known") from exc


def _argument_text(value: Any, depth: int = 0) -> str:
    """Return a text that tells any two plain values apart.

    Raises:
        ConfigError: The value is not plain: a number, text, date, or list or dict of such.
    """
    if depth > _MAX_ARGUMENT_DEPTH:
        raise ConfigError("an argument of apply is nested too deeply")
    match value:
        case list() | tuple():
            inner = ", ".join(_argument_text(each, depth + 1) for each in value)
            return f"{type(value).__name__}({inner})"
        case dict():
            inner = ", ".join(
                f"{_argument_text(key, depth + 1)}: {_argument_text(each, depth + 1)}"
                for key, each in value.items()
            )
            return f"{{{inner}}}"
        case _ if isinstance(value, _PLAIN):
            return repr(value)
    raise ConfigError(
        f"an argument of apply is a {type(value).__name__}",
        "pass plain values, and bind anything else into the function",
    )
