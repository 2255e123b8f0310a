"""What the processes of the surge benchmark run: the saturated run, one trial, or all in turn."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.own_process import given_task, tell
from evenflow.bench.surge.capacity import Effort, saturated
from evenflow.bench.surge.figures import TrueCosts, optimum
from evenflow.bench.surge.flow import WEIGHTS
from evenflow.bench.surge.trial import Trial, measure
from evenflow.spark.compile.delay import blocks_per_microsecond

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def _saturated(session: SparkSession, task: Mapping[str, Any]) -> tuple[TrueCosts, Any]:
    with tempfile.TemporaryDirectory(prefix="evenflow-bench-", ignore_cleanup_errors=True) as made:
        found, calibrated = saturated(session, Path(made), Effort(**task["effort"]))
    costs = calibrated.as_json()
    tell({"true": asdict(found), "calibrated": costs, "blocks": blocks_per_microsecond()})
    return found, costs


def _in_turn(session: SparkSession, task: Mapping[str, Any]) -> None:
    """Run trials behind the saturated run, which has warmed up for them; `none` is the last."""
    found, costs = _saturated(session, task)
    for each in task["trials"]:
        trial = Trial(**each)
        best = optimum(found, WEIGHTS, trial.times, trial.every)
        _tried(session, replace(trial, capacity=found.capacity, optimum=best), costs)


def _tried(session: SparkSession, trial: Trial, costs: Any) -> None:
    tell(measure(session, trial, costs))
    if trial.method == "none":
        # Its batch has minutes to go, and nobody wants its end; the JVM ends with us.
        os._exit(0)


def main() -> None:
    """Run what is given as JSON and print what came of it."""
    from evenflow.spark.session import make_session

    task = given_task()
    session = make_session("bench surge")
    try:
        if "trials" in task:
            _in_turn(session, task)
        elif "trial" in task:
            _tried(session, Trial(**task["trial"]), task["costs"])
        else:
            _saturated(session, task)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
