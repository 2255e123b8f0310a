"""Batches and changes that are broken off leave nothing behind; `kill` does it to processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.errors import RunError
from evenflow.model.query import Sink
from evenflow.spark import supervisor, units
from evenflow.spark.unit.unit_run import UnitRun
from tests.spark.flows import MEMORY, add_source, counts, flow_over, lay, row, run_all, until
from tests.spark.test_life import COUNT, EXTREMES, PLAIN, read_all, tens, windows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_answers_of_a_batch_that_was_broken_off_go_if_their_query_pauses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 5.0)
    flow = flow_over(tmp_path)
    for name in ("p", "q"):
        flow.sql(name, PLAIN, Sink("json", str(tmp_path / name)), every=0.05)
    tens(tmp_path, 0)
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(UnitRun, "_save_counts", _full)
            tens(tmp_path, 1)
            until(lambda: run.status()["sources"]["s"]["state"] == "failing")
        run.pause("q")
        read_all(run, tmp_path)
        status = run.stop()
    assert ids(tmp_path / "p") == [0, 1, 2, 3]
    assert ids(tmp_path / "q") == [0, 1]
    assert counts(status, "p") == {"in": 4, "contributed": 4}
    assert counts(status, "q") == {"in": 4, "contributed": 2, "paused": 2}


def _full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def ids(folder: Path) -> list[int]:
    return [json.loads(line)["id"] for f in sorted(folder.glob("*.json")) for line in f.open()]


def test_a_change_that_was_broken_off_leaves_no_seed_to_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("a", COUNT, MEMORY, every=0.05)
    tens(tmp_path, 0, 1)
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(units, "write_manifest", _full)
            with pytest.raises(RunError):
                run.subscribe("m", EXTREMES, MEMORY, every=0.05)
        with pytest.raises(RunError):
            run.wait(seconds=60)
    # The number of the unit that was not opened goes to one over another source.
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("a", COUNT, MEMORY, every=0.05)
    add_source(flow, "other", tmp_path / "other", watermark="1 second")
    flow.sql("b", PLAIN.replace("FROM s", "FROM other"), MEMORY, every=0.05)
    for number in range(3):
        lay(tmp_path / "other", row(number, number))
    answers, status = run_all(spark, flow)
    assert answers["b"] == [(0,), (1,), (2,)]
    assert counts(status, "b") == {"in": 3, "contributed": 3}


def test_a_query_without_windows_tells_the_next_one_what_was_read_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("p", "SELECT id FROM s WHERE id > 3", MEMORY, every=0.05)
    with flow.start(spark) as run:
        run.subscribe("a", COUNT, MEMORY, every=0.05)
        # Both are there before the files: one that begins behind them closes no window.
        tens(tmp_path, 0)
        lay(tmp_path / "s", row(2, 10), row(3, 14))
        read_all(run, tmp_path)
        run.unsubscribe("p")
        run.subscribe("p", PLAIN, MEMORY, every=0.05)
        run.unsubscribe("a")
        # Only the unit without windows is left, and it has read nothing itself.
        assert len(run.runs) == 1
        run.subscribe("b", COUNT, MEMORY, every=0.05)
        lay(tmp_path / "s", row(4, 15), row(5, 2), row(6, 25))
        lay(tmp_path / "s", row(7, 45))
        read_all(run, tmp_path)
        answers = run.answers("b")
        status = run.stop()
    assert windows(answers) == {20: 1}
    assert counts(status, "b") == {"in": 4, "contributed": 1, "cut": 1, "late": 1, "open": 1}
