"""The flow of the soak: its queries, and the changes that a seed asks of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.base.duration import format_us
from evenflow.errors import RunError
from evenflow.graph.graph import Graph
from evenflow.model.flow import FlowSpec, Reader
from evenflow.model.operator import Source
from evenflow.model.query import Sink
from evenflow.model.schema import parse_schema
from evenflow.model.sources import reader_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from evenflow.spark.run import Run

WINDOWS_US = (1_000_000, 2_000_000, 5_000_000)
_FILTERS = 4
"""One query in so many has no window."""
UNTOUCHED = 5
"""So many of the first queries are never changed."""


@dataclass(frozen=True, slots=True)
class SoakQuery:
    """Counts every (n+2)-nd tuple by some keys, or passes one tuple in fifty."""

    number: int

    @property
    def name(self) -> str:
        """Its name."""
        return f"q{self.number}"

    @property
    def window_us(self) -> int | None:
        """How long its windows last; None if it has none."""
        if self.number % _FILTERS == _FILTERS - 1:
            return None
        return WINDOWS_US[self.number % len(WINDOWS_US)]

    @property
    def sql(self) -> str:
        """Its text."""
        if self.window_us is None:
            return f"SELECT value, timestamp FROM r WHERE value % 50 = {self.number % 50}"
        window = f"window(timestamp, '{format_us(self.window_us)}')"
        return (
            f"SELECT value % {self.number + 10} AS k, window.start AS w, count(*) AS n FROM r "
            f"WHERE value % {self.number + 2} = 0 GROUP BY value % {self.number + 10}, {window}"
        )

    def check(self, rate: int, totals: Mapping[int, int]) -> None:
        """Look whether each window was answered once, by their totals.

        Raises:
            RunError: One was not.
        """
        if self.window_us is None or not totals:
            raise RunError(f"query {self.name} has no answers to check")
        right = rate * self.window_us / 1_000_000 / (self.number + 2)
        # The source rounds to milliseconds, so that a tuple may lie beside its window.
        for start in range(min(totals) + self.window_us, max(totals) + 1, self.window_us):
            if abs(totals.get(start, 0) - right) > 2:
                raise RunError(
                    f"query {self.name}: window {start} counts {totals.get(start, 0)}, "
                    f"not about {right:.0f}"
                )


def soak_spec(queries: Sequence[SoakQuery], sinks: Path, rate: int, every: float) -> FlowSpec:
    """Return a flow of some queries."""
    options = {"rowsPerSecond": str(rate)}
    columns = parse_schema("timestamp TIMESTAMP, value BIGINT")
    identity = reader_identity("rate", options)
    source = Source("r", columns, "timestamp", WINDOWS_US[0], identity)
    graph = Graph("soak")
    graph.add_source(source)
    for each in queries:
        graph.add_sql(each.name, each.sql, sinks=(_sink(sinks, each),), every=every)
    return FlowSpec(
        name="soak",
        queries=tuple(graph.queries.values()),
        readers={"r": Reader(format="rate", options=options)},
        catalog=(source,),
    )


def _sink(sinks: Path, query: SoakQuery) -> Sink:
    return Sink("parquet", path=str(sinks / query.name))


class Population:
    """Which queries there are, and what may be asked next. Draws from its own seed."""

    def __init__(self, queries: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._usual = queries
        self._next = queries
        self.states = {SoakQuery(i).name: "running" for i in range(UNTOUCHED, queries)}
        """Of the queries that may be touched."""

    def draw(self) -> tuple[str, SoakQuery | str]:
        """Return the next change: what to do, and to which query. It is taken for done."""
        share = (len(self.states) + UNTOUCHED) / self._usual
        if share <= 0.75 or (share < 1.25 and self._random.random() < 0.25):
            query = SoakQuery(self._next)
            self._next += 1
            self.states[query.name] = "running"
            return "subscribe", query
        name = self._random.choice(sorted(self.states))
        action = self._random.choice(_ACTIONS[self.states[name]])
        after = {"pause": "paused", "resume": "running", "keep": "kept"}.get(action)
        if after is None:
            del self.states[name]
        else:
            self.states[name] = after
        return action, name


_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "running": ("pause", "pause", "unsubscribe", "keep"),
    "paused": ("resume", "resume", "unsubscribe"),
    "kept": ("unsubscribe",),
}


def apply(run_: Run, action: str, query: SoakQuery | str, sinks: Path, every: float) -> None:
    """Make a change."""
    if not isinstance(query, str):
        run_.subscribe(query.name, query.sql, _sink(sinks, query), every=every)
    elif action == "pause":
        run_.pause(query)
    elif action == "resume":
        run_.resume(query)
    else:
        run_.unsubscribe(query, keep=action == "keep")
