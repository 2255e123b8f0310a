"""The saturated run: how many tuples the flow can take, and what each branch truly costs.

The flow of the surge reads as many tuples per batch as it is told to, and there are always more.
Gates are all open, then all shut, then open for one query at a time: the differences are what its
branch costs, in the real stack with real sinks. The control loop has no part in it. Processors are
not asked: what counts is how long batches take.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.bench.surge.figures import TrueCosts
from evenflow.bench.surge.flow import QUERIES, SOURCE, surge_spec
from evenflow.bench.visible import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.model.costs import Costs
    from evenflow.spark.run import Run

_RATE = 1_000_000
"""More than any batch takes, so that a limit decides what it reads."""
_SPEED = 100
"""Event time goes by as at ten thousand tuples per second: batches close windows."""
_EVERY = 0.05
_MOST_SECONDS = 120.0
_SMALL_BATCH, _LARGE_BATCH = 10_000, 200_000
"""Tuples of a batch when all gates are shut."""
_BRANCH_SECONDS = 0.6
"""How long a batch takes, about, in which one gate is open."""
_FIXED_SECONDS = 0.3
"""What a batch takes without tuples, about."""
_SAMPLE_ROWS = 1_000
"""Of the calibration: fewer than usual, because these tuples are expensive."""
_FIRST_ROWS = 3_000
_MOST_ROWS = _LARGE_BATCH
"""No batch reads more, whatever it is told."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    warm: int = 4
    """Batches of full size that warm up."""
    batches: int = 4
    """That are measured at each setting of the gates."""
    every: float = 1.0
    """Seconds between batches of the flow whose capacity is asked for."""
    rounds: int = 3
    """How often calibration measures each query."""
    both: bool = True
    """Measure both queries of equal delay, not only the first."""


def saturated(session: SparkSession, folder: Path, effort: Effort) -> tuple[TrueCosts, Costs]:
    """Return the true costs, and those that calibration finds for the control loop."""
    from evenflow.spark.calibrate import calibrate
    from evenflow.spark.run import Run

    spec = surge_spec(
        folder / "out",
        {"rate": str(_RATE), "speed": str(_SPEED), "max_rows_per_batch": str(_MOST_ROWS)},
        every=_EVERY,
        deadline=5.0,
    )
    run = Run(spec, session, folder / "state")
    calibrated = calibrate(
        run.session, spec, folder / "sample", rows=_SAMPLE_ROWS, rounds=effort.rounds
    )
    run.set_limit(SOURCE, _FIRST_ROWS)
    with run.start():
        return _measured(run, effort, session.sparkContext.defaultParallelism), calibrated


def _measured(run: Run, effort: Effort, cores: int) -> TrueCosts:
    phase = _Phases(run, effort.batches)
    everything = dict.fromkeys((each.name for each in QUERIES), 0.0)
    phase.seconds({}, _FIRST_ROWS, skip=effort.warm)
    rows = round((effort.every - _FIXED_SECONDS) * cores * 1e6 / _total_us())
    full = phase.seconds({}, rows)
    # The large ones first: code that is new to the JVM must not count as cheap reading.
    large = phase.seconds(everything, _LARGE_BATCH, skip=3)
    small = phase.seconds(everything, _SMALL_BATCH)
    branches: dict[str, Timed] = {}
    known: dict[int, Timed] = {}
    for each in QUERIES:
        if each.microseconds in known and not effort.both:
            branches[each.name] = known[each.microseconds]
            continue
        most = round(_BRANCH_SECONDS * cores * 1e6 / each.microseconds)
        gates = {name: 0.0 for name in everything if name != each.name}
        branches[each.name] = known[each.microseconds] = most, phase.seconds(gates, most)
    return true_costs((rows, full), (_SMALL_BATCH, small), (_LARGE_BATCH, large), branches, effort)


Timed = tuple[int, float]
"""Tuples of a batch, and how long it takes."""


def true_costs(
    full: Timed, small: Timed, large: Timed, branches: Mapping[str, Timed], effort: Effort
) -> TrueCosts:
    """Return costs out of batches: all gates open, all shut twice, and open for one query each.

    The capacity is the rate at which batches take as long as the time between them.
    """
    reading = max(0.0, (large[1] - small[1]) / (large[0] - small[0]))
    fixed = max(0.0, small[1] - reading * small[0])
    per_tuple = (full[1] - fixed) / full[0]
    return TrueCosts(
        capacity=(effort.every - fixed) / per_tuple / effort.every,
        fixed=fixed,
        reading=reading,
        own={
            name: max(0.0, (seconds - fixed) / rows - reading)
            for name, (rows, seconds) in branches.items()
        },
    )


def _total_us() -> int:
    return sum(each.microseconds for each in QUERIES)


class _Phases:
    """Sets gates and the size of batches, and times batches that have both."""

    def __init__(self, run: Run, batches: int) -> None:
        self._run = run
        (self._unit,) = run.runs
        self._batches = batches

    def seconds(self, gates: Mapping[str, float], rows: int, skip: int = 1) -> float:
        """Return how long batches of some rows take with some gates."""
        self._run.set_gates(gates)
        self._run.set_limit(SOURCE, rows)
        wanted = set(gates)
        known = max((int(p["batchId"]) for p in self._unit.recent_progress()), default=-1)

        def timed() -> list[float]:
            return [
                p["durationMs"]["triggerExecution"] / 1000
                for p in self._unit.recent_progress()
                if int(p["batchId"]) > known and self._is(p, wanted, rows)
            ]

        needed = skip + self._batches
        wait_until(lambda: len(timed()) >= needed, _MOST_SECONDS, f"batches of {rows} rows")
        return statistics.median(timed()[skip:needed])

    def _is(self, progress: Any, wanted: set[str], rows: int) -> bool:
        shut = self._unit.history.of(int(progress["batchId"])).keep
        names = {self._unit.charge.names[part] for part in shut}
        return names == wanted and int(progress["numInputRows"]) == rows
