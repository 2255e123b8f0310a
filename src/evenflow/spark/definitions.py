"""The queries that a run knows, and building others while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from evenflow.errors import ConfigError
from evenflow.graph.graph import Graph
from evenflow.model.operator import Source
from evenflow.schedule.life import Origin, QueryState
from evenflow.spark.state.manifest import definition_to_json, options_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from evenflow.graph.graph import QueryOptions
    from evenflow.model.flow import FlowSpec
    from evenflow.model.query import Query
    from evenflow.schedule.life import Life


class Definitions:
    """What each query of a run is, by name."""

    def __init__(self, spec: FlowSpec) -> None:
        self._graph = Graph(spec.name)
        for each in spec.catalog or (*spec.sources(), *spec.tables()):
            if isinstance(each, Source):
                self._graph.add_source(each)
            else:
                self._graph.add_table(each)
        self.given = {query.name: query for query in spec.queries}
        """Those of the flow as it was started."""

    @property
    def queries(self) -> dict[str, Query]:
        """All there are now, kept ones too."""
        return self._graph.queries

    @property
    def sources(self) -> dict[str, Source]:
        """All sources, by name."""
        return self._graph.sources

    def make(self, name: str, sql: str, **options: Unpack[QueryOptions]) -> Query:
        """Return a query written in SQL; it is not known yet.

        Raises:
            ConfigError: The name or an option is wrong.
            QueryError: The text is wrong, or the name is a source's or a table's.
        """
        held = self._graph.queries.get(name)
        if held is not None:
            self._graph.remove_query(name)
        try:
            query = self._graph.add_sql(name, sql, **options)[name]
            self._graph.remove_query(name)
            return query
        finally:
            if held is not None:
                self._graph.add_query(held)

    def follow(self, life: Life, made: Mapping[str, Query]) -> None:
        """Know the queries of a life and no others.

        Args:
            life: The life after a change.
            made: Queries that may be new in it.
        """
        for name in [n for n in self.queries if n not in life.queries]:
            self._graph.remove_query(name)
        for name, known in life.queries.items():
            query = made.get(name)
            if query is not None and query.operator.hash == known.operator:
                if name in self.queries:
                    self._graph.remove_query(name)
                self._graph.add_query(query)

    def restore(self, life: Life, kept: Mapping[str, Mapping[str, Any]]) -> None:
        """Know the queries that a life had when it was kept and that can still be had.

        Raises:
            ConfigError: A query was subscribed at run time and not in SQL.
            QueryError: One of them cannot be built with the sources there are now.
        """
        for name, query in self.given.items():
            known = life.queries.get(name)
            if known is not None and known.operator == query.operator.hash:
                self._graph.add_query(query)
        for name in kept:
            if kept[name]["sql"] is None and name not in self.queries:
                raise ConfigError(
                    f"query {name} was subscribed at run time and not in SQL",
                    "give it to the flow again, or use another --state",
                )
        waiting = [name for name in kept if name not in self.queries]
        texts = {name: kept[name]["sql"] for name in waiting}
        options = {name: options_from_json(kept[name]) for name in waiting}
        if texts:
            self._graph.add_sql(texts, options=options)

    def to_keep(self, life: Life) -> dict[str, dict[str, Any]]:
        """Return what a restart cannot have from the flow itself."""
        return {
            name: definition_to_json(self.queries[name])
            for name, known in life.queries.items()
            if known.origin is Origin.RUN or known.state is QueryState.KEPT
        }
