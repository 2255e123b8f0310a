"""What the processes of the surge benchmark run: the saturated run, or one trial."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.own_process import given_task, tell
from evenflow.bench.surge.capacity import Effort, saturated
from evenflow.bench.surge.trial import Trial, measure
from evenflow.spark.compile.delay import blocks_per_microsecond

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def _saturated(session: SparkSession, task: Mapping[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="evenflow-bench-", ignore_cleanup_errors=True) as made:
        found, calibrated = saturated(session, Path(made), Effort(**task["effort"]))
    tell(
        {
            "true": asdict(found),
            "calibrated": calibrated.as_json(),
            "blocks": blocks_per_microsecond(),
        }
    )


def _tried(session: SparkSession, task: Mapping[str, Any]) -> None:
    trial = Trial(**task["trial"])
    tell(measure(session, trial, task["costs"]))
    if trial.method == "none":
        # Its batch has minutes to go, and nobody wants its end; the JVM ends with us.
        os._exit(0)


def main() -> None:
    """Run what is given as JSON and print what came of it."""
    from evenflow.spark.session import make_session

    task = given_task()
    session = make_session("bench surge")
    try:
        if "trial" in task:
            _tried(session, task)
        else:
            _saturated(session, task)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
