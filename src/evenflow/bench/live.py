"""A stream that arrives by the clock, and queries over it whose answers follow from its schedule.

The source is our generator of equidistant tuples, or files of them (see `arriving`). Both are paced
by the wall clock and never wait for the flow; a tuple's event time is the instant for which its
arrival is scheduled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.base.duration import format_us
from evenflow.graph.graph import Graph
from evenflow.model.flow import FlowSpec, Reader
from evenflow.model.operator import Source
from evenflow.model.query import Sink
from evenflow.model.schema import parse_schema
from evenflow.model.sources import BUILTIN, reader_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SECOND_US = 1_000_000
_FORMAT = "constant"

Answer = tuple[int, ...]
"""What a query says of one row of its sink."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When tuples arrive: tuple `id` at `id` / `rate` seconds since the epoch."""

    rate: int
    """Tuples per second."""
    delay_us: int
    """The source's watermark: how far event times may lag behind the newest."""

    def at_us(self, id_: int) -> int:
        """Return when a tuple arrives, which is its event time."""
        return id_ * SECOND_US // self.rate

    def first_from(self, us: int) -> int:
        """Return the first tuple that arrives at an instant or later."""
        return -(-us * self.rate // SECOND_US)

    def ids(self, begin_us: int, end_us: int) -> range:
        """Return the tuples that arrive from an instant to before another."""
        return range(self.first_from(begin_us), self.first_from(end_us))

    def closing_us(self, end_us: int) -> int:
        """Return when the tuple arrives that closes a window: it moves the watermark to its end."""
        return self.at_us(self.first_from(end_us + self.delay_us))


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """Counts every (n+2)-nd tuple by 100+n keys in tumbling windows."""

    number: int
    window_us: int

    @property
    def name(self) -> str:
        """Its name."""
        return f"w{self.number}"

    @property
    def sql(self) -> str:
        """Its text."""
        window = f"window(ts, '{format_us(self.window_us)}')"
        key = f"id % {self.number + 100}"
        return (
            f"SELECT {key} AS k, window.start AS w, count(*) AS n FROM r "
            f"WHERE id % {self.number + 2} = 0 GROUP BY {key}, {window}"
        )

    def answer(self, row: Mapping[str, Any]) -> Answer:
        """Return a row of its sink: start of the window, key, count."""
        return round(row["w"].timestamp() * SECOND_US), row["k"], row["n"]

    def begun_us(self, arrivals: Arrivals, answer: Answer) -> int:  # noqa: ARG002
        """Return the event time at which an answer begins."""
        return answer[0]

    def completed_us(self, arrivals: Arrivals, answer: Answer) -> int:
        """Return when the tuple arrives that closes the window."""
        return arrivals.closing_us(answer[0] + self.window_us)

    def right(self, arrivals: Arrivals, begin_us: int, end_us: int) -> Counter[Answer]:
        """Return the answers of a span of event time that begins with a window."""
        every, keys = self.number + 2, self.number + 100
        found: Counter[Answer] = Counter()
        for start in range(begin_us, end_us, self.window_us):
            ids = arrivals.ids(start, start + self.window_us)
            first = -(-ids.start // every) * every
            counts = Counter(id_ % keys for id_ in range(first, ids.stop, every))
            found.update((start, key, n) for key, n in counts.items())
        return found

    def total(self, arrivals: Arrivals, start_us: int) -> int:
        """Return how many tuples a window counts, without making them."""
        ids, every = arrivals.ids(start_us, start_us + self.window_us), self.number + 2
        return -(-ids.stop // every) + (-ids.start // every)


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """Passes one tuple in fifty."""

    number: int
    every = 50

    @property
    def name(self) -> str:
        """Its name."""
        return f"f{self.number}"

    @property
    def sql(self) -> str:
        """Its text."""
        return f"SELECT id, ts FROM r WHERE id % {self.every} = {self.number % self.every}"

    def answer(self, row: Mapping[str, Any]) -> Answer:
        """Return a row of its sink: the tuple's id."""
        return (row["id"],)

    def begun_us(self, arrivals: Arrivals, answer: Answer) -> int:
        """Return the event time at which an answer begins."""
        return arrivals.at_us(answer[0])

    def completed_us(self, arrivals: Arrivals, answer: Answer) -> int:
        """Return when the tuple arrives."""
        return arrivals.at_us(answer[0])

    def right(self, arrivals: Arrivals, begin_us: int, end_us: int) -> Counter[Answer]:
        """Return the answers of a span of event time."""
        ids = arrivals.ids(begin_us, end_us)
        return Counter((id_,) for id_ in ids if id_ % self.every == self.number % self.every)


LiveQuery = WindowQuery | FilterQuery


def sink_of(folder: Path, query: LiveQuery) -> Sink:
    """Return the sink of a query: files under a folder of its own."""
    return Sink("parquet", path=str(folder / query.name))


def live_spec(
    arrivals: Arrivals,
    queries: Sequence[LiveQuery],
    sinks: Path,
    every: float,
    files: Path | None = None,
) -> FlowSpec:
    """Return a flow of some queries over the stream, with a batch every so many seconds.

    Args:
        arrivals: The stream.
        queries: The queries.
        sinks: Where answers go.
        every: Seconds between batches.
        files: Where tuples arrive as files; without it our generator makes them.
    """
    known = BUILTIN[_FORMAT]
    if files is None:
        reader = Reader(format=_FORMAT, options={"rate": str(arrivals.rate)}, id=known.id)
    else:
        reader = Reader(format="parquet", options={"path": str(files)}, id=known.id)
    columns = parse_schema(known.schema or "")
    identity = reader_identity(reader.format, reader.options)
    source = Source("r", columns, known.event_time, arrivals.delay_us, identity)
    graph = Graph("bench")
    graph.add_source(source)
    graph.add_sql(
        {each.name: each.sql for each in queries},
        options={each.name: {"sinks": (sink_of(sinks, each),)} for each in queries},
        every=every,
    )
    return FlowSpec(
        name="bench",
        queries=tuple(graph.queries.values()),
        readers={"r": reader},
        catalog=(source,),
    )
