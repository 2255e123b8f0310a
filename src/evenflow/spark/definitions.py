"""The queries that a run knows, and building others while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from evenflow.errors import ConfigError
from evenflow.graph.graph import Graph
from evenflow.model.operator import Source
from evenflow.schedule.request import Origin, QueryState
from evenflow.spark.state.manifest import definition_to_json, options_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.graph.graph import QueryOptions
    from evenflow.model.flow import FlowSpec
    from evenflow.model.query import Query
    from evenflow.schedule.life import Life


class Definitions:
    """What each query of a run is, by name.

    Any thread may read it and `make` queries; `queries` is replaced as a whole, never changed.
    """

    def __init__(self, spec: FlowSpec) -> None:
        self._name = spec.name
        self._catalog = spec.catalog or (*spec.sources(), *spec.tables())
        self._given = {query.name: query for query in spec.queries}
        self.queries: Mapping[str, Query] = {}
        """All there are now, kept ones too."""
        self.sources = {each.name: each for each in self._catalog if isinstance(each, Source)}
        """All sources, by name."""

    def make(self, name: str, sql: str, **options: Unpack[QueryOptions]) -> Query:
        """Return a query written in SQL; it is not known yet.

        Raises:
            ConfigError: The name or an option is wrong.
            QueryError: The text is wrong, or the name is a source's or a table's.
        """
        return self._graph(without=name).add_sql(name, sql, **options)[name]

    def follow(self, life: Life, made: Mapping[str, Query]) -> None:
        """Know the queries of a life and no others.

        Args:
            life: The life after a change.
            made: Queries that are new in it.
        """
        known = {**self.queries, **made}
        self.queries = {name: known[name] for name in life.queries}

    def restore(self, life: Life, saved: Mapping[str, Mapping[str, Any]]) -> None:
        """Know the queries that a life had when it was kept and that can still be had.

        Raises:
            ConfigError: A query was subscribed at run time and not in SQL.
            QueryError: One of them cannot be built with the sources there are now.
        """
        self.queries = {
            name: query
            for name, query in self._given.items()
            if name in life.queries and life.queries[name].operator == query.operator.hash
        }
        missing = {name: query for name, query in saved.items() if name not in self.queries}
        for name, query in missing.items():
            if query["sql"] is None:
                raise ConfigError(
                    f"query {name} was subscribed at run time and not in SQL",
                    "give it to the flow again, or use another --state",
                )
        texts = {name: query["sql"] for name, query in missing.items()}
        options = {name: options_from_json(query) for name, query in missing.items()}
        self.queries = {**self.queries, **self._graph().add_sql(texts, options=options)}

    def to_keep(self, life: Life) -> dict[str, dict[str, Any]]:
        """Return what a restart cannot have from the flow itself."""
        return {
            name: definition_to_json(self.queries[name])
            for name, known in life.queries.items()
            if known.origin is Origin.RUN or known.state is QueryState.KEPT
        }

    def _graph(self, without: str | None = None) -> Graph:
        """Return a graph of what is known, to build a query in."""
        graph = Graph(self._name)
        for each in self._catalog:
            if isinstance(each, Source):
                graph.add_source(each)
            else:
                graph.add_table(each)
        for name, query in self.queries.items():
            if name != without:
                graph.add_query(query)
        return graph
