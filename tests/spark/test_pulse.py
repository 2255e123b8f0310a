"""The pulse moves event time whatever stands above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.spark.flows import MEMORY, counts, flow_over, lay, row, run_all

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_windows_over_an_inner_join_are_drained(spark: SparkSession, tmp_path: Path) -> None:
    """The pulse itself meets nothing in the table."""
    lay(tmp_path / "s", *(row(i, i, n=i % 3) for i in range(30)))
    flow = flow_over(tmp_path)
    flow.table("names", data=[(0, "a"), (1, "b")], schema="n INT, word STRING")
    flow.sql(
        "q",
        "SELECT word, count(*) AS c FROM s JOIN names ON s.n = names.n "
        "GROUP BY word, window(ts, '10 seconds')",
        MEMORY,
    )
    answers, status = run_all(spark, flow, drain=True)
    assert sum(count for _, count in answers["q"]) == 20
    assert counts(status, "q") == {"in": 20, "contributed": 20}
