"""Small flows over numbered files, one file per batch, for the run tests."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from evenflow.flow import Flow
from evenflow.model.query import Sink
from evenflow.model.schema import parse_schema
from evenflow.spark.compile.types import to_arrow
from evenflow.spark.run import Run
from tests.spark.reference import generate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2026, 1, 5, 12, 0, 0, tzinfo=UTC)
SCHEMA = "id BIGINT, ts TIMESTAMP, k STRING, n INT, x DOUBLE, t STRING, big BIGINT"
MEMORY = Sink("memory")


def at(seconds: float | None) -> datetime | None:
    """Return an instant of the test's time."""
    return None if seconds is None else START + timedelta(seconds=seconds)


def row(
    id_: int,
    seconds: float | None,
    k: str | None = "a",
    n: int | None = 1,
    x: float | None = 1.0,
    t: str | None = "1",
    big: int | None = 1,
) -> dict[str, Any]:
    """Return a tuple."""
    return {"id": id_, "ts": at(seconds), "k": k, "n": n, "x": x, "t": t, "big": big}


def lay(folder: Path, *rows: dict[str, Any], schema: str = SCHEMA) -> None:
    """Add the next numbered file; older files are read first."""
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.parquet")))
    arrow = pa.schema([pa.field(f.name, to_arrow(f.type)) for f in parse_schema(schema)])
    beside = folder / f"_{number:04d}.part"
    pyarrow.parquet.write_table(pa.Table.from_pylist(list(rows), schema=arrow), beside)
    # Spark reads files in the order of these times, and two may be written in one millisecond.
    os.utime(beside, (1_767_000_000 + number, 1_767_000_000 + number))
    beside.rename(folder / f"{number:04d}.parquet")


def flow_over(folder: Path, name: str = "s", watermark: str = "10 seconds") -> Flow:
    """Return a flow with one source that reads one file per batch."""
    flow = Flow("test", folder / "state")
    add_source(flow, name, folder / name, watermark)
    return flow


def add_source(flow: Flow, name: str, folder: Path, watermark: str = "10 seconds") -> None:
    """Add a source that reads one file per batch."""
    folder.mkdir(parents=True, exist_ok=True)
    options = {"path": str(folder), "maxFilesPerTrigger": "1"}
    flow.source(name, "parquet", options, SCHEMA, event_time="ts", watermark=watermark)


Answers = dict[str, list[tuple[Any, ...]]]


def run_all(
    spark: SparkSession,
    flow: Flow,
    *,
    drain: bool = False,
    replace: bool = False,
    generated: bool = False,
) -> tuple[Answers, dict[str, Any]]:
    """Run everything that is there; return the answers in memory, sorted, and the status."""
    run = Run(flow.spec(), spark, flow.state, replace=replace)
    if generated:
        generate(run.session)
    try:
        run.start(available_now=True).wait()
        run.pause_units()
        if drain:
            run.drain()
        found = {
            q.name: rows_of(run.answers(q.name)) for q in flow.spec().queries if MEMORY in q.sinks
        }
    except BaseException:
        run.stop()
        raise
    return found, run.stop()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table in one order; instants of the test's time as seconds."""
    made = [tuple(_short(v) for v in each.values()) for each in table.to_pylist()]
    return sorted(made, key=repr)


def _short(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - START).total_seconds()
    if isinstance(value, dict):
        return tuple(_short(v) for v in value.values())
    return value


def counts(status: dict[str, Any], query: str) -> dict[str, int]:
    """Return the counts of a query that are not zero, checked to add up."""
    found = status["queries"][query]["counts"]
    shed = found["shed"].values()
    parts = [v for name, v in found.items() if name not in ("in", "shed")]
    assert found["in"] == sum(parts) + sum(shed), found
    # What is filtered is what is left: of what is counted twice it would be below 0.
    assert min(*parts, *shed) >= 0, found
    named = {**{n: v for n, v in found.items() if n != "shed"}, **found["shed"]}
    return {name: value for name, value in named.items() if value}


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
