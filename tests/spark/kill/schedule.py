"""What a surge sends and what queries make of it, from the schedule of the source alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.spark.source.generator_options import generator_settings
from evenflow.spark.source.generators import Place, make_generator

if TYPE_CHECKING:
    from collections.abc import Mapping

Answer = tuple[Any, ...]
_SECOND_US = 1_000_000
CENTURY = 100


@dataclass(frozen=True)
class SurgeQuery:
    """A query, what it costs, and what of it a reference must know."""

    name: str
    key: str | None
    """The column by which it groups; None without windows."""
    microseconds: int
    """Of the delay per tuple."""
    weight: float = 1.0
    floor: float = 0.0
    size: int = 8
    """Seconds of event time."""
    slide: int = 8
    rejects: bool = False
    """Whether it fails on every hundredth tuple."""

    @property
    def sql(self) -> str:
        """Its text. What is delayed differs, or queries would share it."""
        delay = f"delay(id + {self.microseconds}, {self.microseconds}, 1)"
        if self.key is None:
            return f"SELECT id, kwh FROM s WHERE {delay} AND kwh > {LEAST_KWH}"
        fails = f"100 / (id % {CENTURY}) > 1 AND " if self.rejects else ""
        window = f"window(ts, '{self.size} seconds', '{self.slide} seconds')"
        return (
            f"SELECT {self.key}, window.start AS w, count(*) AS n, sum(kwh) AS total FROM s "
            f"WHERE {fails}{delay} GROUP BY {self.key}, {window}"
        )

    @property
    def windows(self) -> int:
        """In how many windows a tuple is; counts are of tuples in windows."""
        return 1 if self.key is None else self.size // self.slide

    @property
    def columns(self) -> tuple[str, ...]:
        """Of an answer."""
        return ("id", "kwh") if self.key is None else (self.key, "w", "n", "total")


LEAST_KWH = 0.3
"""What tuples must have for the query without windows."""


class Schedule:
    """All tuples of a source, by when they are sent."""

    def __init__(self, options: Mapping[str, object], begun: Mapping[str, int], ticks: int) -> None:
        """Prepare.

        Args:
            options: Of the source.
            begun: When it began.
            ticks: How long the surge lasted.
        """
        texts = {name: str(value) for name, value in options.items()}
        settings = {**generator_settings("meters", texts, 1), **begun, "surge_ticks": ticks}
        self._generator = make_generator(settings)

    def tuples(self, until: Place) -> pa.Table:
        """Return all tuples up to a place, in order."""
        return pa.Table.from_batches(list(self._generator.batches(Place(0), until)))

    def rows(self, until: Place) -> int:
        """Return how many tuples are sent up to a place."""
        last = until.tick + (1 if until.index else 0)
        counts = self._generator.arrivals.counts(0, last)
        return int(counts.sum()) - (int(counts[-1]) - until.index if until.index else 0)


def answers(query: SurgeQuery, tuples: pa.Table) -> Counter[Answer]:
    """Return what a query without gates answers; each answer is there once."""
    kwh = tuples.column("kwh").to_pylist()
    ids = tuples.column("id").to_pylist()
    if query.key is None:
        return Counter((i, k) for i, k in zip(ids, kwh, strict=True) if k > LEAST_KWH)
    keys = tuples.column(query.key).to_pylist()
    times = tuples.column("ts").cast("int64").to_pylist()
    slide = query.slide * _SECOND_US
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for id_, key, at, used in zip(ids, keys, times, kwh, strict=True):
        if query.rejects and id_ % CENTURY == 0:
            continue
        newest = at - at % slide
        for back in range(query.windows):
            groups[key, newest - back * slide].append(used)
    return Counter((key, at, len(all_), sum(all_)) for (key, at), all_ in groups.items())
