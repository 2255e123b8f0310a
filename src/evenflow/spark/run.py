"""Running a flow: started, changed while it runs, watched, stopped, drained, accounted for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from evenflow.errors import ConfigError
from evenflow.schedule.life import Life
from evenflow.schedule.request import (
    Keep,
    Origin,
    Pause,
    Request,
    Resume,
    Subscribe,
    Unsubscribe,
)
from evenflow.schedule.restart import requests_at_start
from evenflow.spark.answering import answer
from evenflow.spark.compile.gates import GatePlan
from evenflow.spark.control_socket import ControlSocket
from evenflow.spark.definitions import Definitions
from evenflow.spark.interrupt import put_off_interrupt
from evenflow.spark.live_status import make_status
from evenflow.spark.session import make_session, own_session
from evenflow.spark.sink.cursor import MOST_ANSWERS, Cursor
from evenflow.spark.sink.sinks import MemorySink
from evenflow.spark.source.sources import Sources
from evenflow.spark.state.directory import StateDirectory, new_state_id
from evenflow.spark.state.manifest import Manifest, read_manifest
from evenflow.spark.state.sealed import write_json
from evenflow.spark.supervisor import Supervisor
from evenflow.spark.unit.checkpoint import has_begun
from evenflow.spark.unit.unit_run import Surroundings
from evenflow.spark.units import Units

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from evenflow.graph.graph import QueryOptions
    from evenflow.model.flow import FlowSpec
    from evenflow.model.query import Query, Sink
    from evenflow.spark.beside import Beside
    from evenflow.spark.unit.unit_run import UnitRun

OnProgress = Callable[[dict[str, Any]], None]

_DRAIN_ROUNDS = 3


class Run:
    """A flow that was started. Stop it, or use it as a context manager.

    Its methods may be called from any thread.
    """

    def __init__(
        self,
        spec: FlowSpec,
        session: SparkSession | None,
        state: Path,
        *,
        master: str | None = None,
        replace: bool = False,
        gate_plan: type[GatePlan] = GatePlan,
    ) -> None:
        """Claim the state directory and build all units; nothing runs yet.

        Args:
            spec: The flow.
            session: Where to run it; one is made if there is none.
            state: The state directory.
            master: Of the session that is made.
            replace: Take over queries that have changed.
            gate_plan: Makes the gates of units; benchmarks leave them out.

        Raises:
            StateError: Another process uses the directory, or it is damaged.
            ChangedQueryError: A known name now has another query and `replace` is not set.
        """
        self.spec = spec
        self._directory = StateDirectory(state)
        self._directory.acquire()
        self._made_session: SparkSession | None = None
        self._socket: ControlSocket | None = None
        self.stop_asked = threading.Event()
        """Set when somebody asks the flow to stop; whoever waits for it then stops it."""
        self.also_told: dict[str, Callable[[], Any]] = {}
        """What the status has besides, by name: of whoever works beside the run."""
        self._beside: Beside | None = None
        self.started = threading.Event()
        """Set when its units have been started; until then the flow can be asked how it stands, and
        to stop."""
        try:
            manifest = read_manifest(self._directory.manifest)
            if manifest is None:
                manifest = Manifest(flow=spec.name, id=new_state_id(), life=Life())
            self._definitions = Definitions(spec)
            self._definitions.restore(manifest.life, manifest.definitions)
            requests = requests_at_start(manifest.life, spec.queries, replace=replace)
            self._directory.forget_status()
            if session is None:
                session = self._made_session = make_session(f"evenflow {spec.name}", master)
            self.session = own_session(session)
            self._sources = Sources(self.session, spec, self._directory)
            around = Surroundings(
                self.session,
                self._sources.open,
                self._sources.has_misfits,
                self._sources.identity,
                self._sources.open_table,
                spec.applied,
                self._definitions.queries,
                {},
                gate_plan,
            )
            self._units = Units(manifest, self._definitions, self._directory, self._sources, around)
            self._units.build(requests)
            self._supervisor = Supervisor(self._units)
        except BaseException:
            self._close()
            raise
        self._started = time.time()

    # Life.

    def start(self, *, available_now: bool = False, beside: Beside | None = None) -> Run:
        """Start all units, unless somebody asks to stop before.

        Args:
            available_now: End when all that is there has been read.
            beside: Works beside the run until its units stop, or have ended.
        """
        try:
            self._beside = beside
            self._socket = ControlSocket(self._directory.path, partial(answer, self))
            if beside is not None:
                beside.prepare(self)
            if self.stop_asked.is_set():
                return self
            if not available_now:
                self._sources.begin_now(self._sources_read())
            self._sources.start(available_now=available_now)
            self._units.start(available_now=available_now)
            self._supervisor.start(retry=not available_now)
            self.started.set()
            if beside is not None:
                beside.start()
        except BaseException:
            with suppress(Exception):
                self.pause_units()
            self._close()
            raise
        return self

    def _sources_read(self) -> set[str]:
        """Return sources of which some unit has planned a batch, in this process or before."""
        return {
            source
            for each in self.runs
            if has_begun(each.directory.checkpoint)
            for source in each.unit.sources
        }

    def wait(
        self,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        interval: float = 0.5,
        until: threading.Event | None = None,
    ) -> None:
        """Wait until all units have ended, for a time, or until something happens.

        A flow whose sources are all finite ends when they are read.

        Raises:
            RunError: A unit failed for good.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        shown = 0.0
        while not self._supervisor.ended.is_set():
            now = time.monotonic()
            asked = self.stop_asked.is_set() or (until is not None and until.is_set())
            if asked or (deadline is not None and now >= deadline):
                return
            if on_progress is not None and now - shown >= interval:
                on_progress(self.status())
                shown = now
            self._sources.raise_failure()
            time.sleep(0.02)
        self._stop_beside()
        self._supervisor.raise_failure()

    def pause_units(self) -> None:
        """Stop all units after their running batches; they can be started again."""
        self._stop_beside()
        self._supervisor.stop()
        self._sources.stop()
        self._units.stop()

    def _stop_beside(self) -> None:
        if self._beside is not None:
            self._beside.stop()

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
            self._supervisor.settle()
            if self._supervisor.done:
                self.drain()
            status = self.status(exact=True, running=False)
            write_json(self._directory.status, status)
            for unit, each in self._units.runs.items():
                if unit not in self._supervisor.held:
                    each.raise_failure()
            return status
        finally:
            self._units.close()
            self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
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

    # Changing.

    def subscribe(
        self,
        name: str,
        sql: str | Query,
        sink: Sink | tuple[Sink, ...] = (),
        **options: Unpack[QueryOptions],
    ) -> None:
        """Begin to answer a query, from its first whole window on.

        Args:
            name: Its name.
            sql: Its text, or a query that was built from streams of this flow. Only what is
                written in SQL survives a restart of the process.
            sink: Where its answers go.
            options: weight, floor, every, deadline, on_error.

        Raises:
            ConfigError: The name is taken, or an option is wrong.
            QueryError: The text is wrong.
        """
        if isinstance(sql, str):
            sinks = sink if isinstance(sink, tuple) else (sink,)
            options["sinks"] = (*options.get("sinks", ()), *sinks)
            query = self._definitions.make(name, sql, **options)
        else:
            query = sql
        self._supervisor.ask(Subscribe(query=query, origin=Origin.RUN))

    def unsubscribe(self, name: str, *, keep: bool = False) -> None:
        """Forget a query; windows that it has not answered yet are cut.

        Args:
            name: Its name.
            keep: Go on computing it without delivering answers. An equal query that is
                subscribed later answers from the next window to close.

        Raises:
            ConfigError: There is no such query.
        """
        self._supervisor.ask(Keep(name=name) if keep else Unsubscribe(name=name))

    def pause(self, name: str | None = None) -> None:
        """Discard a query's input, and cut its open windows, until it resumes.

        Without a name all units stand still: their input waits, and nothing is discarded.

        Raises:
            ConfigError: There is no such query, or it cannot be paused.
        """
        if name is None:
            self._supervisor.pause()
        else:
            self._supervisor.ask(Pause(name=name))

    def resume(self, name: str | None = None) -> None:
        """Answer a paused or quarantined query again, from its first whole window on.

        Without a name units that stand still go on where they were.

        Raises:
            ConfigError: There is no such query.
        """
        if name is None:
            self._supervisor.resume()
        else:
            self._supervisor.ask(Resume(name=name))

    def change(self, *requests: Request) -> None:
        """Make several changes at once.

        Raises:
            ConfigError: One of them was refused. The others were made.
        """
        self._supervisor.ask(*requests)

    # Gates.

    @property
    def gates(self) -> dict[str, float]:
        """The fractions to keep that gates were set to, by query; 1 where it is not named."""
        return self._units.gates

    def set_gates(self, keep: Mapping[str, float]) -> None:
        """Drop what comes to some queries, all but a fraction; gates of the others are open.

        It holds from the next batch on that has not been planned yet, without a restart. Queries
        over windows lose whole windows of keys, so that every answer is one of the exact run.

        Raises:
            ConfigError: There is no such query, or a fraction is not between 0 and 1.
        """
        with self._supervisor.still:
            for name, fraction in keep.items():
                if name not in self.life.queries:
                    raise ConfigError(f"query {name[:64]} is not known")
                if not 0 <= fraction <= 1:
                    raise ConfigError(f"query {name[:64]}: a gate keeps 0 to 1, not {fraction:g}")
            self._units.set_gates(keep)

    def set_limit(self, source: str, rows: int | None) -> bool:
        """Limit how many tuples of a source a batch reads, without a restart; None for no limit.

        Returns:
            Whether the source can do that. Those that make tuples can; files and topics have
            options of their own, which hold from a start on.
        """
        return self._sources.set_limit(source, rows)

    def clock(self, source: str) -> float | None:
        """Return by which clock tuples of a source are due: the seconds of its tick 0, if any."""
        return self._sources.clock(source)

    def waiting(self, source: str, offset: str, at: float) -> int | None:
        """Return how many tuples of a source wait behind an offset, if that is known at any time.

        Args:
            source: Its name.
            offset: As the offset log has it.
            at: Wall-clock seconds.
        """
        return self._sources.waiting(source, offset, at)

    # Asking.

    @property
    def runs(self) -> list[UnitRun]:
        """The units."""
        return list(self._units.runs.values())

    @property
    def life(self) -> Life:
        """What all queries do."""
        return self._units.life

    @property
    def queries(self) -> Mapping[str, Query]:
        """All queries, by name."""
        return self._definitions.queries

    def answers(self, query: str) -> pa.Table:
        """Return all answers of a query with a memory sink, as a pyarrow Table.

        Raises:
            ConfigError: It has none.
        """
        for sink in self._units.sinks.get(query, ()):
            if isinstance(sink, MemorySink):
                return sink.table()
        raise ConfigError(f"query {query} has no memory sink")

    def cursor(self, query: str, size: int = MOST_ANSWERS) -> Cursor:
        """Return a cursor over the answers of a query, from the next batch on.

        Args:
            query: Its name.
            size: How many answers wait for a reader that is slower than the flow.

        Raises:
            ConfigError: There is no such query.
        """
        if query not in self.life.queries:
            raise ConfigError(f"query {query[:64]} is not known")
        made = Cursor(size)
        with self._supervisor.still:
            self._units.sinks[query] = (*self._units.sinks[query], made)
        return made

    def status(self, *, exact: bool = False, running: bool = True) -> dict[str, Any]:
        """Return the object of `evenflow status --json`."""
        with self._supervisor.still:
            status = make_status(
                self.spec.name,
                self._units,
                self._definitions.queries,
                self._supervisor,
                seconds=time.time() - self._started,
                exact=exact,
                running=running,
            )
        status["starting"] = running and not self.started.is_set()
        return status | {name: tell() for name, tell in self.also_told.items()}


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
    beside: Beside | None = None,
) -> dict[str, Any]:
    """Run a flow to its end, for a time, or until interrupted; return its final status.

    With `available_now` it ends when all that is there has been read. An interrupt stops it after
    the running batch. With `drain` open windows are closed and answered before it ends.
    """
    run = Run(spec, session, state, master=master, replace=replace)
    try:
        with put_off_interrupt() as interrupted:
            run.start(available_now=available_now, beside=beside)
            with suppress(KeyboardInterrupt):
                run.wait(seconds=seconds, on_progress=on_progress, until=interrupted)
        run.pause_units()
        if drain:
            run.drain()
    except BaseException:
        with suppress(Exception):
            run.stop()
        raise
    return run.stop()
