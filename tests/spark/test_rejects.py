"""Tuples that cannot be computed, and rows that do not fit: counted, and on view with reasons."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.flow import Flow
from evenflow.model.query import OnError
from evenflow.spark.state.rejected import MOST_KEPT, read_rejected
from tests.spark.flows import MEMORY, at, counts, flow_over, lay, row, run_all, until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

WINDOWED = "SELECT k, sum({}) AS v FROM s GROUP BY window(ts, '10 seconds'), k"


def rejected(flow: Flow) -> dict[str, list[tuple[str, Any]]]:
    """Return the samples of a flow: reason and tuple."""
    assert flow.state is not None
    found = read_rejected(flow.state)
    return {q: [(s["reason"], s["tuple"]) for s in samples] for q, samples in found.items()}


@pytest.mark.parametrize("windowed", [False, True])
def test_rejected_tuples_are_on_view_with_the_reason(
    spark: SparkSession, tmp_path: Path, windowed: bool
) -> None:
    flow = flow_over(tmp_path)
    lay(tmp_path / "s", row(1, 1, n=0), row(2, 2, t="x"), row(3, 3, n=0, t="y"), row(4, 4))
    lay(tmp_path / "s", row(5, 100))
    text = WINDOWED if windowed else "SELECT {} AS v FROM s"
    divided, cast = text.format("10 / n"), text.format("CAST(t AS INT)")
    both = text.format("(x / n) + CAST(t AS INT)")
    fine = text.format("x")
    for name, sql in {"divided": divided, "cast": cast, "both": both, "fine": fine}.items():
        flow.sql(name, sql, sinks=(MEMORY,))
    _, status = run_all(spark, flow)
    assert counts(status, "divided")["rejected"] == 2
    assert counts(status, "cast")["rejected"] == 2
    assert counts(status, "both")["rejected"] == 3
    found = rejected(flow)
    assert set(found) == {"divided", "cast", "both"}
    (reason, shown) = found["cast"][0]
    assert reason == "bad value for CAST(t AS INT)"
    assert shown["t"] in ("x", "y")
    assert shown["ts"].startswith("2026-01-05T12:00:0")
    assert found["divided"][0][0] == "division by zero in 10.0 / CAST(n AS DOUBLE)"
    by_id = {shown["id"]: reason for reason, shown in found["both"]}
    assert (
        by_id.items()
        <= {
            1: "division by zero in x / CAST(n AS DOUBLE)",
            2: "bad value for CAST(t AS INT)",
            3: "division by zero in x / CAST(n AS DOUBLE)",
        }.items()
    )


def test_samples_are_few(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    for file in range(3):
        lay(tmp_path / "s", *(row(i, i, n=0) for i in range(file * 100, file * 100 + 100)))
    flow.sql("q", "SELECT 1 / n AS v FROM s", sinks=(MEMORY,))
    for _ in range(2):
        _, status = run_all(spark, flow)
        assert counts(status, "q")["rejected"] == 300
    assert 0 < len(rejected(flow)["q"]) <= MOST_KEPT


def text_flow(folder: Path, format_: str) -> Flow:
    flow = Flow("test", folder / "state")
    options = {"path": str(folder / "s"), "maxFilesPerTrigger": "1"}
    schema = "id BIGINT, ts TIMESTAMP, n INT"
    flow.source("s", format_, options, schema, event_time="ts", watermark="10 seconds")
    return flow


def lay_json(folder: Path, number: int, *rows: dict[str, Any] | str) -> None:
    import os

    folder.mkdir(exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each, default=str) for each in rows]
    file = folder / f"{number}.json"
    file.write_text("\n".join(lines) + "\n")
    os.utime(file, (1_767_000_000 + number, 1_767_000_000 + number))


QUERIES = {
    "narrow": "SELECT count(*) AS c FROM s GROUP BY window(ts, '10 seconds')",
    "sliding": "SELECT count(*) AS c FROM s GROUP BY window(ts, '10 seconds', '5 seconds')",
    "odd": "SELECT count(*) AS c FROM s GROUP BY window(ts, '10 seconds', '4 seconds')",
    "filtered": "SELECT sum(n) AS c FROM s WHERE n > 0 GROUP BY window(ts, '10 seconds')",
    "failing": "SELECT sum(6 / n) AS c FROM s GROUP BY window(ts, '10 seconds')",
    "plain": "SELECT id FROM s",
    "constant": "SELECT 1 AS one FROM s",
}


@pytest.mark.parametrize("names", [("narrow",), tuple(QUERIES)], ids=["narrow", "all"])
def test_rows_that_do_not_fit_are_rejected_by_all_queries(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    flow = text_flow(tmp_path, "json")
    good = [{"id": i, "ts": at(i), "n": i % 3} for i in range(1, 7)]
    bad = ["no json", '{"id": 8, "ts": "2026-01-05T12:00:03Z", "n": "many"}', '{"id": "x"}']
    lay_json(tmp_path / "s", 0, *good[:3], *bad[:2])
    lay_json(tmp_path / "s", 1, *good[3:], bad[2], {"id": 7, "ts": None, "n": 1})
    lay_json(tmp_path / "s", 2, {"id": 9, "ts": at(100), "n": 1})
    for name in names:
        flow.sql(name, QUERIES[name], sinks=(MEMORY,))
    answers, status = run_all(spark, flow, drain=True)
    assert counts(status, "narrow") == {"in": 11, "contributed": 7, "filtered": 1, "rejected": 3}
    assert answers["narrow"] == [(1,), (6,)]
    if len(names) > 1:
        assert counts(status, "sliding")["rejected"] == 6
        assert counts(status, "filtered")["rejected"] == 3
        assert counts(status, "failing")["rejected"] == 3 + 2
        assert counts(status, "plain") == {"in": 11, "contributed": 8, "rejected": 3}
        assert answers["constant"] == [(1,)] * 8
        odd = counts(status, "odd")
        assert odd["in"] == sum(v for k, v in odd.items() if k != "in")
        assert 3 * 2 <= odd["rejected"] <= 3 * 3
    found = rejected(flow)
    assert set(found) == set(names)
    reasons = {reason for reason, _ in found["narrow"]}
    assert reasons <= {f"does not fit the schema: {text}" for text in bad}
    assert reasons


def test_rows_that_do_not_fit_below_a_shared_filter_and_a_function(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = text_flow(tmp_path, "csv")
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "0.csv").write_text("1,2026-01-05T12:00:01Z,1\nx,2026-01-05T12:00:01Z,1\n")
    (folder / "1.csv").write_text("2,2026-01-05T12:01:40Z,2\n")
    same = "SELECT id, ts, n FROM s WHERE n > 0"
    flow.sql("base", same, sinks=(MEMORY,))
    flow.sql("above", "SELECT count(*) AS c FROM base GROUP BY window(ts, '10 seconds')")
    applied = flow.stream("s").apply(_same, "id BIGINT, ts TIMESTAMP, n INT").select("id")
    applied.query("applied", MEMORY)
    answers, status = run_all(spark, flow, drain=True)
    assert counts(status, "base") == {"in": 3, "contributed": 2, "rejected": 1}
    assert counts(status, "above") == {"in": 3, "contributed": 2, "rejected": 1}
    assert answers["applied"] == [(1,), (2,)]


def _same(frame: Any) -> Any:
    return frame


def test_the_user_may_say_what_becomes_of_rows_that_do_not_fit(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow("test", tmp_path / "state")
    options = {"path": str(tmp_path / "s"), "mode": "DROPMALFORMED"}
    flow.source("s", "json", options, "id BIGINT, n INT")
    lay_json(tmp_path / "s", 0, {"id": 1, "n": 1}, "no json")
    flow.sql("q", "SELECT id FROM s", sinks=(MEMORY,))
    answers, status = run_all(spark, flow)
    assert answers["q"] == [(1,)]
    assert counts(status, "q") == {"in": 1, "contributed": 1}


def test_rejected_answers_are_on_view(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    lay(tmp_path / "s", row(1, 1, big=2**62), row(2, 2, big=2**62), row(3, 3, k="b"))
    lay(tmp_path / "s", row(4, 100))
    flow.sql("q", WINDOWED.format("big"), sinks=(MEMORY,))
    answers, _ = run_all(spark, flow, drain=True)
    assert ("b", 1) in answers["q"]
    ((reason, shown),) = rejected(flow)["q"]
    assert "an answer could not be computed" in reason
    assert shown["k"] == "a"


def test_a_row_that_does_not_fit_quarantines_who_wants_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = text_flow(tmp_path, "json")
    lay_json(tmp_path / "s", 0, {"id": 1, "ts": at(1), "n": 1}, "no json")
    lay_json(tmp_path / "s", 1, {"id": 2, "ts": at(100), "n": 1})
    lay_json(tmp_path / "s", 2, {"id": 3, "ts": at(200), "n": 1})
    flow.sql("strict", QUERIES["filtered"], sinks=(MEMORY,), on_error=OnError.QUARANTINE)
    flow.sql("other", QUERIES["narrow"], sinks=(MEMORY,))
    answers, status = run_all(spark, flow, drain=True)
    assert status["queries"]["strict"]["state"] == "quarantined"
    assert status["queries"]["other"]["state"] != "quarantined"
    assert answers["other"] == [(1,), (1,), (1,)]


def test_the_only_query_over_rows_that_may_not_fit_pauses_and_resumes(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = text_flow(tmp_path, "json")
    (tmp_path / "s").mkdir()
    flow.sql("plain", QUERIES["plain"], sinks=(MEMORY,), every=0.05)
    with flow.start(spark) as run:

        def read(number: int) -> None:
            lay_json(tmp_path / "s", number, {"id": number, "ts": at(1), "n": 1}, "no json")
            until(lambda: run.status()["queries"]["plain"]["counts"]["in"] == 2 * number + 2)

        read(0)
        run.pause("plain")
        read(1)
        run.resume("plain")
        read(2)
        status = run.stop()
    assert counts(status, "plain") == {"in": 6, "contributed": 2, "rejected": 2, "paused": 2}
