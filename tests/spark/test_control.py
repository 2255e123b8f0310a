"""The control loop on Spark: what it sees of real batches, what tuples cost, gates that it sets."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from evenflow.control.facts import NOBODY
from evenflow.control.journal import read_decisions
from evenflow.control.shell import Control
from evenflow.control.stored import Survey, surveyor
from evenflow.control.watch import look, selectivities
from evenflow.flow import Flow
from evenflow.model.costs import Costs, QueryCost
from evenflow.model.query import Sink
from evenflow.spark import calibrate as calibrate_module
from evenflow.spark.calibrate import calibrate
from evenflow.spark.control_socket import ask
from evenflow.spark.run import Run, run_flow
from tests.spark.flows import MEMORY, flow_over, lay, row, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

SUM = (
    "SELECT k, window(ts, '5 seconds') AS w, sum(n) AS n FROM s GROUP BY k, window(ts, '5 seconds')"
)
COUNT = SUM.replace("sum(n)", "count(*)").replace("FROM s", "FROM s WHERE n > 0")
WIDE = SUM.replace("5 seconds", "20 seconds")


def test_a_look_sees_batches_rows_gates_and_delays(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", SUM, MEMORY, weight=3, floor=0.25, deadline=5.0)
    flow.sql("b", COUNT, MEMORY)
    flow.sql("c", WIDE, MEMORY)
    for batch in range(4):
        lay(tmp_path / "s", *(row(i, 20 * batch + i % 20) for i in range(100)))
    run = Run(flow.spec(), spark, flow.state).start()
    try:
        until(lambda: len(look(run, time.time()).units[0].batches) >= 3)
        facts = look(run, time.time())
        (unit,) = facts.units
        assert sorted(unit.families) == [("a", "b"), ("c",)]
        assert unit.shared == ()
        assert {batch.rows for batch in unit.batches[:4]} == {100}
        assert all(batch.spacing is not None for batch in unit.batches[1:])
        assert facts.gaps() == ()
        assert unit.started is not None
        assert unit.started <= unit.batches[0].began
        query = facts.queries["a"]
        assert (query.weight, query.floor, query.deadline) == (3.0, 0.25, 5.0)
        assert query.contract == "window"
        assert query.delay is not None
        run.set_gates({"a": 0.5})
        assert look(run, time.time()).gates == {"a": 0.5}
        lay(tmp_path / "s", row(1, 100))
        lay(tmp_path / "s", row(1, 101))
        until(lambda: look(run, time.time()).units[0].batches[-1].gates == {"a": 0.5})
        assert 0.0 < selectivities(run)["a"] <= 1.0
        run.unsubscribe("b", keep=True)
        kept = look(run, time.time()).queries["b"]
        assert (kept.weight, kept.deadline, kept.running) == (NOBODY, None, True)
        run.set_gates({"b": 0.0})
        assert look(run, time.time()).gates == {"b": 0.0}
    finally:
        run.stop()


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure once, on the sample as it is: a session that interprets plans is slow."""
    monkeypatch.setattr(calibrate_module, "LONG_SECONDS", 0.0)


@pytest.mark.usefixtures("_quick")
def test_costs_are_measured_each_query_alone(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", SUM, MEMORY)
    flow.sql("b", COUNT, MEMORY)
    flow.sql("fine", SUM.replace("'5 seconds'", "'30 seconds', '1 second'"), MEMORY)
    flow.sql("plain", "SELECT id FROM s WHERE n > 100", MEMORY)
    lay(tmp_path / "s", *(row(i, i % 60, k=f"k{i % 7}") for i in range(400)))
    costs = calibrate(spark, flow.spec(), tmp_path / "sample", rows=400, rounds=1)
    assert set(costs.queries) == {"a", "b", "fine", "plain"}
    assert costs.of_source("s") > 0
    assert costs.measured_at is not None
    # A family shares its row.
    assert costs.queries["a"].row == costs.queries["b"].row
    assert all(0.0 < cost.certainty <= 1.0 for cost in costs.queries.values())


@pytest.mark.usefixtures("_quick")
def test_a_query_that_fails_on_the_sample_is_guessed(spark: SparkSession, tmp_path: Path) -> None:
    """The flow starts all the same; what is in no source, as NULLs, does not fail either."""
    flow = flow_over(tmp_path)
    fails = F.udf(lambda _: 1 // 0, "bigint")
    adds = F.udf(lambda id_: id_ + 1, "bigint")
    for name, function in (("bad", fails), ("good", adds)):
        applied = flow.stream("s").apply(_selecting(function), "id BIGINT")
        applied.query(name, MEMORY)
    lay(tmp_path / "s", *(row(i, i) for i in range(50)))
    said: list[str] = []
    costs = calibrate(
        spark, flow.spec(), tmp_path / "sample", rows=50, rounds=1, on_step=said.append
    )
    assert set(costs.queries) == {"good"}
    assert any("the cost of bad is guessed" in line for line in said)


def _selecting(function: Callable[[str], Column]) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.select(function("id").alias("id"))


@pytest.mark.usefixtures("_quick")
def test_what_a_job_takes_is_no_cost_of_reading(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here jobs take the same however many tuples they read: these cost nothing."""
    flow = flow_over(tmp_path)
    flow.sql("plain", "SELECT id FROM s WHERE n > 100", MEMORY)
    lay(tmp_path / "s", *(row(i, i) for i in range(50)))
    monkeypatch.setattr(calibrate_module._Calibration, "_seconds", lambda *_: 0.4)
    costs = calibrate(spark, flow.spec(), tmp_path / "sample", rows=50, rounds=1)
    assert costs.reading == {"s": calibrate_module.LEAST_READING}
    assert costs.queries["plain"].own == 0.0
    assert costs.certainty(("plain",)) > 0.0


SLOW_SECONDS = 0.002
"""What an answer of the dear query takes in its sink."""


def test_a_flow_that_falls_behind_is_shed_and_opens_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = flow_over(tmp_path)
    slow = Sink("callback", function=lambda _, rows: time.sleep(SLOW_SECONDS * rows.num_rows))
    flow.sql("dear", "SELECT id FROM s", slow, deadline=5.0, every=0.5)
    flow.sql("cheap", "SELECT n FROM s", MEMORY, weight=10.0, every=0.5)
    costs = Costs(
        reading={"s": 1e-6},
        queries={
            "dear": QueryCost(own=SLOW_SECONDS, certainty=1.0),
            "cheap": QueryCost(own=1e-5, certainty=1.0),
        },
        measured_at=time.time(),
    )
    control = Control(flow.state, survey=lambda _: Survey(costs=costs, cores=1.0))
    surging, done = threading.Event(), threading.Event()

    def feed() -> None:
        number = 0
        while not done.is_set():
            rows = 1500 if surging.is_set() else 10
            lay(tmp_path / "s", *(row(number * 10_000 + i, number) for i in range(rows)))
            number += 1
            done.wait(0.5)

    def watch(status: dict[str, Any]) -> None:
        told = status["control"]
        if told["gates"] or read_decisions(flow.state):
            surging.clear()
            if not told["gates"]:
                done.set()
        elif told["capacity"] is not None:
            surging.set()
        if done.is_set():
            ask("test", flow.state, {"ask": "stop"})

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        status = run_flow(
            flow.spec(),
            state=flow.state,
            session=spark,
            seconds=90,
            on_progress=watch,
            beside=control,
        )
    finally:
        done.set()
        feeding.join()
    decisions = read_decisions(flow.state)
    assert [decisions[0]["act"], decisions[-1]["act"]] == ["shed", "open"]
    assert decisions[0]["keep"]["dear"] < decisions[0]["keep"].get("cheap", 1.0)
    assert status["control"]["gates"] == {}
    shed = {name: q["counts"]["shed"]["gate"] for name, q in status["queries"].items()}
    assert shed["dear"] > shed["cheap"]
    assert control.died is None


@pytest.mark.usefixtures("_quick")
def test_a_survey_is_kept_and_data_that_is_handed_in_is_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", SUM, MEMORY)
    lay(tmp_path / "s", *(row(i, i % 60) for i in range(50)))
    said: list[str] = []
    run = Run(flow.spec(), spark, flow.state)
    try:
        first = surveyor(flow.spec(), flow.state, said.append)(run)
        again = surveyor(flow.spec(), flow.state, said.append)(run)
    finally:
        run.stop()
    assert first == again
    assert len(said) == 2
    given = Flow("given", tmp_path / "given")
    rows = iter([(1, None)])
    given.source("s", data=rows, schema="id BIGINT, ts TIMESTAMP", event_time="ts", watermark="0 s")
    given.sql("q", "SELECT id FROM s", MEMORY)
    other = Run(given.spec(), spark, given.state)
    try:
        assert surveyor(given.spec(), given.state, said.append)(other).costs == Costs()
    finally:
        other.stop()
    assert len(said) == 2


@pytest.mark.usefixtures("_quick")
def test_a_survey_measures_what_was_subscribed_and_joins_with_what_is_handed_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = flow_over(tmp_path)
    flow.table("t", data=iter([("k1",), ("k2",)]), schema="k STRING")
    flow.sql("a", "SELECT s.id FROM s JOIN t ON s.k = t.k", MEMORY)
    lay(tmp_path / "s", *(row(i, i, k=f"k{i % 4}") for i in range(40)))
    with Run(flow.spec(), spark, flow.state).start() as run:
        run.subscribe("b", "SELECT s.n FROM s JOIN t ON s.k = t.k", MEMORY)
        until(lambda: run.answers("a").num_rows == 20)
    run = Run(flow.spec(), spark, flow.state)
    try:
        found = surveyor(flow.spec(), flow.state, lambda _: None)(run).costs
    finally:
        run.stop()
    assert set(found.queries) == {"a", "b"}
    assert found.covers({query.name: query.operator.hash for query in run.queries.values()})


def test_a_flow_in_python_has_its_loop_as_long_as_it_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow("python", tmp_path)
    rows = [(i, None) for i in range(10)]
    flow.source("s", data=rows, schema="id BIGINT, ts TIMESTAMP", event_time="ts", watermark="0 s")
    flow.sql("q", "SELECT id FROM s", MEMORY, deadline=60.0)
    with flow.start(spark) as run:
        assert run.status()["control"]["shed"] == "on"
        assert has_loop()
        run.wait()
        assert not has_loop()
    with flow.start(spark, shed="dry-run") as run:
        assert run.status()["control"]["shed"] == "dry-run"
        assert has_loop()
    assert not has_loop()
    with flow.start(spark, available_now=True) as run:
        assert run.status()["control"] == {"shed": "off", "state": "off"}
        assert not has_loop()


def has_loop() -> bool:
    return any(each.name == "evenflow-loop" for each in threading.enumerate())
