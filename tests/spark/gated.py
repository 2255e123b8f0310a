"""Flows with gates, over files whose tuples fall into many groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.spark.run import Run
from evenflow.spark.unit.checkpoint import committed_offsets
from tests.spark.flows import MEMORY, Answers, flow_over, lay, row, rows_of
from tests.spark.reference import generate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.flow import Flow
    from evenflow.spark.unit.unit_run import UnitRun

KEYS = 40


def lay_files(folder: Path, files: int) -> None:
    for number in range(files):
        lay_file(folder, number)


def lay_file(folder: Path, number: int) -> None:
    rows = [
        row(
            id_ := number * 200 + i,
            number * 7 + i / 20,
            k=None if i % 11 == 0 else f"k{i % KEYS}",
            n=i % KEYS,
            big=id_,
        )
        for i in range(200)
    ]
    lay(folder / "s", *rows)


def make(folder: Path, queries: dict[str, str]) -> Flow:
    flow = flow_over(folder, watermark="5 seconds")
    for name, sql in queries.items():
        flow.sql(name, sql, MEMORY)
    return flow


def run_gated(
    spark: SparkSession, flow: Flow, keep: dict[str, float], generated: bool = False
) -> tuple[Answers, dict[str, Any]]:
    run = Run(flow.spec(), spark, flow.state)
    if generated:
        generate(run.session)
    run.set_gates(keep)
    run.start(available_now=True).wait()
    run.pause_units()
    run.drain()
    found = {q.name: rows_of(run.answers(q.name)) for q in flow.spec().queries}
    return found, run.stop()


def has_read(run: UnitRun, folder: Path) -> bool:
    last = len(list((folder / "s").glob("*.parquet"))) - 1
    return f'"logOffset":{last}' in "".join(committed_offsets(run.directory.checkpoint))
