"""The second act: meters that surge to several times what fits, under the control loop.

Costs are calibrated as for any flow, only on a smaller sample. They say how many rows per second
this machine can do, so that the surge is one on any machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evenflow.cli.demo.report import Played
from evenflow.cli.demo.script import Rates, moment_of
from evenflow.cli.demo.sharing import Running
from evenflow.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.cli.demo.live import View
    from evenflow.cli.demo.script import Moment, Script
    from evenflow.cli.status import Status
    from evenflow.control.shell import Control
    from evenflow.flow import Flow
    from evenflow.model.costs import Costs
    from evenflow.spark.run import Run

FLOW = Path(__file__).with_name("surge.yaml")
SOURCE = "readings"
SAMPLE_ROWS = 600
"""Tuples for calibration: enough for queries that cost tens of microseconds each."""
ROUNDS = 2
"""How often each query is measured: somebody waits."""
CALM = 0.2
"""Share of what costs alone say fits that the meters send when they are calm. It is far from the
capacity on purpose: batches also take time without rows, state and sinks cost too, and the first
batches run code that is not compiled yet. Together they can halve what fits."""
TIMES = 10
"""How many times that they send in the surge: about four times what fits."""
_RECORDED_RATE = 100_000
"""Rows per second for the sample, so that it is there at once."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What this machine can do."""

    costs: Costs
    cores: float

    @property
    def rows_per_second(self) -> float:
        """What would fit if rows were everything that batches take time for."""
        queries = sum(cost.row + cost.own for cost in self.costs.queries.values())
        return self.cores / (self.costs.of_source(SOURCE) + queries)

    def rates(self) -> Rates:
        """Return what the meters should send."""
        return Rates(usual=max(100, round(CALM * self.rows_per_second)), times=TIMES)


def write_flow(folder: Path, name: str, options: Mapping[str, Any]) -> Path:
    """Write the flow with options of its source, and return its file."""
    data = yaml.safe_load(FLOW.read_text(encoding="utf-8"))
    data["sources"][SOURCE]["options"].update(options)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return file


def survey(session: Any, folder: Path, on_step: Callable[[str], None]) -> Machine:
    """Find out what tuples of the queries cost here."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.spark.calibrate import calibrate
    from evenflow.spark.session import own_session

    flow = read_flow(write_flow(folder, "sample", {"rate": _RECORDED_RATE}))
    costs = calibrate(
        own_session(session),
        flow.spec(),
        folder / "sample",
        rows=SAMPLE_ROWS,
        rounds=ROUNDS,
        on_step=on_step,
    )
    return Machine(costs=costs, cores=float(session.sparkContext.defaultParallelism))


def surge_flow(folder: Path, script: Script, rates: Rates, cores: float) -> Flow:
    """Return the flow whose meters surge by a script."""
    from evenflow.cli.flow_file import read_flow

    options = {
        "rate": rates.usual,
        "surge": rates.times,
        "surge_after": f"{script.calm} seconds",
        "surge_for": f"{script.surge} seconds",
        # Few tuples are much work here: all cores share it.
        "partitions": int(cores),
    }
    return read_flow(write_flow(folder, "surge", options))


def play(
    session: Any, flow: Flow, machine: Machine, script: Script, rates: Rates, view: View
) -> Played:
    """Run the flow through its surge, and tell a view how it stands twice per second."""
    from evenflow.control.journal import read_decisions
    from evenflow.control.shell import Control
    from evenflow.control.stored import Survey
    from evenflow.spark.run import run_flow

    known = Survey(costs=machine.costs, cores=machine.cores)
    beside = _Surging(Control(flow.state, survey=lambda _: known))
    moments: list[Moment] = []
    told = 0

    def on_progress(status: Status) -> None:
        nonlocal told
        moments.append(moment_of(status, script, beside.began, time.time()))
        for decision in read_decisions(flow.state)[told:]:
            view.decision(decision)
            told += 1
        view.moment(moments[-1])

    spec = flow.spec()
    status = run_flow(
        spec,
        state=flow.state,
        session=session,
        seconds=script.seconds,
        on_progress=on_progress,
        beside=beside,
    )
    return Played(
        queries=spec.queries,
        costs=machine.costs,
        script=script,
        rates=rates,
        began=beside.began,
        moments=moments,
        decisions=read_decisions(flow.state),
        status=status,
        ended_early=beside.ended_early(script.seconds),
    )


class _Surging(Running):
    """Beside the run: the control loop, and when the first tuple came."""

    def __init__(self, control: Control) -> None:
        super().__init__()
        self._control = control
        self._run: Run | None = None
        self.began = 0.0

    def prepare(self, run: Run) -> None:
        """Prepare the loop."""
        self._run = run
        self._control.prepare(run)

    def start(self) -> None:
        """Start the loop. The clock of the meters has begun."""
        began = None if self._run is None else self._run.clock(SOURCE)
        if began is None:
            raise InternalError(f"source {SOURCE} has no clock")
        self.began = began
        super().start()
        self._control.start()

    def stop(self) -> None:
        """Stop it."""
        super().stop()
        self._control.stop()
