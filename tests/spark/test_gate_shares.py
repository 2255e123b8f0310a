"""What gates left of windows and batches: told beside the answers, in the state, and in status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.model.query import Sink
from evenflow.spark.gate.shares import FOLDER
from evenflow.spark.run import Run
from tests.spark.flows import MEMORY, counts, flow_over
from tests.spark.gated import lay_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GROUPED = "SELECT n, window.start AS w, count(*) AS c FROM s WHERE {} GROUP BY n, window(ts, '{}')"
QUERIES = {
    "windows": GROUPED.format("id % 3 <> 0", "10 seconds"),
    "union": " UNION ALL ".join(
        GROUPED.format(*part)
        for part in (("n < 30", "10 seconds"), ("n > 20", "20 seconds"), ("n = 7", "10 seconds"))
    ),
    "tuples": "SELECT id FROM s WHERE n <> 5",
    "open": GROUPED.format("n > 3", "10 seconds"),
}
KEEP = {"windows": 0.4, "union": 0.6, "tuples": 0.5}


def records(folder: Path) -> list[dict[str, Any]]:
    """Return what the files of a folder tell, by batch of a unit, one after the other."""
    assert not list(folder.glob("*.part"))
    lines = [line for f in sorted(folder.glob("*.json")) for line in f.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def share(told: list[dict[str, Any]]) -> float:
    """Return the share kept of what some records are about."""
    kept = sum(each.get("contributed", each.get("kept", 0)) for each in told)
    lost = sum(each["dropped"] + each.get("cut", 0) for each in told)
    return float(kept / (kept + lost))


@pytest.mark.parametrize("files", [True, False])
def test_what_was_kept_is_told_once_per_query_and_window(
    spark: SparkSession, tmp_path: Path, files: bool
) -> None:
    lay_files(tmp_path, 5)
    flow = flow_over(tmp_path, watermark="5 seconds")
    for name, sql in QUERIES.items():
        flow.sql(name, sql, Sink("parquet", str(tmp_path / name)) if files else MEMORY)
    run = Run(flow.spec(), spark, flow.state)
    run.set_gates(KEEP)
    run.start(available_now=True).wait()
    run.pause_units()
    run.drain()
    status = run.stop()
    in_state = records(flow.state / "shares")
    told = {
        name: records(tmp_path / name / FOLDER)
        if files
        else [each for each in in_state if each["query"] == name]
        for name in QUERIES
    }
    assert files == (not in_state)
    assert told["open"] == []
    for name, keep in KEEP.items():
        found, given = told[name], counts(status, name)
        assert {each["query"] for each in found} == {name}
        assert {each["fraction"] for each in found} == {keep}
        assert sum(each["dropped"] for each in found) == given["gate"]
        for each in found:
            assert each["share"] == pytest.approx(share([each]), abs=1e-6)
    for name in ("windows", "union"):
        windows = [(each["start"], each["end"]) for each in told[name]]
        assert len(windows) == len(set(windows)) >= 4
        assert (
            sum(each["contributed"] for each in told[name]) == counts(status, name)["contributed"]
        )
    batches = [each["batch"] for each in told["tuples"]]
    assert batches == list(range(5))
    arrived = sum(each["kept"] + each["dropped"] for each in told["tuples"])
    assert arrived == counts(status, "tuples")["in"]
    queries = status["queries"]
    assert queries["open"]["share_kept"] == 1.0
    assert queries["tuples"]["share_kept"] == pytest.approx(share(told["tuples"][-1:]), abs=1e-6)
    assert 0.2 < queries["windows"]["share_kept"] < 0.6


def test_fairness_is_that_of_the_queries_that_run(spark: SparkSession, tmp_path: Path) -> None:
    lay_files(tmp_path, 1)
    flow = flow_over(tmp_path, watermark="5 seconds")
    for name in ("tuples", "a", "b"):
        flow.sql(name, QUERIES["tuples"], MEMORY)
    run = Run(flow.spec(), spark, flow.state)
    run.set_gates({"a": 0.5})
    run.start(available_now=True).wait()
    run.pause("b")
    first, second = (run.status()["queries"][name]["share_kept"] for name in ("tuples", "a"))
    assert first == 1.0
    assert 0.3 < second < 0.7
    fair = (first + second) ** 2 / (2 * (first**2 + second**2))
    assert run.status()["fairness"] == pytest.approx(fair, abs=1e-5)
    assert run.stop()["fairness"] == pytest.approx(fair, abs=1e-5)
