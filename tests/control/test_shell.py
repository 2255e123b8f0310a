"""The thread beside a run: it performs, it records, and the flow outlives it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.cli.flows import GOOD, write
from tests.control.simulated import SIX_RATE, SimFlow, six, six_costs, surge

from evenflow.cli.shed.network_file import read_network
from evenflow.control import shell as shell_module
from evenflow.control.journal import Journal, read_decisions
from evenflow.control.mode import Mode
from evenflow.control.shell import Control
from evenflow.control.stored import Survey, read_corrections
from evenflow.errors import ConfigError
from evenflow.shed.linear.exact import Exact
from evenflow.spark.state.sealed import write_sealed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke

    from evenflow.control.facts import FlowFacts
    from evenflow.spark.run import Run


class FakeRun:
    """A run whose flow is simulated: every look lets a quarter of a second pass."""

    def __init__(self, flow: SimFlow) -> None:
        self.flow = flow
        self.also_told: dict[str, Callable[[], Any]] = {}
        self.runs = [
            SimpleNamespace(
                unit=SimpleNamespace(every=0.001),
                pace=SimpleNamespace(part_rates=lambda: {1: (10.0, 4.0, 1.0), 9: (1.0, 1.0, 1.0)}),
                charge=SimpleNamespace(names={1: "a"}),
            )
        ]
        self.refused: str | None = None
        self.looked = 0
        self.limits: list[tuple[str, int | None]] = []
        self.fails: Iterator[bool] = itertools.repeat(False)

    @property
    def gates(self) -> Mapping[str, float]:
        return dict(self.flow.gates)

    def set_gates(self, keep: Mapping[str, float]) -> None:
        if self.refused is not None:
            raise ConfigError(self.refused)
        self.flow.gates = dict(keep)
        self.flow.history.append((self.flow.clock, dict(keep)))

    def set_limit(self, source: str, rows: int | None) -> bool:
        self.limits.append((source, rows))
        return False

    def look(self, _: object, __: float) -> FlowFacts:
        self.looked += 1
        if next(self.fails):
            raise RuntimeError("a unit was just being replaced")
        self.flow.run_steps(5)
        return self.flow.facts()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "SHORTEST_WAIT", 0.0)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., tuple[Control, FakeRun]]]:
    started: list[Control] = []

    def make(
        flow: SimFlow, mode: Mode = Mode.ON, refused: str | None = None
    ) -> tuple[Control, FakeRun]:
        run = FakeRun(flow)
        run.refused = refused
        control = Control(
            tmp_path,
            mode=mode,
            survey=lambda _: Survey(costs=six_costs(), cores=2.0),
            clock=lambda: flow.now,
            look_at=run.look,
        )
        control.prepare(cast("Run", run))
        control.start()
        started.append(control)
        return control, run

    yield make
    for each in started:
        each.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


Made = Callable[..., tuple[Control, FakeRun]]


def test_a_surge_is_shed_recorded_and_reported(made: Made, tmp_path: Path) -> None:
    control, run = made(six(surge(SIX_RATE, 8.0, 10, 30)))
    until(lambda: run.flow.clock > 20)
    told = run.also_told["control"]()
    assert told["state"] == "shedding"
    assert told["gates"]
    assert told["load"] < told["load_without_gates"]
    assert told["highest_surge"] > 1
    (rows,), (fitting,) = told["rows_per_second"].values(), told["fitting_rows_per_second"].values()
    assert rows == pytest.approx(8 * SIX_RATE, rel=0.2)
    # What fits with all gates open is less than what arrives, and less than what floors leave.
    (highest,) = told["highest_rows_per_second"].values()
    assert SIX_RATE < fitting < min(rows, highest)
    until(lambda: run.flow.clock > 38)
    control.stop()
    assert run.flow.gates == {}
    assert len(run.limits) == 2
    assert run.limits[-1] == ("s", None)
    records = read_decisions(tmp_path)
    assert [records[0]["act"], records[-1]["act"]] == ["shed", "open"]
    assert all(record["applied"] for record in records)
    assert control.report()["state"] == "open"


def test_a_flow_that_was_measured_becomes_a_network_file(
    made: Made, tmp_path: Path, invoke: Invoke
) -> None:
    control, run = made(six(surge(SIX_RATE, 8.0, 10, 30)))
    until(lambda: run.flow.clock > 20)
    control.stop()
    flow = write(tmp_path, GOOD)
    shown = invoke("explain", flow, "--network", "--state", tmp_path)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.startswith("# Costs are what batches have told")
    (tmp_path / "net.yaml").write_text(shown.stdout)
    write_sealed(tmp_path / "costs.json", six_costs().as_json())
    certain = invoke("explain", flow, "--network", "--state", tmp_path).stdout
    assert certain.splitlines()[1].startswith(
        "# Certainty, from 0 for a guess to 1: a 0.90, b 0.90"
    )
    network = read_network(tmp_path / "net.yaml").network
    assert network.inputs == ("s",)
    assert network.operators["a-u1"].selectivity == 0.4
    assert network.operators["read-u1"].never
    plan = Exact(network).plan({"s": 8 * SIX_RATE})
    assert plan.load["process"] <= network.nodes["process"].capacity * (1 + 1e-9)
    # What the loop set and what a planner finds for the same rate are alike.
    assert plan.throughput["a"] == pytest.approx(0.4 * 8 * SIX_RATE, rel=0.01)
    as_json = invoke("explain", flow, "--network", "--json", "--state", tmp_path)
    assert json.loads(as_json.stdout)["nodes"] == {
        "process": {"capacity": network.nodes["process"].capacity}
    }
    assert invoke("explain", flow, "--network", "--format", "svg").exit_code == 2


def test_a_flow_that_was_not_measured_has_no_network(tmp_path: Path, invoke: Invoke) -> None:
    result = invoke("explain", write(tmp_path, GOOD), "--network", "--state", tmp_path)
    assert result.exit_code == 2
    assert "error[state.invalid]" in result.stderr


def test_a_dry_run_touches_nothing_but_what_was_left_shut(made: Made, tmp_path: Path) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 30))
    flow.gates = {"a": 0.5}
    control, run = made(flow, Mode.DRY_RUN)
    until(lambda: run.flow.clock > 20)
    control.stop()
    assert [gates for _, gates in flow.history] == [{}]
    opened, first, *_ = read_decisions(tmp_path)
    assert (opened["act"], opened["before"], opened["applied"]) == ("open", {"a": 0.5}, True)
    assert first["dry_run"] is True
    assert control.report()["shed"] == "dry-run"


def test_switched_off_it_only_opens_what_was_left_shut(made: Made, tmp_path: Path) -> None:
    flow = six(lambda _: SIX_RATE)
    flow.gates = {"a": 0.5}
    control, run = made(flow, Mode.OFF)
    assert run.looked == 0
    assert flow.gates == {}
    assert control.report() == {"shed": "off", "state": "off"}
    assert [each["before"] for each in read_decisions(tmp_path)] == [{"a": 0.5}]


def test_looks_that_fail_are_gone_over(made: Made) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 30))
    _, run = made(flow)
    run.fails = itertools.cycle([True, True, False])
    until(lambda: run.flow.clock > 20)
    assert flow.gates


def test_a_flow_that_can_never_be_looked_at_ends_the_loop(made: Made) -> None:
    control, run = made(six(lambda _: SIX_RATE))
    run.fails = itertools.repeat(True)
    until(lambda: control.died is not None)
    assert "replaced" in control.report()["reason"]


def test_if_the_loop_dies_gates_open_and_the_status_says_so(made: Made, tmp_path: Path) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 100))
    control, _ = made(flow)
    until(lambda: bool(flow.gates))
    control._look_at = None  # type: ignore[assignment]
    until(lambda: control.died is not None)
    assert flow.gates == {}
    told = control.report()
    assert told["state"] == "dead"
    assert "all gates were opened" in told["reason"]
    last = read_decisions(tmp_path)[-1]
    assert (last["act"], last["keep"], last["applied"]) == ("open", {}, True)
    assert "has ended" in last["why"]


def test_gates_that_cannot_be_opened_by_a_dying_loop_are_told(made: Made) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 100))
    control, run = made(flow)
    until(lambda: bool(flow.gates))
    run.refused = "no"
    control._look_at = None  # type: ignore[assignment]
    until(lambda: control.died is not None and "stay" in control.died)


def test_a_journal_that_cannot_be_written_keeps_no_gate_shut(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 100))
    control, _ = made(flow)
    until(lambda: bool(flow.gates))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "write", full)
    control._look_at = None  # type: ignore[assignment]
    until(lambda: control.died is not None)
    assert flow.gates == {}
    assert "all gates were opened" in control.report()["reason"]


def test_a_full_disk_changes_no_gates_and_does_not_end_the_loop(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, tried = Journal.write, []

    def full(*_: object) -> None:
        tried.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "write", full)
    flow = six(surge(SIX_RATE, 8.0, 10, 200))
    control, _ = made(flow)
    until(lambda: len(tried) > 20)
    assert flow.gates == {}
    assert control.died is None
    assert "No space" in control.report()["unrecorded"]
    assert sum("cannot be recorded" in each.message for each in caplog.records) == 1
    monkeypatch.setattr(Journal, "write", write)
    until(lambda: bool(flow.gates))
    control.stop()
    assert control.report()["unrecorded"] is None
    records = read_decisions(tmp_path)
    applied = [each for each in records if each["applied"]]
    # All gates that were ever in force have a record, and what could not be done says why.
    assert [each["keep"] for each in applied] == [gates for _, gates in flow.history]
    refused = [each for each in records if each["applied"] is False]
    assert refused
    assert all("cannot be recorded" in each["reason"] for each in refused)


def test_an_outcome_waits_for_room_on_the_disk(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 200))
    control, _ = made(flow)
    write = Journal.write
    room = [False]

    def half(journal: Journal, entry: Mapping[str, Any]) -> None:
        if "outcome" in entry and not room[0]:
            raise OSError(28, "No space left on device")
        write(journal, entry)

    monkeypatch.setattr(Journal, "write", half)
    until(lambda: control.report()["unrecorded"] is not None)
    assert flow.gates
    assert read_decisions(tmp_path)[0]["applied"] is None
    room[0] = True
    until(lambda: control.report()["unrecorded"] is None)
    assert read_decisions(tmp_path)[0]["applied"] is True


def test_a_limit_that_cannot_be_written_does_not_end_the_loop(made: Made) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 200))
    control, run = made(flow)

    def full(*_: object) -> bool:
        run.limits.append(("s", 0))
        raise OSError(28, "No space left on device")

    run.set_limit = full  # type: ignore[method-assign, assignment]
    until(lambda: bool(run.limits) and bool(flow.gates))
    assert control.died is None
    run.set_limit = lambda *_: True  # type: ignore[method-assign]


def test_a_change_that_the_run_refuses_is_recorded(made: Made, tmp_path: Path) -> None:
    flow = six(surge(SIX_RATE, 8.0, 10, 100))
    control, run = made(flow, refused="query f is not known")
    # A decision is recorded before it is performed, and what became of it after that.
    until(lambda: any(each["applied"] is not None for each in read_decisions(tmp_path)))
    run.refused = None
    until(lambda: bool(flow.gates))
    control.stop()
    first = read_decisions(tmp_path)[0]
    assert (first["applied"], first["reason"]) == (False, "query f is not known")


def test_what_was_learned_goes_on_after_a_restart(made: Made, tmp_path: Path) -> None:
    first, run = made(slow_machine())
    until(lambda: run.flow.clock > 20)
    first.stop()
    survey = Survey(costs=six_costs(), cores=2.0)
    (kept,) = read_corrections(tmp_path, survey).values()
    assert kept.factor > 1.5
    flow = slow_machine()
    flow.run_steps(60)
    run = FakeRun(flow)
    again = Control(tmp_path, survey=lambda _: survey, clock=lambda: flow.now, look_at=run.look)
    again.prepare(cast("Run", run))
    again._step()
    told = again.report()
    # A loop that begins anew has taken no batch so far: the first ones may be slow for being cold.
    assert told["factors"]["u1"] > 1.5
    assert told["reason"] is None


def slow_machine() -> SimFlow:
    """Return a flow on half the cores that it is said to have."""
    flow = six(lambda _: SIX_RATE / 2)
    flow.cores = 1.0
    return flow


def test_numbers_of_decisions_go_on_after_a_restart(made: Made, tmp_path: Path) -> None:
    first, run = made(six(surge(SIX_RATE, 8.0, 10, 100)))
    until(lambda: bool(run.flow.gates))
    first.stop()
    before = read_decisions(tmp_path)[-1]["decision"]
    _, again = made(six(surge(SIX_RATE, 8.0, 10, 100)))
    until(lambda: bool(again.flow.gates))
    assert [d["decision"] for d in read_decisions(tmp_path)][: before + 1] == list(
        range(1, before + 2)
    )
