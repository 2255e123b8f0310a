"""Gates: what they keep is exact, what they drop is counted, a batch done again drops the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from evenflow.flow import Flow
from evenflow.spark.run import Run
from tests.spark.flows import MEMORY, Answers, counts, flow_over, lay, row, rows_of
from tests.spark.reference import generate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KEYS = 40
ONE = {
    "tumbling": "SELECT n, window.start AS w, count(*) AS c, sum(big) AS b FROM s WHERE id % 3 <> 0 "
    "GROUP BY n, window(ts, '10 seconds')"
}
QUERIES = {
    **ONE,
    "text": "SELECT k, window.start AS w, count(*) AS c, sum(big) FILTER (WHERE n > 3) AS b FROM s "
    "GROUP BY k, window(ts, '10 seconds')",
    "other": "SELECT k, window.start AS w, max(big) AS b FROM s WHERE n < 9 "
    "GROUP BY k, window(ts, '10 seconds')",
    "sliding": "SELECT n, window.start AS w, sum(big) AS b FROM s "
    "GROUP BY n, window(ts, '20 seconds', '10 seconds')",
    "plain": "SELECT id, n FROM s WHERE n <> 5",
}


def lay_files(folder: Path, files: int) -> None:
    for number in range(files):
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


@pytest.mark.parametrize("queries", [ONE, QUERIES], ids=["narrow", "wide"])
def test_answers_are_those_of_the_exact_run_and_the_rest_is_counted(
    spark: SparkSession, tmp_path: Path, queries: dict[str, str]
) -> None:
    for name in ("all", "some", "none"):
        lay_files(tmp_path / name, 5)
    exact, all_ = run_gated(spark, make(tmp_path / "all", queries), {})
    keep = dict.fromkeys(queries, 0.4)
    some, status = run_gated(spark, make(tmp_path / "some", queries), keep, generated=True)
    for name in queries:
        assert set(some[name]) < set(exact[name])
        assert len(some[name]) == len(set(some[name]))
        assert 0.15 < len(some[name]) / len(exact[name]) < 0.65
        wanted, given = counts(all_, name), counts(status, name)
        assert given["in"] == wanted["in"]
        assert 0.3 * given["in"] < given["gate"] < 0.9 * given["in"]
        assert "cut" not in given
    nothing, status = run_gated(
        spark, make(tmp_path / "none", queries), dict.fromkeys(queries, 0.0)
    )
    for name in queries:
        assert nothing[name] == []
        given = counts(status, name)
        assert given["gate"] == given["in"] == counts(all_, name)["in"]
