"""The first act: twenty queries over synthetic smart meters, then the same as plain Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.cli.table import text_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenflow.cli.status import Status
    from evenflow.flow import Flow
    from evenflow.spark.run import Run

FLOW = Path(__file__).with_name("sharing.yaml")
SAMPLE_ROWS = 240_000
"""Rows of the sample on which plain Spark is measured: enough to be past its warm-up."""
_EARLY = 1.0
"""Seconds before its time at which a run must have ended to count as interrupted."""


class Running:
    """Beside a run: tells whether it was ended before its time, by Ctrl-C or from outside."""

    def __init__(self) -> None:
        self._began = self._ended = 0.0

    def prepare(self, run: Run) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Begin to count."""
        self._began = time.monotonic()

    def stop(self) -> None:
        """End."""
        self._ended = time.monotonic()

    def ended_early(self, seconds: float) -> bool:
        """Whether the run has not taken its time. One that is interrupted ends like any other."""
        return self._ended - self._began < seconds - _EARLY


def run_shared(flow: Flow, seconds: float, *, verbose: bool) -> Status:
    """Run the flow and return its status.

    Raises:
        KeyboardInterrupt: It was interrupted.
    """
    from evenflow.cli.progress import shown_progress
    from evenflow.spark.run import run_flow

    running = Running()
    with shown_progress(verbose=verbose) as on_progress:
        status = run_flow(
            flow.spec(),
            state=flow.state,
            available_now=False,
            drain=False,
            seconds=seconds,
            master=None,
            replace=False,
            on_progress=on_progress,
            beside=running,
        )
    if running.ended_early(seconds):
        raise KeyboardInterrupt
    return status


def compare_shared(flow: Flow, on_step: Callable[[str], None]) -> dict[str, Any]:
    """Run the queries as plain Spark and shared on the same sample, and compare them."""
    from evenflow.spark.compare import compare_flow

    return compare_flow(flow.spec(), rows=SAMPLE_ROWS, on_step=on_step)


def answers_text(status: Status) -> str:
    """Return the answers per query."""
    rows = [
        [
            name,
            query.get("answers"),
            (query.get("counts") or {}).get("in"),
            query.get("age_seconds"),
        ]
        for name, query in status["queries"].items()
    ]
    return text_table(["query", "answers", "tuples in", "age s"], rows)
