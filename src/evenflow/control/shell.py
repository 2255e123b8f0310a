"""The loop beside a run: a thread that looks, asks the core, performs and records.

It decides nothing. A decision that cannot be recorded is not performed. If the loop dies the flow
goes on: gates that it had shut are opened, because nobody would open them again, and `status` says
what happened.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

from evenflow.control.config import LoopConfig
from evenflow.control.decision import Act, Decision, Outcome, Record, SetGates, SetLimit
from evenflow.control.journal import Journal
from evenflow.control.loop import ControlLoop
from evenflow.control.measured import RateTrace, keep_network, measured_network
from evenflow.control.mode import Mode
from evenflow.control.report import loop_report
from evenflow.control.stored import Survey, keep_corrections, read_corrections
from evenflow.control.watch import look, selectivities
from evenflow.errors import EvenflowError, InternalError
from evenflow.model.costs import Costs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from evenflow.control.decision import Effect
    from evenflow.control.facts import FlowFacts
    from evenflow.control.plans import Plans
    from evenflow.control.watch import Watched
    from evenflow.spark.run import Run

LOOKS_PER_BATCH = 4
LONGEST_WAIT, SHORTEST_WAIT = 0.25, 0.05
"""Seconds between two looks."""
MOST_FAILURES = 40
"""Looks that may fail in a row before the loop gives up: units that are being changed cannot
always be looked at."""
MOST_UNWRITTEN = 100
"""Records that wait for room on the disk; then the oldest are lost."""
KEEP_SECONDS = 60.0
"""How often what was learned and measured is kept, at most."""
_log = logging.getLogger(__name__)


class Control:
    """The control loop of one run: prepared before its units start, stopped before they do."""

    def __init__(
        self,
        state: Path,
        *,
        mode: Mode = Mode.ON,
        config: LoopConfig | None = None,
        survey: Callable[[Run], Survey] | None = None,
        plans: Plans | None = None,
        clock: Callable[[], float] = time.time,
        look_at: Callable[[Watched, float], FlowFacts] = look,
    ) -> None:
        """Prepare nothing yet.

        Args:
            state: The flow's state directory.
            mode: What the loop may do.
            config: Settings; the number of cores and the dry run are filled in.
            survey: Finds what tuples cost and on how many cores, before anything runs.
            plans: Chooses gates; the best ones if not given.
            clock: Wall-clock seconds.
            look_at: Looks at a run.
        """
        self._mode = mode
        self._state = state
        self._clock = clock
        self._look_at = look_at
        self._survey = survey
        self._surveys = False
        """The survey is being made."""
        self._plans = plans
        self._config = replace(config or LoopConfig(), dry_run=mode is Mode.DRY_RUN)
        self._surveyed = Survey(costs=Costs(), cores=self._config.cores)
        self._run: Watched | None = None
        self._core: ControlLoop | None = None
        self._journal: Journal | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._limited: set[str] = set()
        """Sources that a limit was asked for."""
        self._unwritten: deque[Decision | Outcome] = deque(maxlen=MOST_UNWRITTEN)
        """Records that there was no room for yet, the oldest first."""
        self._unrecorded: str | None = None
        """Why decisions cannot be recorded, if they cannot."""
        self._trace = RateTrace()
        self._kept_at = clock()
        self.died: str | None = None
        """Why the loop has ended, if it has by itself."""

    def prepare(self, run: Run) -> None:
        """Find what tuples cost, before anything runs that calibration could disturb.

        What an earlier process left shut is opened, unless the loop looks after it.
        """
        self._run = run
        run.also_told["control"] = self.report
        if self._mode is not Mode.ON and self._is_shut():
            self._open_gates(f"shedding is {self._mode.value}, and gates were left shut")
        if self._mode is Mode.OFF:
            return
        if self._survey is not None:
            self._surveys = True
            self._surveyed = self._survey(run)
            self._surveys = False
            self._config = replace(self._config, cores=self._surveyed.cores)
        self._journal = Journal(self._state)
        self._core = ControlLoop(
            self._config,
            self._surveyed.costs,
            self._journal.last_number(),
            plans=self._plans,
            kept=read_corrections(self._state, self._surveyed),
        )

    def start(self) -> None:
        """Begin to look."""
        if self._mode is Mode.OFF:
            return
        self._thread = threading.Thread(target=self._work, name="evenflow-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End. Gates stay as they are: a flow that stops in a surge goes on with them."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._lift_limits()
            if self.died is None:
                self._write_unwritten()
                self._keep()

    def report(self) -> dict[str, Any]:
        """Return how the loop stands, for the status object."""
        if self._surveys:
            why = "what tuples cost is measured, which may take a minute"
            return {"shed": self._mode.value, "state": "preparing", "reason": why}
        if self._core is None:
            return {"shed": self._mode.value, "state": "off"}
        told = loop_report(self._core.snapshot(), self._surveyed.costs, self._clock())
        told["unrecorded"] = self._unrecorded
        if self.died is not None:
            told |= {"state": "dead", "reason": self.died}
        return {"shed": self._mode.value, **told}

    def _work(self) -> None:
        try:
            while not self._stopping.wait(self._wait_seconds()):
                self._step()
        except Exception as exc:  # noqa: BLE001  # the top of the shell
            # Whatever happened here must not reach the flow.
            _log.exception("the control loop has ended")
            self._die(f"{type(exc).__name__}: {exc}"[:300])

    @property
    def _known_run(self) -> Watched:
        if self._run is None:
            raise InternalError("the control loop was not prepared")
        return self._run

    def _is_shut(self) -> bool:
        return any(kept < 1.0 for kept in self._known_run.gates.values())

    def _step(self) -> None:
        assert self._core is not None
        now = self._clock()
        if self._unwritten:
            self._write_unwritten()
        try:
            facts = self._look_at(self._known_run, now)
            self._failures = 0
        except Exception:
            # Units stop, start and are replaced while we look at them.
            self._failures += 1
            if self._failures > MOST_FAILURES:
                raise
            _log.debug("a look failed", exc_info=True)
            return
        self._perform(self._core.observe(facts, self._clock()))
        view = self._core.snapshot().view
        if view is not None and view.at == facts.at:
            self._trace.see(view)
            if now - self._kept_at >= KEEP_SECONDS:
                self._keep()

    def _keep(self) -> None:
        """Keep what was learned, for the next process, and the flow as it was measured."""
        view = None if self._core is None else self._core.snapshot().view
        if self._core is None or view is None:
            return
        self._kept_at = self._clock()
        try:
            if kept := self._core.kept():
                keep_corrections(self._state, self._surveyed, kept)
            made = measured_network(view, self._trace, selectivities(self._known_run))
            if made is not None:
                keep_network(self._state, made)
        except (EvenflowError, OSError):
            # It is nothing that a flow needs to go on.
            _log.warning("what was learned could not be kept", exc_info=True)

    def _perform(self, effects: list[Effect]) -> None:
        assert self._core is not None
        for effect in effects:
            _log.debug("%s", effect)
            match effect:
                case Record(entry=entry):
                    self._unwritten.append(entry)
                    self._write_unwritten()
                case SetGates(number=number, keep=keep):
                    error = self._set_gates(keep)
                    self._perform(self._core.applied(number, self._clock(), error))
                case SetLimit(source=source, rows=rows):
                    self._set_limit(source, rows)
                case _:
                    assert_never(effect)

    def _write_unwritten(self) -> None:
        """Write what there is to record, in order, as far as there is room."""
        assert self._journal is not None
        try:
            while self._unwritten:
                self._journal.write(self._unwritten[0].as_json())
                self._unwritten.popleft()
            self._unrecorded = None
        except OSError as exc:
            if self._unrecorded is None:
                _log.warning("decisions cannot be recorded", exc_info=True)
            self._unrecorded = f"decisions cannot be recorded: {exc}"[:300]

    def _set_gates(self, keep: Mapping[str, float]) -> str | None:
        """Put the gates of the decision recorded last in force. Returns why not, if it cannot."""
        if self._unwritten:
            # Nobody could see why tuples are missing. The core goes on, and decides again.
            return self._unrecorded
        try:
            self._known_run.set_gates(keep)
        except EvenflowError as exc:
            return str(exc)[:300]
        return None

    def _set_limit(self, source: str, rows: int) -> None:
        assert self._core is not None
        self._limited.add(source)
        try:
            done = self._known_run.set_limit(source, rows)
        except OSError:
            # What a batch may read stays as it was.
            _log.warning("the limit of %s could not be set", source, exc_info=True)
            return
        self._core.limited(source, done=done)

    def _wait_seconds(self) -> float:
        fastest = min((each.unit.every for each in self._known_run.runs), default=1.0)
        return max(SHORTEST_WAIT, min(LONGEST_WAIT, fastest / LOOKS_PER_BATCH))

    def _lift_limits(self) -> None:
        """Let batches read all there is: nobody adapts the limits any more."""
        for source in self._limited:
            self._known_run.set_limit(source, None)

    def _open_gates(self, why: str) -> None:
        """Open all gates without asking the core, and record it if that can be done."""
        before = dict(self._known_run.gates)
        self._known_run.set_gates({})
        try:
            self._record_opening(before, why)
        except (EvenflowError, OSError):
            _log.warning("it could not be recorded that all gates were opened", exc_info=True)

    def _record_opening(self, before: Mapping[str, float], why: str) -> None:
        journal, now = self._journal or Journal(self._state), self._clock()
        number = journal.last_number() + 1
        decision = Decision(
            number=number,
            at=now,
            act=Act.OPEN,
            keep={},
            before=before,
            facts={},
            why=why,
            expected={},
        )
        journal.write(decision.as_json())
        journal.write(Outcome(number=number, at=now, applied=True).as_json())

    def _die(self, why: str) -> None:
        """End, and say so when all is done that is left to do."""
        told = why
        try:
            if self._mode is Mode.ON and self._is_shut():
                self._open_gates(f"the control loop has ended: {why}")
                told = f"{why}; all gates were opened"
            self._lift_limits()
        except Exception:  # noqa: BLE001  # the top of the shell
            _log.exception("what the loop has set could not all be undone")
            if self._mode is Mode.ON and self._is_shut():
                told = f"{why}; gates stay as they are"
        self.died = told
