"""A flow that has not started yet: it can be asked how it stands, and to stop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.cli.status import status_text
from evenflow.control import stored
from evenflow.control.mode import Mode
from evenflow.control.shell import Control
from evenflow.control.stored import surveyor
from evenflow.errors import UserError
from evenflow.flow import Flow
from evenflow.schedule.request import QueryState
from evenflow.spark import answering
from evenflow.spark.control_socket import ask
from evenflow.spark.interrupt import AnyOf, end_if_interrupted
from evenflow.spark.run import Run
from tests.spark.flows import MEMORY, until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PAUSE = {"ask": "pause", "name": "q"}


class Starting:
    """A run that starts in a thread, and measures what tuples cost until it is stopped."""

    def __init__(self, spark: SparkSession, folder: Path, patch: pytest.MonkeyPatch) -> None:
        flow = Flow("begun", folder)
        flow.source("s", "constant", {"rate": 10})
        flow.sql("q", "SELECT id FROM s", MEMORY, deadline=60.0)
        patch.setattr(stored, "_calibrated", self._calibrated)
        self.state = flow.state
        self.run = Run(flow.spec(), spark, flow.state)
        survey = surveyor(flow.spec(), flow.state, lambda _: None)
        self._control = Control(flow.state, mode=Mode.ON, survey=survey)
        self.measures = threading.Event()
        self.thread = threading.Thread(target=self._start)
        self.thread.start()

    def _calibrated(self, run: Run, *_: Any) -> Any:
        self.measures.set()
        until(run.stop_asked.is_set)
        end_if_interrupted(AnyOf(None, run.stop_asked))

    def _start(self) -> None:
        self.run.start(beside=self._control)

    def ask(self, request: dict[str, Any]) -> Any:
        return ask("begun", self.state, request)


def test_it_says_so_refuses_changes_and_stops_before_it_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_PATIENCE_SECONDS", 0.1)
    starting = Starting(spark, tmp_path, monkeypatch)
    try:
        assert starting.measures.wait(60)
        status = starting.ask({"ask": "status", "exact": True})
        assert status["starting"]
        assert status["control"]["state"] == "preparing"
        text = status_text(status)
        assert text.startswith("begun: starting, 1 queries")
        assert "what tuples cost is measured" in text
        with pytest.raises(UserError, match="has not started yet"):
            starting.ask(PAUSE)
        starting.ask({"ask": "stop"})
        starting.thread.join(60)
        starting.run.wait()
    finally:
        starting.run.stop_asked.set()
        starting.thread.join(60)
        final = starting.run.stop()
    assert not final["starting"]
    assert final["queries"]["q"]["counts"]["in"] == 0
    assert not any(run.active for run in starting.run.runs)


def test_changes_wait_for_a_flow_that_is_about_to_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow("begun", tmp_path)
    flow.source("s", "constant", {"rate": 10})
    flow.sql("q", "SELECT id FROM s", MEMORY)
    begun, go_on = threading.Event(), threading.Event()

    class Beside:
        def prepare(self, run: Run) -> None:
            begun.set()
            go_on.wait(60)

        def start(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(answering, "_PATIENCE_SECONDS", 60.0)
    run = Run(flow.spec(), spark, flow.state)
    thread = threading.Thread(target=run.start, kwargs={"beside": Beside()})
    thread.start()
    try:
        assert begun.wait(60)
        asking = threading.Thread(target=ask, args=("begun", flow.state, PAUSE))
        asking.start()
        go_on.set()
        asking.join(60)
        assert run.life.queries["q"].state is QueryState.PAUSED
    finally:
        go_on.set()
        thread.join(60)
        run.stop()
