"""Plain Spark run over the same files, one batch per file, and a plain count of what was late."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenflow.spark.compile.plain import PlainBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from evenflow.model.flow import FlowSpec
    from evenflow.model.operator import Source, Table

Row = tuple[str, ...]
AT_ONCE = 4
"""Plain queries that run at the same time."""


def generate(session: SparkSession) -> None:
    """Have Spark generate code and compile it, as it does for users."""
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")


def canonical_rows(rows: Iterable[dict[str, Any]]) -> Counter[Row]:
    """Return rows as a multiset that two engines can be compared by.

    Doubles are compared to nine significant digits: sums in the data are exact, but the standard
    deviation depends on the order in which partitions are merged.
    """
    return Counter(tuple(_text(v) for v in row.values()) for row in rows)


def _text(value: Any) -> str:
    match value:
        case bool() | None:
            return str(value)
        case float():
            return f"{value + 0.0:.8e}"
        case datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return moment.astimezone(UTC).isoformat()
        case Decimal():
            return format(value.normalize(), "f")
        case dict():
            return "{" + ",".join(_text(v) for v in value.values()) + "}"
        case date() | int() | str():
            return str(value)
        case _:
            return repr(value)


@dataclass
class PlainRun:
    """All queries of a flow, each as a StreamingQuery of its own."""

    session: SparkSession
    spec: FlowSpec
    open_source: Callable[[Source], DataFrame]
    open_table: Callable[[Table], DataFrame]
    folder: Path

    def answers(self) -> dict[str, Counter[Row]]:
        """Run everything that is there and return each query's answers."""
        builder = PlainBuilder(
            source=self.open_source,
            table=self.open_table,
            applied=self.spec.applied,
        )
        found: dict[str, Counter[Row]] = {}
        running = []
        for query in self.spec.queries:
            found[query.name] = Counter()

            def keep(frame: DataFrame, _: int, name: str = query.name) -> None:
                found[name].update(canonical_rows(frame.toArrow().to_pylist()))

            frame = builder.query(query)
            writer = frame.writeStream.foreachBatch(keep).outputMode("append")
            writer = writer.option("checkpointLocation", str(self.folder / query.name))
            running.append(writer.trigger(availableNow=True).start())
            if len(running) >= AT_ONCE:
                running.pop(0).awaitTermination()
        for each in running:
            each.awaitTermination()
        return found


@dataclass(frozen=True)
class Expected:
    """Counts of one windowed query over finished files, windows left open."""

    tuples_in: int
    late: int
    contributed: int
    open: int


def watermarks(file_maxima_us: list[int | None], delay_us: int) -> list[int]:
    """Return, in milliseconds, the watermark that each batch was planned with.

    One batch per file, and one more without data, in which windows close for the last time.
    """
    marks, mark = [], 0
    for newest in file_maxima_us:
        marks.append(mark)
        if newest is not None:
            mark = max(mark, newest // 1000 - delay_us // 1000)
    marks.append(mark)
    return marks


def count_windows(
    files: list[DataFrame], where: str | None, size_us: int, slide_us: int, delay_us: int
) -> Expected:
    """Count tuple-windows by hand: which were late, which windows closed, which are open.

    Spark evaluates nothing here but the predicate, from its SQL text.
    """
    maxima, passing, total = [], [], 0
    back = -(-size_us // slide_us)
    for frame in files:
        us = F.unix_micros(F.col("ts")).alias("us")
        holds = F.lit(True) if where is None else F.coalesce(F.expr(where), F.lit(False))
        rows = frame.select(us, holds.alias("holds")).collect()
        times = [r.us for r in rows if r.us is not None]
        maxima.append(max(times, default=None))
        passing.append([r.us for r in rows if r.holds and r.us is not None])
        total += sum(1 for r in rows if r.us is None) * _windows_of_null(size_us, slide_us)
        total += sum(len(_ends(u, size_us, slide_us, back)) for u in times)
    marks = watermarks(maxima, delay_us)
    late = contributed = opened = 0
    for index, times in enumerate(passing):
        judged_by = marks[index - 1] * 1000 if index else 0
        for us in times:
            for end in _ends(us, size_us, slide_us, back):
                if end - 1 <= judged_by:
                    late += 1
                elif end - 1 <= marks[-1] * 1000:
                    contributed += 1
                else:
                    opened += 1
    return Expected(total, late, contributed, opened)


def windows_of(us: int | None, size_us: int, slide_us: int) -> list[int | None]:
    """Return the ends of the windows that a tuple is in; None for one without an event time."""
    if us is None:
        return [None] * _windows_of_null(size_us, slide_us)
    return list(_ends(us, size_us, slide_us, -(-size_us // slide_us)))


def _windows_of_null(size_us: int, slide_us: int) -> int:
    return size_us // slide_us


def _ends(us: int, size_us: int, slide_us: int, back: int) -> list[int]:
    last = us - us % slide_us
    starts = [last - i * slide_us for i in range(back)]
    return [s + size_us for s in starts if us < s + size_us]
