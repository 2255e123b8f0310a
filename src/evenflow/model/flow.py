"""A flow as the shells get it: queries, and how their sources and tables are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.errors import InternalError
from evenflow.model.operator import Source, Table, upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.model.operator import Apply
    from evenflow.model.query import Query


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How a source or table is read. The counterpart of a `Sink`."""

    format: str
    """A Spark format, one of ours, or `dataframe` / `rows` for what the builder was given."""
    options: Mapping[str, str] = field(default_factory=dict)
    data: Any = None
    """The DataFrame or the Python iterable itself."""
    id: str | None = None
    """Numeric identity column of the source's tuples."""


def _no_function(operator: Apply) -> Callable[..., Any]:
    raise InternalError(f"{operator.function} is not known in this flow")


@dataclass(frozen=True, kw_only=True)
class FlowSpec:
    """Everything a shell needs to run a flow. Made by the edges, never changed."""

    name: str
    queries: tuple[Query, ...]
    readers: Mapping[str, Reader]
    """By the name of the source or table."""
    applied: Callable[[Apply], Callable[..., Any]] = _no_function
    """Tells what an `Apply` does to a frame, also one of a query to come."""
    catalog: tuple[Source | Table, ...] = ()
    """All sources and tables there are, for queries to come."""

    def sources(self) -> tuple[Source, ...]:
        """Sources that some query needs, by name."""
        return tuple(sorted(self._leaves(Source), key=lambda s: s.name))

    def tables(self) -> tuple[Table, ...]:
        """Tables that some query needs, by name."""
        return tuple(sorted(self._leaves(Table), key=lambda s: s.name))

    def operators_alone(self) -> int:
        """How many operators the queries would need, each on its own."""
        return sum(len(upstream(q.operator)) for q in self.queries)

    def operators_shared(self) -> int:
        """How many there are together."""
        return len({op.hash for q in self.queries for op in upstream(q.operator)})

    def _leaves(self, kind: type[Any]) -> list[Any]:
        found = {op.hash: op for q in self.queries for op in upstream(q.operator)}
        return [op for op in found.values() if isinstance(op, kind)]
