"""The one thread that changes a flow, over units that only say what happens to them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from evenflow.errors import ConfigError, RunError
from evenflow.schedule.life import Life, Outcome, QueryLife, Refusal
from evenflow.schedule.request import Origin, Pause, Quarantine, QueryState, Resume
from evenflow.spark import supervisor as module
from evenflow.spark.supervisor import Supervisor
from evenflow.spark.unit.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from evenflow.schedule.request import Request
    from evenflow.spark.units import Units

IN_SOURCE = Failure("no such folder", in_function=False, in_source=True)
IN_FUNCTION = Failure("bad function", in_function=True, in_source=False)
ELSEWHERE = Failure("something", in_function=False, in_source=False)


class OneRun:
    """A unit that fails when it is told to."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self.failing: dict[str, str] = {}
        self.has_finished_batch = False
        self.has_settled = True
        self.batch_thread: int | None = None
        self.starts = 0

    @property
    def active(self) -> bool:
        return self.failure is None

    def carries(self, _: Collection[int]) -> bool:
        return True

    def raise_failure(self) -> None:
        assert self.failure is not None
        raise RunError(self.failure.reason)


class TwoUnits:
    """Two units, and a note of all that is done to them."""

    def __init__(self) -> None:
        self.runs = {"u1": OneRun(), "u2": OneRun()}
        self.log: list[Any] = []
        self.dry = False
        running = {"state": QueryState.RUNNING, "origin": Origin.FILE}
        known = {n: QueryLife(operator=n, numbers=(i,), **running) for i, n in enumerate("ab")}  # type: ignore[arg-type]
        self.life = Life(queries=known)
        self.refused: str | None = None
        self.wrong: str | None = None
        self.hold = threading.Event()
        self.hold.set()

    def change(self, requests: Sequence[Request]) -> Outcome:
        self.hold.wait()
        if any(request.name == self.wrong for request in requests):
            raise ConfigError(f"{self.wrong} cannot be built")
        self.log.append([type(r).__name__ + " " + r.name for r in requests])
        refusals = tuple(Refusal(r, "no") for r in requests if r.name == self.refused)
        for request in requests:
            if isinstance(request, Quarantine):
                self.runs["u1"].failing.pop(request.name)
        return Outcome(self.life, refusals)

    def restart(self, unit: str) -> None:
        self.runs[unit].starts += 1
        self.runs[unit].failure = None

    def start(self, *, available_now: bool, without: Collection[str] = ()) -> None:
        self.log.append(("start", available_now, sorted(without)))

    def stop(self) -> None:
        self.log.append("stop")

    def finish(self) -> None:
        self.log.append("finish")

    def is_dry(self) -> bool:
        return self.dry


@pytest.fixture
def units() -> TwoUnits:
    return TwoUnits()


@pytest.fixture
def supervisor(units: TwoUnits, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(module, "_INTERVAL", 0.005)
    made = Supervisor(cast("Units", units))
    made.start(retry=True)
    yield made
    units.hold.set()
    made.stop()


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_is_asked_while_a_change_is_made_is_one_change(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    units.hold.clear()
    threads = [threading.Thread(target=supervisor.ask, args=(Pause(name="a"),))]
    threads[0].start()
    until(lambda: not supervisor._waiting)  # it has taken the first
    for name in "bab":
        threads.append(threading.Thread(target=supervisor.ask, args=(Pause(name=name),)))
        threads[-1].start()
    until(lambda: len(supervisor._waiting) == 3)
    units.hold.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [len(each) for each in units.log] == [1, 3]


def test_a_change_waits_until_all_units_have_got_on(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    supervisor.ask(Pause(name="a"))
    units.runs["u2"].has_settled = False
    threads = [
        threading.Thread(target=supervisor.ask, args=(Pause(name=name),)) for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert len(units.log) == 1
    units.runs["u2"].has_settled = True
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [len(each) for each in units.log] == [1, 2]


def test_a_refusal_reaches_who_asked_and_no_one_else(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    units.refused = "a"
    with pytest.raises(ConfigError, match="no"):
        supervisor.ask(Pause(name="a"))
    supervisor.ask(Pause(name="b"))


def test_one_that_cannot_be_built_does_not_spoil_the_others(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    units.wrong = "a"
    units.hold.clear()
    errors: dict[str, Exception] = {}

    def ask(name: str) -> None:
        try:
            supervisor.ask(Pause(name=name))
        except ConfigError as exc:
            errors[name] = exc

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("b", "a", "b")]
    for thread in threads:
        thread.start()
    units.hold.set()
    for thread in threads:
        thread.join(10)
    assert list(errors) == ["a"]
    assert sum(each.count("Pause b") for each in units.log) == 2


def test_a_unit_whose_source_fails_is_tried_again_with_growing_pauses(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    run = units.runs["u1"]
    began = time.monotonic()
    for times in range(1, 7):
        run.failure = IN_SOURCE
        until(lambda times=times: run.starts == times)  # type: ignore[misc]
    assert time.monotonic() - began > 0.02 * (1 + 2 + 4 + 8 + 16 + 32) * 0.9
    assert supervisor.retries["u1"].times == 6
    assert supervisor.held == {}
    run.has_finished_batch = True
    until(lambda: not supervisor.retries)
    assert units.runs["u2"].starts == 0


def test_a_unit_whose_function_fails_is_held_until_a_query_of_it_resumes(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    units.runs["u1"].failure = IN_FUNCTION
    until(lambda: supervisor.held == {"u1": "bad function"})
    time.sleep(0.05)
    assert units.runs["u1"].starts == 0
    supervisor.ask(Resume(name="a"))
    assert supervisor.held == {}
    assert units.runs["u1"].starts == 1


def test_a_unit_that_fails_often_for_unknown_reasons_is_held(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    run = units.runs["u1"]
    for times in range(1, 5):
        run.failure = ELSEWHERE
        until(lambda times=times: run.starts == times)  # type: ignore[misc]
    run.failure = ELSEWHERE
    until(lambda: "u1" in supervisor.held)


def test_a_query_whose_answers_cannot_be_delivered_is_quarantined(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    units.runs["u1"].failing["a"] = "disk full"
    until(lambda: ["Quarantine a"] in units.log)
    assert not supervisor.ended.is_set()


def test_a_paused_flow_stands_still_but_can_be_changed(
    units: TwoUnits, supervisor: Supervisor
) -> None:
    units.runs["u2"].failure = IN_FUNCTION
    until(lambda: "u2" in supervisor.held)
    supervisor.pause()
    supervisor.pause()
    assert units.log == ["stop"]
    units.runs["u1"].failure = IN_SOURCE  # what is stopped is not looked at
    supervisor.ask(Pause(name="a"))
    time.sleep(0.03)
    assert supervisor.retries == {}
    units.runs["u1"].failure = None
    supervisor.resume()
    supervisor.resume()
    assert units.log == ["stop", ["Pause a"], ("start", False, ["u2"])]


def test_it_ends_when_all_is_read(units: TwoUnits, supervisor: Supervisor) -> None:
    units.dry = True
    until(lambda: "finish" in units.log)
    assert supervisor.done
    assert units.log.count("finish") == 1


def test_without_retries_a_failure_ends_the_run(units: TwoUnits) -> None:
    supervisor = Supervisor(cast("Units", units))
    units.runs["u1"].failure = IN_SOURCE
    supervisor.start(retry=False)
    assert supervisor.ended.wait(10)
    with pytest.raises(RunError, match="no such folder"):
        supervisor.raise_failure()
    with pytest.raises(RunError, match="not running"):
        supervisor.ask(Pause(name="a"))
    supervisor.stop()


def test_a_batch_cannot_change_its_own_flow(units: TwoUnits, supervisor: Supervisor) -> None:
    units.runs["u1"].batch_thread = threading.get_ident()
    asks: list[Callable[[], None]] = [
        lambda: supervisor.ask(Pause(name="a")),
        supervisor.pause,
        supervisor.resume,
    ]
    for ask in asks:
        with pytest.raises(RunError, match="inside one of its batches"):
            ask()


def test_who_waits_when_it_stops_is_told(units: TwoUnits, supervisor: Supervisor) -> None:
    units.hold.clear()
    first = threading.Thread(target=supervisor.ask, args=(Pause(name="a"),))
    first.start()
    until(lambda: not supervisor._waiting)
    told: list[str] = []

    def ask() -> None:
        try:
            supervisor.ask(Pause(name="b"))
        except RunError as exc:
            told.append(str(exc))

    second = threading.Thread(target=ask)
    second.start()
    until(lambda: bool(supervisor._waiting))
    stopping = threading.Thread(target=supervisor.stop)
    stopping.start()
    until(lambda: supervisor._stopping)
    units.hold.set()
    for thread in (first, second, stopping):
        thread.join(10)
        assert not thread.is_alive()
    assert "stopped before" in told[0]
