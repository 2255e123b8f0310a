"""The flow of the surge: six queries that cost and weigh differently, over one source."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.base.duration import format_us
from evenflow.bench.surge.figures import Seen
from evenflow.bench.surge.schedule import SECOND_US, Windows
from evenflow.bench.visible import read_answers
from evenflow.graph.graph import Graph
from evenflow.model.flow import FlowSpec, Reader
from evenflow.model.operator import Source
from evenflow.model.query import Sink
from evenflow.model.schema import parse_schema
from evenflow.model.sources import BUILTIN, reader_identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SOURCE = "r"
_FORMAT = "constant"
WINDOWS = Windows(size_us=700_000, delay_us=500_000, keys=48)
"""700 ms, so that windows end at all phases of the second between two batches."""


@dataclass(frozen=True, slots=True)
class DelayQuery:
    """Counts tuples by key, after a delay for each."""

    name: str
    microseconds: int
    weight: float
    number: int

    @property
    def sql(self) -> str:
        """Its text. What is delayed differs, or queries of equal delay would share it."""
        window = f"window(ts, '{format_us(WINDOWS.size_us)}')"
        key = f"id % {WINDOWS.keys}"
        return (
            f"SELECT {key} AS k, window.start AS w, count(*) AS n FROM {SOURCE} "
            f"WHERE delay(id + {self.number}, {self.microseconds}, 1) GROUP BY {key}, {window}"
        )


QUERIES = tuple(
    DelayQuery(f"q{microseconds}{'high' if weight > 1 else 'low'}", microseconds, weight, number)
    for number, (microseconds, weight) in enumerate(
        ((20, 4.0), (20, 1.0), (40, 4.0), (40, 1.0), (80, 4.0), (80, 1.0))
    )
)
WEIGHTS = {query.name: query.weight for query in QUERIES}


def surge_spec(
    sinks: Path, options: Mapping[str, str], *, every: float, deadline: float
) -> FlowSpec:
    """Return the flow.

    Args:
        sinks: Where answers go, a folder for each query.
        options: Of the source.
        every: Seconds between batches.
        deadline: Of all queries, in seconds.
    """
    known = BUILTIN[_FORMAT]
    # A few thousand tuples are much work here: all cores share it.
    shared = {"partitions": str(os.cpu_count() or 2), **options}
    reader = Reader(format=_FORMAT, options=shared, id=known.id)
    identity = reader_identity(reader.format, reader.options)
    columns = parse_schema(known.schema or "")
    source = Source(SOURCE, columns, known.event_time, WINDOWS.delay_us, identity)
    graph = Graph("bench")
    graph.add_source(source)
    graph.add_sql(
        {each.name: each.sql for each in QUERIES},
        options={
            each.name: {
                "sinks": (Sink("parquet", path=str(sinks / each.name)),),
                "weight": each.weight,
            }
            for each in QUERIES
        },
        every=every,
        deadline=deadline,
    )
    return FlowSpec(
        name="bench",
        queries=tuple(graph.queries.values()),
        readers={SOURCE: reader},
        catalog=(source,),
    )


def answers_in(sinks: Path) -> dict[str, list[Seen]]:
    """Return all answers that are visible, by query."""
    return {
        each.name: [_seen(row, at) for row, at in read_answers(sinks / each.name)]
        for each in QUERIES
    }


def _seen(row: Mapping[str, Any], at: float) -> Seen:
    return Seen(round(row["w"].timestamp() * SECOND_US), row["k"], row["n"], at)
