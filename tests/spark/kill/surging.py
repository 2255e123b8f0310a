"""What the process that is killed in a surge has besides: the loop, and a record of every attempt.

An attempt is one time that a batch is worked on. It is recorded, from outside, with what it was
told of the gates, and with what it dropped where a batch knows that at once.
"""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

from evenflow.control.mode import Mode
from evenflow.control.shell import Control
from evenflow.control.stored import Survey
from evenflow.model.costs import costs_from_json
from evenflow.schedule.layout import Fate
from evenflow.spark.source import sources
from evenflow.spark.unit.batch import StackBatches
from evenflow.spark.unit.checkpoint import HEADER
from evenflow.spark.unit.stateless import StatelessBatches
from evenflow.spark.unit.unit_run import UnitRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from evenflow.spark.run import Run
    from evenflow.spark.sink.demux import Apart

ATTEMPTS = "attempts.jsonl"
COSTS = "costs.json"
SURGE_TICKS = "surge-ticks.txt"
"""How long the surge lasts, which the test says only when it has seen enough of it."""


def surging(folder: Path, state: Path) -> Control:
    """Plant all of it and return the loop, which is told what tuples cost."""
    _record_attempts(folder / ATTEMPTS)
    _end_surge_as_told(folder / SURGE_TICKS)
    costs = costs_from_json(json.loads((folder / COSTS).read_text()))

    def survey(run: Run) -> Survey:
        return Survey(costs=costs, cores=float(run.session.sparkContext.defaultParallelism))

    return Control(state, mode=Mode.ON, survey=survey)


def _end_surge_as_told(file: Path) -> None:
    original = vars(sources)["generator_settings"]

    def settings(format_: str, options: Mapping[str, str], partitions: int) -> dict[str, Any]:
        return {**original(format_, options, partitions), "surge_ticks": int(file.read_text())}

    vars(sources)["generator_settings"] = settings


def _record_attempts(file: Path) -> None:
    run_batch, count = UnitRun._run_batch, StatelessBatches._count
    now = threading.local()

    def recorded(self: UnitRun, frame: DataFrame, batch: int) -> None:
        now.batch = batch
        _write(file, {"batch": batch, "told": _told(self), **_unit(self, batch)})
        run_batch(self, frame, batch)

    def counted(self: StatelessBatches, tuples: int, apart: Apart, dropped: Any) -> None:
        unit = self.delivery.unit
        _write(file, {"counted": tuples, "batch": now.batch, "unit": unit, "dropped": dropped})
        count(self, tuples, apart, dropped)

    UnitRun._run_batch = recorded  # type: ignore[method-assign]
    StatelessBatches._count = counted  # type: ignore[method-assign]


def _told(run: UnitRun) -> list[int] | None:
    """Return the numbers that a batch of a stack is told; None without windows."""
    if not isinstance(run._batches, StackBatches):
        return None
    return [int(each) for each in run.directory.told(run.unit.era).read_text().split(",")]


def _unit(run: UnitRun, batch: int) -> dict[str, Any]:
    gates = run.around.gate_plan(run.unit)
    return {
        "unit": run.unit.id,
        "from": _read(run.directory.checkpoint, batch - 1),
        "to": _read(run.directory.checkpoint, batch),
        "queries": run.charge.names,
        "taken": [n for n, fate in run.layout.era.fates.items() if fate is Fate.TAKEN],
        "slots": [slot.carrier for slot in run.unit.key_slots],
        "words": gates.words,
        "gates": [parts for family in gates._families.values() for parts in family.parts],
    }


def _read(checkpoint: Path, batch: int) -> dict[str, int]:
    """Return up to where a batch reads."""
    file = checkpoint / "offsets" / str(batch)
    if batch < 0 or not file.exists():
        return {"tick": 0, "index": 0, "rows": 0}
    return dict(json.loads(file.read_text().splitlines()[HEADER]))


def _write(file: Path, entry: dict[str, Any]) -> None:
    line = json.dumps({"process": os.getpid(), **entry}) + "\n"
    with file.open("ab", buffering=0) as handle:
        handle.write(line.encode())
