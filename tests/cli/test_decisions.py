"""`decisions`, `run --shed` and what `status` says of the control loop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.flows import GOOD, write

from evenflow.cli.status import status_text
from evenflow.control.decision import Act, Decision, Outcome
from evenflow.control.journal import Journal
from evenflow.control.shell import Control
from evenflow.schedule.life import Life
from evenflow.spark.state.manifest import Manifest, write_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Invoke


@pytest.fixture
def flow(tmp_path: Path) -> str:
    return str(write(tmp_path, GOOD))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with two decisions."""
    where = tmp_path / "state"
    write_manifest(where / "manifest.json", Manifest(flow="metering", id="x", life=Life()))
    journal = Journal(where)
    first = Decision(
        number=1,
        at=1_800_000_000.0,
        act=Act.SHED,
        keep={"a": 0.25, "b": 0.0, "c": 0.5, "d": 0.5, "e": 0.75},
        before={},
        facts={},
        why="52,000 rows/s arrive, 4.1 times what fits",
        expected={"batch_seconds": {"u1": 0.9}},
    )
    opened = Decision(
        number=2,
        at=1_800_000_060.0,
        act=Act.OPEN,
        keep={},
        before=first.keep,
        facts={},
        why="all gates open",
        expected={},
    )
    measured = {"batch_seconds": {"u1": 1.04}}
    journal.write(first.as_json())
    journal.write(Outcome(number=1, at=1.0, applied=True).as_json())
    journal.write(Outcome(number=1, at=2.0, applied=True, measured=measured).as_json())
    journal.write(opened.as_json())
    journal.write(Outcome(number=2, at=3.0, applied=False, reason="it stopped").as_json())
    return where


def test_decisions_are_shown_as_a_table(invoke: Invoke, flow: str, state: Path) -> None:
    result = invoke("decisions", flow, "--state", state)
    assert result.exit_code == 0, result.stderr
    _, first, second = result.stdout.splitlines()
    for text in ("b 0% a 25%", "and 1 more", "4.1 times", "u1: 1.0 s, expected 0.9 s"):
        assert text in first
    for text in ("everything", "not applied: it stopped"):
        assert text in second
    newest = invoke("decisions", flow, "--state", state, "--last", "1").stdout
    assert "4.1 times" not in newest


def test_a_catch_up_tells_how_long_it_took(invoke: Invoke, flow: str, state: Path) -> None:
    journal = Journal(state)
    for number, seconds in ((3, 13.8), (4, None)):
        made = Decision(
            number=number,
            at=1_800_000_120.0,
            act=Act.CATCH_UP,
            keep={},
            before={},
            facts={},
            why="u1 works off 40,000 rows",
            expected={"seconds": seconds},
        )
        ended = Outcome(number=number, at=4.0, applied=True, measured={"seconds": 14.2})
        journal.write(made.as_json())
        journal.write(ended.as_json())
    told = invoke("decisions", flow, "--state", state, "--last", "2").stdout.splitlines()[1:]
    assert told[0].rstrip().endswith("caught up after 14.2 s, expected 13.8 s")
    assert told[1].rstrip().endswith("caught up after 14.2 s")


def test_decisions_are_given_as_json(invoke: Invoke, flow: str, state: Path) -> None:
    result = invoke("decisions", flow, "--state", state, "--json")
    told = json.loads(result.stdout)
    assert told["flow"] == "metering"
    assert [d["decision"] for d in told["decisions"]] == [1, 2]
    assert told["decisions"][0]["measured"] == {"batch_seconds": {"u1": 1.04}}
    newest = invoke("decisions", flow, "--state", state, "--json", "--last", "1")
    assert [d["decision"] for d in json.loads(newest.stdout)["decisions"]] == [2]


def test_a_flow_that_never_ran_has_none_to_show(invoke: Invoke, flow: str, tmp_path: Path) -> None:
    result = invoke("decisions", flow, "--state", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "error[state.invalid]" in result.stderr


def test_a_flow_without_decisions_says_so(invoke: Invoke, flow: str, tmp_path: Path) -> None:
    where = tmp_path / "quiet"
    write_manifest(where / "manifest.json", Manifest(flow="metering", id="x", life=Life()))
    assert invoke("decisions", flow, "--state", where).stdout == "no decisions\n"


@pytest.mark.parametrize(
    ("options", "deadline", "mode"),
    [
        ((), True, "on"),
        ((), False, "off"),
        (("--available-now",), True, "off"),
        (("--available-now", "--shed", "on"), False, "on"),
        (("--shed", "off"), True, "off"),
        (("--shed", "dry-run"), False, "dry-run"),
    ],
)
def test_the_loop_is_on_if_a_query_has_a_deadline(
    invoke: Invoke,
    shell: Callable[..., None],
    tmp_path: Path,
    options: tuple[str, ...],
    deadline: bool,
    mode: str,
) -> None:
    seen: dict[str, Any] = {}

    def run_flow(_: object, **given: Any) -> dict[str, Any]:
        seen.update(given)
        return {"flow": "metering", "running": False, "queries": {}}

    shell("spark.run", run_flow=run_flow)
    text = GOOD if deadline else GOOD.replace("    deadline: 5 seconds\n", "")
    result = invoke("run", write(tmp_path, text), *options)
    assert result.exit_code == 0, result.stderr
    beside = seen["beside"]
    assert isinstance(beside, Control)
    assert beside.report()["shed"] == mode


def test_an_unknown_mode_is_refused(invoke: Invoke, flow: str) -> None:
    assert invoke("run", flow, "--shed", "perhaps").exit_code == 2


CONTROL: dict[str, Any] = {
    "shed": "on",
    "state": "shedding",
    "load": 1.41,
    "load_without_gates": 5.2,
    "capacity": 1.5,
    "value": 0.54,
    "gates": {"b": 0.1},
    "highest_surge": 12.5,
}


@pytest.mark.parametrize(
    ("control", "texts"),
    [
        (
            CONTROL,
            ("control: shedding, load 1.4", "instead of 5.2", "54%", ": b 10%", "12.5 times"),
        ),
        ({**CONTROL, "gates": {f"q{i}": 0.0 for i in range(9)}}, ("q5 0% and 3 more",)),
        ({**CONTROL, "shed": "dry-run"}, ("control (dry run): shedding",)),
        ({**CONTROL, "unrecorded": "no room"}, ("gates stay as they are, no room",)),
        ({"shed": "on", "state": "dead", "reason": "oh"}, ("the control loop has ended: oh",)),
        (
            {"shed": "on", "state": "open", "reason": "unit u1 warms up"},
            ("control: waits, unit u1 warms up",),
        ),
    ],
)
def test_status_says_how_the_loop_stands(control: dict[str, Any], texts: tuple[str, ...]) -> None:
    shown = status_text({"flow": "m", "running": True, "queries": {}, "control": control})
    assert all(text in shown for text in texts), shown


def test_status_is_silent_about_a_loop_that_is_off() -> None:
    found = {
        "flow": "m",
        "running": True,
        "queries": {},
        "control": {"shed": "off", "state": "off"},
    }
    assert "control" not in status_text(found)
