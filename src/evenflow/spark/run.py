"""Running a flow: cut into units, started together, watched, stopped, drained, accounted for."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from evenflow.errors import ChangedQueryError, ConfigError, StateError
from evenflow.schedule.cut import cut
from evenflow.spark.session import make_session, own_session
from evenflow.spark.sink.sinks import MemorySink, open_sinks
from evenflow.spark.source.sources import Sources
from evenflow.spark.state_dir import (
    StateDirectory,
    check_unchanged,
    describe,
    new_state_id,
)
from evenflow.spark.tally import Counts
from evenflow.spark.unit_run import Surroundings, UnitRun

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.model.flow import FlowSpec
    from evenflow.model.operator import Apply

OnProgress = Callable[[dict[str, Any]], None]
_DRAIN_ROUNDS = 3


class Run:
    """A flow that was started. Stop it, or use it as a context manager."""

    def __init__(
        self,
        spec: FlowSpec,
        session: SparkSession | None,
        state: Path,
        *,
        master: str | None = None,
        replace: bool = False,
    ) -> None:
        """Claim the state directory and build all units; nothing runs yet.

        Raises:
            StateError: Another process uses the directory, or its state is laid out otherwise.
            ChangedQueryError: The state was made by other queries and `replace` is not set.
        """
        self.spec = spec
        self._directory = StateDirectory(state)
        self._directory.acquire()
        self._made_session: SparkSession | None = None
        try:
            self._directory.forget_status()
            self.units = cut(spec.queries)
            known = self._known(replace=replace)
            self._state_id = known["id"] if known else new_state_id()
            if session is None:
                session = self._made_session = make_session(f"evenflow {spec.name}", master)
            self.session = own_session(session)
            self._sources = Sources(self.session, spec, self._directory)
            self._sinks = {q.name: open_sinks(q, self._state_id) for q in spec.queries}
            manifest = describe(spec.name, self._state_id, spec.queries, self.units)
            self._directory.write_manifest(manifest)
            around = Surroundings(
                self.session,
                self._sources.open,
                self._sources.open_table,
                self._applied,
                self._sinks,
            )
            self.runs = [UnitRun(u, self._directory.unit(u.id), around) for u in self.units]
        except BaseException:
            self._close()
            raise
        self._started = time.time()

    def _known(self, *, replace: bool) -> dict[str, Any] | None:
        known = self._directory.read_manifest()
        if known is None:
            return None
        try:
            check_unchanged(known, self.spec.queries, self.units)
        except (ChangedQueryError, StateError):
            if not replace:
                raise
            self._directory.clear()
            return None
        return known

    def _applied(self, operator: Apply) -> Callable[[DataFrame], DataFrame]:
        return self.spec.functions[operator.hash]

    # Life.

    def start(self, *, available_now: bool = False) -> Run:
        """Start all units."""
        try:
            self._sources.start(available_now=available_now)
            for each in self.runs:
                each.start(available_now=available_now)
        except BaseException:
            with suppress(Exception):
                self.pause_units()
            self._close()
            raise
        return self

    def wait(
        self,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        interval: float = 0.5,
        until: threading.Event | None = None,
    ) -> None:
        """Wait until all units have ended, for a time, or until something happens.

        Raises:
            RunError: A unit failed.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        shown = 0.0
        while any(each.active for each in self.runs):
            now = time.monotonic()
            if (deadline is not None and now >= deadline) or (until and until.is_set()):
                return
            if on_progress is not None and now - shown >= interval:
                on_progress(self.status())
                shown = now
            self._sources.raise_failure()
            for each in self.runs:
                each.raise_failure()
            time.sleep(0.02)
        for each in self.runs:
            each.raise_failure()

    def pause_units(self) -> None:
        """Stop all units after their running batches; they can be started again."""
        self._sources.stop()
        for each in self.runs:
            each.stop()

    def drain(self) -> None:
        """Close and answer all open windows. The units must have stopped."""
        for _ in range(_DRAIN_ROUNDS):
            left = [each for each in self.runs if each.pulse_to_end()]
            if not left:
                return
            for each in left:
                each.start(available_now=True)
            while any(each.active for each in left):
                time.sleep(0.02)
            for each in left:
                each.raise_failure()

    def stop(self) -> dict[str, Any]:
        """Stop everything and return the final, exact status.

        Raises:
            RunError: A unit had failed. The status is kept and names the reason.
        """
        try:
            self.pause_units()
            status = self.status(exact=True, running=False)
            self._directory.write_json("status.json", status)
            for each in self.runs:
                each.raise_failure()
            return status
        finally:
            self._close()

    def _close(self) -> None:
        self._directory.release()
        if self._made_session is not None:
            self._made_session.stop()
            self._made_session = None

    def __enter__(self) -> Self:
        """Return the run itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        if self._directory.held:
            self.stop()

    # Asking.

    def answers(self, query: str) -> pa.Table:
        """Return all answers of a query with a memory sink, as a pyarrow Table.

        Raises:
            ConfigError: It has none.
        """
        for sink in self._sinks.get(query, ()):
            if isinstance(sink, MemorySink):
                return sink.table()
        raise ConfigError(f"query {query} has no memory sink")

    def status(self, *, exact: bool = False, running: bool = True) -> dict[str, Any]:
        """Return the object of `evenflow status --json`."""
        counts: dict[str, Counts] = {}
        rates: dict[str, float] = {}
        answered: dict[str, tuple[int, int, float | None]] = {}
        reasons: dict[str, str | None] = {}
        units = []
        for each in self.runs:
            rate = each.progress_rate()
            units.append(_unit_status(each, rate))
            failure = each.failure
            for name in each.unit.queries:
                reasons[name] = reasons.get(name) or failure
            for name, one in each.counts(exact=exact).items():
                counts.setdefault(name, Counts()).add(one)
                rates[name] = max(rates.get(name, 0.0), rate)
            for name, progress in list(each.progress.items()):
                had = answered.get(name, (0, 0, None))
                newest = max(filter(None, (had[2], progress.last_answer_at)), default=None)
                answered[name] = (
                    had[0] + progress.answers,
                    had[1] + progress.answers_rejected,
                    newest,
                )
        now = time.time()
        queries = {}
        for query in self.spec.queries:
            answers, rejected, at = answered.get(query.name, (0, 0, None))
            queries[query.name] = {
                "state": "running" if running else "stopped",
                "reason": reasons.get(query.name),
                "rows_per_second": round(rates.get(query.name, 0.0), 1),
                "age_seconds": None if at is None else round(now - at, 3),
                "deadline_seconds": query.deadline,
                "share_kept": 1.0,
                "answers": answers,
                "answers_rejected": rejected,
                "counts": counts.get(query.name, Counts()).as_json(),
            }
        return {
            "flow": self.spec.name,
            "running": running,
            "seconds": round(now - self._started, 3),
            "units": units,
            "queries": queries,
            "sources": {
                s.name: {"read": sum(s.name in u.sources for u in self.units)}
                for s in self.spec.sources()
            },
        }


def _unit_status(run: UnitRun, rate: float) -> dict[str, Any]:
    unit = run.unit
    return {
        "id": unit.id,
        "kind": unit.kind.value,
        "sources": list(unit.sources),
        "queries": list(unit.queries),
        "families": len(unit.families),
        "slots": len(unit.slots),
        "rows_per_second": round(rate, 1),
    }


@contextmanager
def _interrupt() -> Iterator[threading.Event]:
    """Yield what the first Ctrl-C sets, instead of ending a call to Spark in the middle."""
    happened = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield happened
        return

    def note(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        happened.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield happened
    finally:
        signal.signal(signal.SIGINT, before)


def run_flow(  # noqa: PLR0913  # the options of the command
    spec: FlowSpec,
    *,
    state: Path,
    session: SparkSession | None = None,
    available_now: bool = False,
    drain: bool = False,
    seconds: float | None = None,
    master: str | None = None,
    replace: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Run a flow to its end, for a time, or until interrupted; return its final status.

    With `available_now` it ends when all that is there has been read. An interrupt stops it after
    the running batch. With `drain` open windows are closed and answered before it ends.
    """
    run = Run(spec, session, state, master=master, replace=replace)
    try:
        run.start(available_now=available_now)
        with suppress(KeyboardInterrupt), _interrupt() as interrupted:
            run.wait(seconds=seconds, on_progress=on_progress, until=interrupted)
        run.pause_units()
        if drain:
            run.drain()
    except BaseException:
        with suppress(Exception):
            run.stop()
        raise
    return run.stop()
