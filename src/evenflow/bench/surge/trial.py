"""One method through one surge."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.surge import figures
from evenflow.bench.surge.flow import SOURCE, WEIGHTS, WINDOWS, answers_in, surge_spec
from evenflow.bench.surge.schedule import Surge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from evenflow.bench.surge.figures import Seen
    from evenflow.control.shell import Control
    from evenflow.spark.run import Run

METHODS = ("none", "limits", "uniform", "planned")
GATED = ("uniform", "planned")
_TICKS_PER_SECOND = 10
_MOST_TRIES = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """What is run."""

    method: str
    times: int
    """How many times the capacity arrives in the surge."""
    capacity: float
    """Tuples per second."""
    optimum: float
    lead_seconds: float = 60.0
    """From the beginning of the stream to that of the surge: starting, warming up, unloaded."""
    unloaded_seconds: float = 15.0
    """Of these, up to a deadline before the surge: ages are those without one."""
    surge_seconds: float = 60.0
    after_seconds: float = 20.0
    every: float = 1.0
    deadline: float = 5.0

    @property
    def rate(self) -> int:
        """Tuples per second before and after the surge: half of the capacity."""
        return max(1, round(self.capacity / 2))

    @property
    def source(self) -> dict[str, str]:
        """Options of the source."""
        options = {
            "rate": str(self.rate),
            "surge": str(2 * self.times),
            "surge_after": f"{self.lead_seconds} seconds",
            "surge_for": f"{self.surge_seconds} seconds",
        }
        if self.method == "limits":
            options["max_rows_per_batch"] = str(max(1, round(self.capacity * self.every)))
        return options

    def surge(self, first_tick: int) -> Surge:
        """Return the stream that begins with a tick."""
        begin = first_tick + round(self.lead_seconds * _TICKS_PER_SECOND)
        return Surge(
            rate=self.rate,
            times=2 * self.times,
            first_tick=first_tick,
            begin_tick=begin,
            end_tick=begin + round(self.surge_seconds * _TICKS_PER_SECOND),
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What a run left behind."""

    answers: Mapping[str, Sequence[Seen]]
    batches: Sequence[figures.GatedBatch]
    counts: Mapping[str, Mapping[str, Any]]
    """By query."""
    place: tuple[int, int]
    """Up to where the source was read: a tick, and an index in it."""


def measure(session: SparkSession, trial: Trial, costs: Any) -> dict[str, Any]:
    """Run a method through a surge and return its case.

    The flow of `none` is left running: its batch would take minutes.

    Args:
        session: Where to run.
        trial: What.
        costs: As calibration found them, for the control loop, as plain values.
    """
    from evenflow.spark.run import Run
    from evenflow.spark.state.directory import StateDirectory

    folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    try:
        sinks, state = folder / "out", folder / "state"
        spec = surge_spec(sinks, trial.source, every=trial.every, deadline=trial.deadline)
        run = Run(spec, session, state)
        control = _control(trial, state, costs)
        run.start(beside=control)
        begun = json.loads((StateDirectory(state).feed(SOURCE) / "begin.json").read_text())
        surge = trial.surge(begun["first_tick"])
        left = trial.after_seconds if control is not None else trial.deadline
        time.sleep(max(0.0, surge.end + left - time.time()))
        batches = _batches(run)
        found = _settled(run, control, trial, sinks, batches)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return case(trial, surge, found)


def _control(trial: Trial, state: Path, costs: Any) -> Control | None:
    from evenflow.bench.surge.uniform import UniformPlans
    from evenflow.control.plans import Plans
    from evenflow.control.shell import Control
    from evenflow.control.stored import Survey
    from evenflow.model.costs import costs_from_json

    if trial.method not in GATED:
        return None
    known = costs_from_json(costs)

    def survey(run: Run) -> Survey:
        cores = float(run.session.sparkContext.defaultParallelism)
        return Survey(costs=known, cores=cores)

    plans = UniformPlans() if trial.method == "uniform" else Plans()
    return Control(state, survey=survey, plans=plans)


def _batches(run: Run) -> list[figures.GatedBatch]:
    from evenflow.spark.unit.pace import batch_report

    (unit,) = run.runs
    reports = map(batch_report, unit.recent_progress())
    return [
        figures.GatedBatch(report.began, shut=bool(unit.history.of(report.id[1]).keep))
        for report in reports
    ]


def _settled(
    run: Run,
    control: Control | None,
    trial: Trial,
    sinks: Path,
    batches: Sequence[figures.GatedBatch],
) -> Found:
    """Return what is left when the flow has stopped; of `none`, between two of its batches.

    If those come too fast to look between two, they are short enough to wait for.
    """
    from evenflow.spark.unit.checkpoint import committed_batch

    (unit,) = run.runs
    checkpoint = unit.directory.checkpoint
    for _ in range(_MOST_TRIES if trial.method == "none" else 0):
        before = committed_batch(checkpoint)
        status, place = run.status(exact=True), _place(checkpoint)
        answers = answers_in(sinks)
        if committed_batch(checkpoint) == before:
            return Found(answers, batches, _counts(status), place)
    if control is not None:
        control.stop()
    run.pause_units()
    if control is not None:
        run.drain()
    status = run.stop()
    return Found(answers_in(sinks), batches, _counts(status), _place(checkpoint))


def _counts(status: Mapping[str, Any]) -> dict[str, Any]:
    return {name: query["counts"] for name, query in status["queries"].items()}


def _place(checkpoint: Path) -> tuple[int, int]:
    from evenflow.spark.unit.checkpoint import committed_offsets

    offset = json.loads(committed_offsets(checkpoint)[0])
    return int(offset["tick"]), int(offset["index"])


def case(trial: Trial, surge: Surge, found: Found) -> dict[str, Any]:
    """Return the case of the report."""
    begin, end = surge.begin, surge.end
    every_answer = [each for own in found.answers.values() for each in own]
    seen = figures.ages(every_answer, WINDOWS, begin, end)
    if trial.method not in GATED:
        seen = [(at, age) for at, age in seen if at <= end]
        for own in found.answers.values():
            seen += figures.missing_ages(own, WINDOWS, begin, end)
    # Answers of windows that closed just before would come out of the first batches of the surge.
    calm = begin - trial.deadline
    unloaded = figures.ages(every_answer, WINDOWS, calm - trial.unloaded_seconds, calm)
    reaction = figures.reaction(seen, begin, end, trial.every, trial.deadline)
    after = [] if reaction is None else [age for at, age in seen if at >= begin + reaction]
    value = figures.value(found.answers, WEIGHTS, surge, WINDOWS, trial.deadline)
    return {
        "method": trial.method,
        "surge": trial.times,
        "reaction_seconds": figures.rounded(reaction),
        "age_p50": figures.rounded(figures.high([age for _, age in seen], 0.5)),
        "age_p99_after_reaction": figures.rounded(figures.high(after, 0.99)),
        "age_p99_unloaded": figures.rounded(figures.high([age for _, age in unloaded], 0.99)),
        "value": figures.rounded(value),
        "optimum": figures.rounded(trial.optimum),
        "share_of_optimum": figures.rounded(value / trial.optimum if trial.optimum else None),
        "gates_open_after_intervals": figures.gates_open_after(found.batches, end, trial.every),
        "counts_exact": exact(surge, found),
    }


def exact(surge: Surge, found: Found) -> bool:
    """Whether all answers are right and all tuples are accounted for."""
    until, tuples = surge.before(*found.place), surge.read(*found.place)
    return all(
        figures.right_answers(answers, surge, WINDOWS, until)
        and figures.counts_add_up(found.counts[name], tuples, sum(each.count for each in answers))
        for name, answers in found.answers.items()
    )
