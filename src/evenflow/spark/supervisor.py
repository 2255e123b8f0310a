"""The one thread that changes a running flow: requests, failures and their retries, one by one.

Everybody else asks and waits. What is asked while a change is made is made together, in the next,
which is not before every unit has finished a batch: however often somebody asks, the queries that
run get on.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenflow.errors import ConfigError, EvenflowError, RunError
from evenflow.schedule.request import Quarantine, QueryState, Resume
from evenflow.spark.unit.batch import WRITERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evenflow.schedule.life import Outcome
    from evenflow.schedule.request import Request
    from evenflow.spark.unit.unit_run import UnitRun
    from evenflow.spark.units import Units

_INTERVAL = 0.05
_SETTLING_SECONDS = 60.0
"""How long a change waits at most for units that have just been started."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_MOST_TIMES = 4
"""After so many failures that are not its source's a unit is held."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Ticket:
    """Requests of one caller, who waits for what becomes of them."""

    requests: tuple[Request, ...]
    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


@dataclass(slots=True)
class Retry:
    """When a unit that failed is started again."""

    reason: str
    at: float | None
    """None once it was."""
    times: int
    """How often it has failed in a row."""


class Supervisor:
    """Looks after the units of a run."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self.done = False
        """All sources were finite, and are read to their ends."""
        self.still = threading.RLock()
        """Held while units are changed."""
        self.retries: dict[str, Retry] = {}
        """Units that failed and will be started again."""
        self.held: dict[str, str] = {}
        """Units that fail for good, and why. They keep their state; their input waits."""
        self.ended = threading.Event()
        """No unit runs, or will run, any more."""
        self.paused = False
        """All units stand still, and their input waits."""
        self._waiting: list[_Ticket] = []
        self._making: list[_Ticket] = []
        """Those of the change that is being made."""
        self._changed_at = float("-inf")
        self._asked = threading.Condition()
        self._stopping = False
        self._retry = True
        self._failure: RunError | None = None
        self._thread: threading.Thread | None = None

    # For the run.

    def start(self, *, retry: bool) -> None:
        """Begin to look after the units, which have been started.

        Args:
            retry: Start a unit that failed again; otherwise its failure is the run's.
        """
        self._retry = retry
        self._stopping = False
        self.ended.clear()
        self._thread = threading.Thread(target=self._work, name="evenflow-supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; requests that were not made are refused."""
        with self._asked:
            self._stopping = True
            self._asked.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def raise_failure(self) -> None:
        """Raise what ended the run, if something did.

        Raises:
            RunError: A unit failed for good.
        """
        if self._failure is not None:
            raise self._failure

    def ask(self, *requests: Request) -> None:
        """Have requests made, and wait until they are.

        Raises:
            ConfigError: One of them was refused. The others were made.
            RunError: The flow is not running.
        """
        ticket = _Ticket(requests)
        with self._asked:
            self._refuse_if_not_running()
            self._waiting.append(ticket)
            self._asked.notify_all()
        ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error

    def pause(self) -> None:
        """Stop all units after their running batches; what comes in waits for them.

        Raises:
            RunError: The flow is not running.
        """
        self._refuse_if_not_running()
        with self.still:
            if not self.paused:
                self._units.stop()
                self.paused = True

    def resume(self) -> None:
        """Start the units again.

        Raises:
            RunError: The flow is not running.
        """
        self._refuse_if_not_running()
        with self.still:
            if self.paused:
                self._units.start(available_now=not self._retry, without=self.held)
                self.paused = False
                for retry in self.retries.values():
                    retry.at = None

    def _refuse_if_not_running(self) -> None:
        if self._is_batch():
            raise RunError("a flow cannot be changed from inside one of its batches")
        if self._thread is None or self._stopping:
            raise RunError("the flow is not running")

    def _is_batch(self) -> bool:
        """Whether the caller is a batch, for which a change would wait for ever."""
        current = threading.current_thread()
        if current.name.startswith(WRITERS):
            return True
        return any(run.batch_thread == current.ident for run in self._units.runs.values())

    def settle(self) -> None:
        """Take failing queries out of service. The units have stopped."""
        for unit, run in self._units.runs.items():
            if run.failure is not None and run.failure.in_function:
                self._hold(unit, run.failure.reason)
        failing = self._failing()
        if failing:
            self._units.change(failing)

    # The thread.

    def _work(self) -> None:
        while True:
            asked = bool(self._waiting) and self._may_change()
            with self._asked:
                if not asked and not self._stopping:
                    self._asked.wait(_INTERVAL)
                if self._stopping:
                    break
            try:
                self._tend()
            except EvenflowError as exc:
                self._failure = exc if isinstance(exc, RunError) else RunError(str(exc))
                break
            except Exception as exc:  # noqa: BLE001  # the top of a thread; `wait` tells
                _log.exception("the supervisor failed")
                self._failure = RunError(f"{type(exc).__name__}: {exc}"[:300])
                break
        with self._asked:
            self._stopping = True
            left, self._waiting = self._waiting, []
        untold = [ticket for ticket in self._making if not ticket.done.is_set()]
        for ticket in (*untold, *left):
            ended = RunError("the flow was stopped before the change was made")
            ticket.error = self._failure or ended
            ticket.done.set()
        if self._failure is not None:
            self.ended.set()

    def _tend(self) -> None:
        with self.still:
            self._make_changes()
            if self.paused:
                return
            for unit, run in list(self._units.runs.items()):
                self._look_at(unit, run)
            if self._retry and not self.done and self._units.is_dry():
                self.done = True
                self._units.finish()
            if not self.retries and not any(run.active for run in self._units.runs.values()):
                self.ended.set()

    def _may_change(self) -> bool:
        """Whether all units have got on since the change before, or it was long ago."""
        if time.monotonic() > self._changed_at + _SETTLING_SECONDS:
            return True
        return all(run.has_settled for run in self._units.runs.values())

    def _make_changes(self) -> None:
        if not self._may_change():
            return
        with self._asked:
            tickets, self._waiting = self._waiting, []
        self._making = tickets
        failing = self._failing()
        if not tickets and not failing:
            return
        requests = [*failing, *(request for ticket in tickets for request in ticket.requests)]
        self._release(requests)
        try:
            outcome = self._change(requests)
        except EvenflowError as exc:
            if len(tickets) == 1 and not failing:
                tickets[0].error = exc
                tickets[0].done.set()
                return
            # One of several cannot be made: one after another, to tell which.
            self._one_by_one(tickets, failing)
            return
        _answer(tickets, outcome)

    def _change(self, requests: Sequence[Request]) -> Outcome:
        """Have the units changed; those that were built anew have not failed yet."""
        before = dict(self._units.runs)
        outcome = self._units.change(requests)
        self._changed_at = time.monotonic()
        for unit in (*self.held, *self.retries):
            if self._units.runs.get(unit) is not before.get(unit):
                self.held.pop(unit, None)
                self.retries.pop(unit, None)
        return outcome

    def _one_by_one(self, tickets: list[_Ticket], failing: list[Request]) -> None:
        if failing:
            self._change(failing)
        for ticket in tickets:
            try:
                outcome = self._change(ticket.requests)
            except EvenflowError as exc:
                ticket.error = exc
                ticket.done.set()
            else:
                _answer([ticket], outcome)

    def _failing(self) -> list[Request]:
        """Return requests to take queries out of service whose answers cannot be delivered."""
        queries = self._units.life.queries
        return [
            Quarantine(name=name, reason=reason)
            for run in self._units.runs.values()
            for name, reason in run.failing.items()
            if name in queries and queries[name].state is QueryState.RUNNING
        ]

    def _look_at(self, unit: str, run: UnitRun) -> None:
        """Start a unit again that has failed, after a pause that grows, or hold it."""
        known = self.retries.get(unit)
        if known is not None and known.at is not None:
            if known.at <= time.monotonic():
                known.at = None
                self._units.restart(unit)
            return
        failure = None if unit in self.held else run.failure
        if failure is None:
            if known is not None and run.has_finished_batch:
                del self.retries[unit]
            return
        times = 1 if known is None else known.times + 1
        if failure.in_function or (times > _MOST_TIMES and not failure.in_source):
            self._hold(unit, failure.reason)
            return
        if not self._retry:
            run.raise_failure()
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (times - 1))
        self.retries[unit] = Retry(failure.reason, time.monotonic() + pause, times)
        _log.warning("unit %s failed, next try in %g s: %s", unit, pause, failure.reason)

    def _hold(self, unit: str, reason: str) -> None:
        self.retries.pop(unit, None)
        self.held[unit] = reason
        _log.warning("unit %s is held: %s", unit, reason)

    def _release(self, requests: Iterable[Request]) -> None:
        """Start held units again of which a query is resumed."""
        for request in requests:
            known = self._units.life.queries.get(request.name)
            if not isinstance(request, Resume) or known is None:
                continue
            for unit in [u for u in self.held if self._units.runs[u].carries(known.numbers)]:
                del self.held[unit]
                self._units.restart(unit)


def _answer(tickets: list[_Ticket], outcome: Outcome) -> None:
    refused = {id(refusal.request): refusal.reason for refusal in outcome.refusals}
    for ticket in tickets:
        reasons = [refused[id(r)] for r in ticket.requests if id(r) in refused]
        if reasons:
            ticket.error = ConfigError("; ".join(reasons))
        ticket.done.set()
