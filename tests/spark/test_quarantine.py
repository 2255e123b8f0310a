"""Queries that fail where it happens in life, are taken out of service, and come back.

On a cluster the same tests run against executors in JVMs of their own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.flow import Flow
from evenflow.model.query import OnError, Sink
from evenflow.spark.unit import batch
from tests.spark.flows import MEMORY, counts, flow_over, lay, row, until
from tests.spark.test_life import COUNT, read_all, tens, windows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from evenflow.spark.run import Run

SUM = "SELECT window.start AS w, sum(n) AS c FROM s GROUP BY window(ts, '10 seconds')"
DIVIDED = "SELECT window.start AS w, sum(6 / n) AS c FROM s GROUP BY window(ts, '10 seconds')"


def state_of(run: Run, query: str) -> str:
    return str(run.status()["queries"][query]["state"])


def quarantined(run: Run, query: str) -> str:
    """Wait until a query is out of service, and return why."""
    until(lambda: state_of(run, query) == "quarantined")
    return str(run.status()["queries"][query]["reason"])


def in_json(folder: Path) -> dict[str, Any]:
    """Return the answers in a folder, by the start of their windows."""
    lines = [json.loads(line) for file in sorted(folder.iterdir()) for line in file.open()]
    return {line["w"]: line["c"] for line in lines}


@pytest.mark.parametrize("by_executors", [False, True])
def test_a_sink_that_cannot_be_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_executors: bool
) -> None:
    """A file is in the way of the folder, as if a disk had gone."""
    if by_executors:
        monkeypatch.setattr(batch, "MANY_ANSWERS", -1)
    out = tmp_path / "out"
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("a", COUNT, Sink("json", str(out / "a")), every=0.05)
    flow.sql("b", SUM, Sink("json", str(out / "b")), every=0.05)
    with flow.start(spark) as run:
        tens(tmp_path, 0, 1, 2)
        read_all(run, tmp_path)
        before = in_json(out / "b")
        assert len(before) == 2
        (out / "b").rename(out / "away")
        (out / "b").write_text("in the way")
        tens(tmp_path, 3, 4)
        assert "cannot write" in quarantined(run, "b")
        tens(tmp_path, 5)
        read_all(run, tmp_path)
        (out / "b").unlink()
        (out / "away").rename(out / "b")
        run.resume("b")
        tens(tmp_path, 6, 7, 8)
        read_all(run, tmp_path)
        run.pause_units()
        run.drain()
        status = run.stop()
    assert list(in_json(out / "a").values()) == [2] * 9
    assert counts(status, "a") == {"in": 18, "contributed": 18}
    after = in_json(out / "b")
    assert before.items() <= after.items()
    assert set(after.values()) == {2}
    # Windows 0, 1; 2 to 5 are missed; it resumes with the first that starts after what was read.
    assert len(after) == 5
    found = counts(status, "b")
    assert (found["in"], found["contributed"]) == (18, 10), found
    assert found["quarantined"] + found["cut"] == 8, found


def test_a_query_comes_back_although_nothing_was_read_since_it_failed(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    flow = flow_over(tmp_path)
    flow.sql("b", "SELECT ts AS w, n AS c FROM s", Sink("json", str(out / "b")), every=0.05)
    with flow.start(spark) as run:
        out.mkdir(exist_ok=True)
        (out / "b").write_text("in the way")
        tens(tmp_path, 0)
        assert "cannot write" in quarantined(run, "b")
        (out / "b").unlink()
        run.resume("b")
        tens(tmp_path, 1)
        read_all(run, tmp_path)
        assert state_of(run, "b") == "running"
        status = run.stop()
    assert len(in_json(out / "b")) == 2
    assert counts(status, "b") == {"in": 4, "contributed": 2, "quarantined": 2}


def test_a_function_that_fails_in_the_middle_of_a_stack(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The unit waits, with its state; when the function is well again nothing is missing."""
    ill = tmp_path / "ill"
    flow = flow_over(tmp_path, watermark="1 second")
    path = str(ill)

    def careful(frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import IntegerType

        def check(n: int) -> int:
            from pathlib import Path

            if Path(path).exists():
                raise ValueError("the function is ill")
            return n

        return frame.select("ts", F.udf(check, IntegerType())("n").alias("n"))

    checked = flow.stream("s").apply(careful, "ts TIMESTAMP, n INT", event_time="ts")
    from evenflow import col, sum_

    counted = checked.window("10 seconds").agg(c=sum_("n")).select(col("window.start"), col("c"))
    counted.query("f", MEMORY, every=0.05)
    flow.sql("a", COUNT, MEMORY, every=0.05)
    with flow.start(spark) as run:
        tens(tmp_path, 0, 1)
        read_all(run, tmp_path)
        ill.touch()
        tens(tmp_path, 2, 3)
        assert "the function is ill" in quarantined(run, "f")
        until(lambda: run.status()["queries"]["a"]["answers"] == 3)
        assert state_of(run, "a") == "running"
        ill.unlink()
        run.resume("f")
        tens(tmp_path, 4)
        read_all(run, tmp_path)
        run.pause_units()
        run.drain()
        answers = {name: run.answers(name) for name in ("a", "f")}
        status = run.stop()
    assert windows(answers["a"]) == dict.fromkeys((0, 10, 20, 30, 40), 2)
    assert sorted(answers["f"].column("c").to_pylist()) == [2] * 5
    assert counts(status, "f") == {"in": 10, "contributed": 10}


def test_a_tuple_that_cannot_be_computed_quarantines_who_wants_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("strict", DIVIDED, MEMORY, every=0.05, on_error=OnError.QUARANTINE)
    flow.sql("lax", DIVIDED, MEMORY, every=0.05)
    with flow.start(spark) as run:
        tens(tmp_path, 0, 1, 2)
        read_all(run, tmp_path)
        lay(tmp_path / "s", row(100, 30, n=0), row(101, 39))
        tens(tmp_path, 4, 5)
        assert "could not be computed" in quarantined(run, "strict")
        run.resume("strict")
        tens(tmp_path, 6, 7)
        read_all(run, tmp_path)
        run.pause_units()
        run.drain()
        answers = {name: run.answers(name) for name in ("strict", "lax")}
        status = run.stop()
    whole = dict.fromkeys((0, 10, 20, 30, 40, 50, 60, 70), 12.0) | {30: 6.0}
    assert windows(answers["lax"]) == whole
    assert counts(status, "lax") == {"in": 16, "contributed": 15, "rejected": 1}
    given = windows(answers["strict"])
    assert given.items() <= whole.items()
    assert {0, 10, 60, 70} <= set(given)
    assert 30 not in given
    assert counts(status, "strict")["in"] == 16


def test_a_quarantined_query_stays_so_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    def flow() -> Flow:
        made = flow_over(tmp_path, watermark="1 second")
        made.sql("a", COUNT, MEMORY, every=0.05)
        made.sql("strict", DIVIDED, MEMORY, every=0.05, on_error=OnError.QUARANTINE)
        return made

    lay(tmp_path / "s", row(1, 1, n=0))
    with flow().start(spark) as run:
        tens(tmp_path, 1, 2, 3)
        reason = quarantined(run, "strict")
    with flow().start(spark) as run:
        assert quarantined(run, "strict") == reason
        tens(tmp_path, 4)
        read_all(run, tmp_path)
        status = run.stop()
    assert status["queries"]["strict"]["state"] == "quarantined"
    assert counts(status, "strict")["quarantined"] > 0
