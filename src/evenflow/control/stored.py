"""Costs that are kept in the state directory, and made anew when they no longer hold."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError
from evenflow.model.costs import Costs, costs_from_json
from evenflow.spark.state.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenflow.model.flow import FlowSpec
    from evenflow.spark.run import Run

FILE = "costs.json"
OLDEST_SECONDS = 7 * 86_400.0


def read_costs(state: Path) -> Costs | None:
    """Return what the last calibration found, or None if there was none that can be used."""
    try:
        body = read_sealed(state / FILE)
        return None if body is None else costs_from_json(body)
    except EvenflowError:
        # Costs can be had anew, unlike everything else in the directory.
        return None


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What must be known before a loop can begin."""

    costs: Costs
    cores: float


def surveyor(spec: FlowSpec, state: Path, say: Callable[[str], None]) -> Callable[[Run], Survey]:
    """Return what surveys a flow before it runs: kept costs if they hold, or else new ones."""

    def survey(run: Run) -> Survey:
        cores = float(run.session.sparkContext.defaultParallelism)
        return Survey(costs=_find(run, spec, state, say), cores=cores)

    return survey


def _find(run: Run, spec: FlowSpec, state: Path, say: Callable[[str], None]) -> Costs:
    kept = read_costs(state)
    if kept is not None and _holds(kept, spec, time.time()):
        return kept
    if any(reader.data is not None for reader in spec.readers.values()):
        # What a program hands in may be read only once, and belongs to the flow.
        return kept or Costs()
    try:
        found = _calibrated(run, spec, say)
    except EvenflowError as exc:
        say(f"costs are guessed, they could not be measured: {exc}")
        return kept or Costs()
    write_sealed(state / FILE, found.as_json())
    return found


def _calibrated(run: Run, spec: FlowSpec, say: Callable[[str], None]) -> Costs:
    from evenflow.spark.calibrate import calibrate  # noqa: PLC0415  # needs Spark

    folder = Path(tempfile.mkdtemp(prefix="evenflow-calibrate-"))
    try:
        return calibrate(run.session, spec, folder, on_step=say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _holds(costs: Costs, spec: FlowSpec, now: float) -> bool:
    age = costs.age(now)
    if age is None or age > OLDEST_SECONDS:
        return False
    return {query.name for query in spec.queries} <= set(costs.queries)
