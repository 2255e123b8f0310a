"""What gates drop by: the identity of a tuple, or all of the tuple where that is NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.flow import Flow
from tests.spark.flows import MEMORY, SCHEMA, counts, lay, row
from tests.spark.gated import run_gated

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def kept(spark: SparkSession, folder: Path, rows: list[dict[str, Any]], keep: float) -> set[int]:
    """Return what a gate keeps of some tuples, by the column `big`."""
    flow = Flow("test", folder / "state")
    options = {"path": str(folder / "s")}
    flow.source("s", "parquet", options, SCHEMA, event_time="ts", watermark="5 seconds", id="id")
    flow.sql("q", "SELECT big FROM s", MEMORY)
    lay(folder / "s", *rows)
    answers, status = run_gated(spark, flow, {"q": keep})
    given = counts(status, "q")
    assert given["in"] == len(rows)
    assert given.get("gate", 0) + given.get("contributed", 0) == len(rows)
    return {big for (big,) in answers["q"]}


def test_tuples_without_an_identity_are_dropped_too(spark: SparkSession, tmp_path: Path) -> None:
    """By a hash of all their columns: a lower fraction keeps a subset, and so does a second run."""
    rows = [row(i, 0, big=i) | {"id": None if i % 2 else i} for i in range(600)]
    most = kept(spark, tmp_path / "most", rows, 0.6)
    least = kept(spark, tmp_path / "least", rows, 0.2)
    assert least < most
    for odd in (0, 1):
        assert 120 < sum(big % 2 == odd for big in most) < 240
        assert 30 < sum(big % 2 == odd for big in least) < 90
    assert kept(spark, tmp_path / "again", rows, 0.2) == least


def test_tuples_in_which_all_is_null_are_the_first_to_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They cannot be told apart: records of another kind would pass all gates, however many."""
    rows = [dict.fromkeys(row(0, 0)) for _ in range(50)]
    assert kept(spark, tmp_path / "some", rows, 0.9) == set()
    assert kept(spark, tmp_path / "all", rows, 1.0) == {None}
