"""Flows with gates, over files whose tuples fall into many groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.spark.run import Run
from evenflow.spark.unit.checkpoint import committed_offsets
from evenflow.spark.unit.unit_run import UnitRun
from tests.spark.flows import MEMORY, Answers, flow_over, lay, row, rows_of
from tests.spark.reference import generate

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from evenflow.flow import Flow

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


class Asking:
    """Has units ask for gates when the work of a batch is done, and fail once in some batches."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: dict[int, float] = {}
        """Fractions by batch."""
        self.failing: tuple[int, ...] = ()
        self.failed: list[tuple[str, int]] = []
        save = UnitRun._save_counts

        def ask_and_fail_once(unit: UnitRun, batch: int) -> None:
            if batch in self.asked:
                unit.history.ask(dict.fromkeys(unit.charge.names, self.asked[batch]))
            if batch in self.failing and (unit.unit.id, batch) not in self.failed:
                self.failed.append((unit.unit.id, batch))
                raise RuntimeError("planted")
            save(unit, batch)

        patch.setattr(UnitRun, "_save_counts", ask_and_fail_once)
