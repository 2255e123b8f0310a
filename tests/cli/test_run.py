"""`run`, `status` and `compare`: what they ask of the shell and what they print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from tests.cli.flows import GOOD, write

from evenflow.cli.progress import _Lines, progress_table, total_rate
from evenflow.cli.status import operators_text, status_text
from evenflow.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from tests.cli.conftest import Invoke

    from evenflow.model.flow import FlowSpec

COUNTS = {"in": 1200, "contributed": 1000, "open": 100, "late": 40, "filtered": 50, "rejected": 10}
SHED = {"gate": 0, "paused": 0, "cut": 0, "quarantined": 0}
HEAVY = {
    "state": "running",
    "reason": None,
    "rows_per_second": 51234.5,
    "age_seconds": 6.0,
    "delay_seconds": 1.5,
    "deadline_seconds": 5.0,
    "share_kept": 1.0,
    "answers": 7,
    "counts": {**COUNTS, "shed": SHED},
}
STATUS: dict[str, Any] = {
    "flow": "metering",
    "running": False,
    "units": [
        {"id": "u1", "sources": ["readings"], "rows_per_second": 50_000.0},
        {"id": "u2", "sources": ["readings"], "rows_per_second": 40_000.0},
    ],
    "queries": {"heavy": HEAVY, "positive": {"state": "running", "counts": None}},
    "sources": {"readings": {"read": 2}},
}
COMPARISON: dict[str, Any] = {
    "equal": True,
    "queries": 2,
    "operators_alone": 6,
    "operators_shared": 5,
    "plain_rows_per_second": 1000.0,
    "shared_rows_per_second": 12_500.0,
    "ratio": 12.5,
    "differences": [],
    "pushed_down": {"heavy": 3},
}


def _quarantined() -> dict[str, Any]:
    heavy = {**HEAVY, "state": "quarantined", "reason": "too many rejects"}
    return {**STATUS, "queries": {"heavy": heavy}}


def test_run_hands_the_options_to_the_shell(
    invoke: Invoke, shell: Callable[..., None], tmp_path: Path
) -> None:
    asked: dict[str, Any] = {}

    def run_flow(spec: FlowSpec, **options: Any) -> dict[str, Any]:
        asked.update(options, name=spec.name)
        options["on_progress"](STATUS)
        return STATUS

    shell("spark.run", run_flow=run_flow)
    path = write(tmp_path, GOOD)
    result = invoke("run", path, "--available-now", "--drain", "--for", "2 minutes", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == STATUS
    del asked["on_progress"], asked["beside"]
    assert asked == {
        "name": "metering",
        "state": tmp_path / ".evenflow/metering",
        "available_now": True,
        "drain": True,
        "seconds": 120.0,
        "master": None,
        "replace": False,
    }


def test_options_stand_above_the_environment_and_that_above_the_file(
    invoke: Invoke, shell: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def run_flow(_: FlowSpec, **options: Any) -> dict[str, Any]:
        asked.append((options["state"].name, options["master"]))
        return STATUS

    shell("spark.run", run_flow=run_flow)
    path = write(tmp_path, GOOD)
    monkeypatch.setenv("EVENFLOW_STATE", "from-environment")
    monkeypatch.setenv("EVENFLOW_MASTER", "local[1]")
    invoke("run", path)
    invoke("run", path, "--state", "from-option", "--master", "local[2]")
    assert asked == [("from-environment", "local[1]"), ("from-option", "local[2]")]


def test_a_quarantined_query_makes_the_exit_code_3(
    invoke: Invoke, shell: Callable[..., None], tmp_path: Path
) -> None:
    shell("spark.run", run_flow=lambda _, **options: _quarantined())
    result = invoke("run", write(tmp_path, GOOD))
    assert result.exit_code == 3
    assert "heavy is quarantined: too many rejects" in result.stdout


def test_progress_lines_come_with_verbose_only(
    invoke: Invoke, shell: Callable[..., None], tmp_path: Path
) -> None:
    def run_flow(_: FlowSpec, **options: Any) -> dict[str, Any]:
        options["on_progress"](STATUS)
        options["on_progress"](STATUS)
        return STATUS

    shell("spark.run", run_flow=run_flow)
    path = write(tmp_path, GOOD)
    assert invoke("run", path).stderr == ""
    assert invoke("run", path, "-v").stderr == "0 s: 50,000 rows/s, 7 answers, oldest 6.0 s\n"


def test_status_is_read_from_the_state_directory(
    invoke: Invoke, shell: Callable[..., None], tmp_path: Path
) -> None:
    def find_status(name: str, state: Path, *, exact: bool) -> dict[str, Any]:
        assert not exact
        if state.name == "none":
            raise StateError(f"{name} has not run in {state}")
        return STATUS

    shell("spark.state.status", find_status=find_status)
    path = write(tmp_path, GOOD)
    assert json.loads(invoke("status", path, "--format", "json").stdout) == STATUS
    assert "metering: stopped, 2 queries" in invoke("status", path).stdout
    assert invoke("status", path, "--state", "none").exit_code == 2


def test_the_status_table_has_the_counts() -> None:
    head, titles, heavy, positive, *_ = status_text(STATUS).splitlines()
    assert head == "metering: stopped, 2 queries"
    assert titles.split()[-2:] == ["shed", "kept"]
    assert heavy.split()[2:] == "7 51,234 6.0 1.5 1,200 1,000 100 40 50 10 0 100%".split()
    assert positive.split()[2:] == ["-"] * 12


def test_the_status_tells_what_was_kept_and_how_fairly() -> None:
    queries = {"heavy": {**HEAVY, "share_kept": 0.9999}, "other": {**HEAVY, "share_kept": 0.25}}
    lines = status_text({**STATUS, "queries": queries, "fairness": 0.735}).splitlines()
    assert [line.split()[-1] for line in lines[2:4]] == ["99.99%", "25%"]
    assert lines[-1] == "fairness 0.735: Jain's index of the shares kept"


def test_the_status_tells_units_sources_and_what_is_wrong() -> None:
    late = {**HEAVY, "delay_seconds": 7.5, "late": "batches of unit u1 take 4.0 s instead of 1 s"}
    failing: dict[str, Any] = {
        "read": 1,
        "state": "failing",
        "reason": "no broker",
        "retry_seconds": 4.0,
    }
    failing |= {"rows_per_second": 0.0, "rows_behind": 12}
    unit: dict[str, Any] = {
        "id": "u1",
        "kind": "hash",
        "queries": ["heavy"],
        "rows_per_second": 5.0,
    }
    unit |= {"every_seconds": 1.0, "batch_seconds": 4.0, "state_rows": 12_000}
    unit |= {"state_bytes": 3_500_000}
    found = {**STATUS, "units": [unit], "queries": {"heavy": late}, "sources": {"s": failing}}
    lines = status_text(found).splitlines()
    assert "u1 hash 1 5.0 1.0 4.0 12,000 3.5".split() in [line.split() for line in lines]
    assert "s failing 1 0.0 12".split() in [line.split() for line in lines]
    assert lines[-2:] == [
        "heavy is late, 7.5 s of 5.0 s: batches of unit u1 take 4.0 s instead of 1 s",
        "source s fails, next try in 4.0 s: no broker",
    ]


def test_the_operators_are_a_table_too() -> None:
    where: dict[str, Any] = {"kind": "where", "text": "kwh > 5", "queries": ["heavy"]}
    where |= {"in_per_second": 1000.0, "out_per_second": None}
    source: dict[str, Any] = {
        "kind": "source",
        "text": "readings",
        "queries": ["heavy", "positive"],
    }
    source |= {"in_per_second": 1000.0, "out_per_second": 1000.0}
    _, first, second = operators_text({**STATUS, "operators": [source, where]}).splitlines()
    assert first.split() == "source 1,000 1,000 2 queries readings".split()
    assert second.split() == "where 1,000 - heavy kwh > 5".split()


def test_compare_exits_with_1_where_answers_differ(
    invoke: Invoke, shell: Callable[..., None], tmp_path: Path
) -> None:
    asked: dict[str, Any] = {}

    def compare_flow(_: FlowSpec, **options: Any) -> dict[str, Any]:
        asked.update(options)
        return COMPARISON

    shell("spark.compare", compare_flow=compare_flow)
    path = write(tmp_path, GOOD)
    result = invoke("compare", path, "--rows", "5000")
    assert result.exit_code == 0
    assert "ratio: 12.5" in result.stdout
    assert "heavy: 3" in result.stdout
    assert (asked["rows"], asked["sample"]) == (5000, None)
    asked["on_step"]("recording")
    assert json.loads(invoke("compare", path, "--json").stdout) == COMPARISON
    differing = {**COMPARISON, "equal": False, "differences": ["heavy: 1 answer more"]}
    shell("spark.compare", compare_flow=lambda _, **options: differing)
    result = invoke("compare", path)
    assert result.exit_code == 1
    assert "heavy: 1 answer more" in result.stdout


def test_the_live_table_shows_each_query() -> None:
    console = Console(width=100, record=True, quiet=True)
    with console.capture() as capture:
        console.quiet = False
        console.print(progress_table(STATUS, 65.0))
    shown = capture.get()
    assert "metering  1:05  50,000 rows/s" in shown
    assert "heavy" in shown
    assert "51,234" in shown


def test_the_rate_counts_each_source_once() -> None:
    assert total_rate(STATUS) == 50_000.0
    assert total_rate({"units": []}) is None


def test_lines_are_not_printed_at_every_call(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _Lines()
    for _ in range(3):
        lines.show(STATUS)
    assert len(capsys.readouterr().err.splitlines()) == 1
