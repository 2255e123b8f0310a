"""`evenflow demo`: which acts it plays, what it refuses, how it ends when it is interrupted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.demo.acting import COSTS, NAMES
from tests.cli.test_run import COMPARISON, STATUS

from evenflow.cli.command import INTERRUPTED
from evenflow.cli.demo.surge import FLOW, Machine, write_flow
from evenflow.cli.flow_file import read_flow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Invoke

    from evenflow.model.flow import FlowSpec


@pytest.fixture
def asked(shell: Callable[..., None]) -> list[tuple[str, FlowSpec, Any]]:
    """What was asked of a shell that runs nothing."""
    calls: list[tuple[str, FlowSpec, Any]] = []

    def run_flow(spec: FlowSpec, **options: Any) -> dict[str, Any]:
        calls.append(("run", spec, options["seconds"]))
        options["beside"].start()
        options["beside"].stop()
        return STATUS

    def compare_flow(spec: FlowSpec, **options: Any) -> dict[str, Any]:
        calls.append(("compare", spec, options["rows"]))
        options["on_step"]("recording a sample")
        return COMPARISON

    shell("spark.run", run_flow=run_flow)
    shell("spark.compare", compare_flow=compare_flow)
    return calls


Asked = list[tuple[str, "FlowSpec", Any]]


def test_the_first_act_runs_twenty_queries_and_compares_them(invoke: Invoke, asked: Asked) -> None:
    result = invoke("demo", "--act", "sharing", "--for", "500ms")
    assert result.exit_code == 0, result.stderr
    assert [(what, len(spec.queries), of) for what, spec, of in asked] == [
        ("run", 20, 0.5),
        ("compare", 20, 240_000),
    ]
    for part in ("ratio: 12.5", "operators:", "heavy"):
        assert part in result.stdout
    assert "sharing: recording a sample" in result.stderr


def test_json_is_all_that_a_script_sees(invoke: Invoke, asked: Asked) -> None:
    result = invoke("demo", "--act", "sharing", "--for", "500ms", "--json")
    assert json.loads(result.stdout) == {"sharing": COMPARISON}
    assert result.stderr == ""


def test_answers_that_differ_are_a_failure(
    invoke: Invoke, asked: Asked, shell: Callable[..., None]
) -> None:
    shell("spark.compare", compare_flow=lambda _, **o: {**COMPARISON, "equal": False})
    assert invoke("demo", "--act", "sharing", "--for", "500ms").exit_code == 1


def test_a_run_that_ends_before_its_time_ends_the_demo(invoke: Invoke, asked: Asked) -> None:
    result = invoke("demo", "--for", "20s")
    assert result.exit_code == INTERRUPTED
    assert [what for what, _, _ in asked] == ["run"]
    assert result.stdout == ""


@pytest.mark.parametrize(
    "options",
    [
        ("--act", "third"),
        ("--for", "soon"),
        ("--plot", "surge.jpg"),
        ("--plot", "nowhere/surge.svg"),
        ("--plot", "directory.svg"),
        ("--plot", "surge.svg", "--act", "sharing"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    invoke: Invoke,
    asked: Asked,
    options: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory.svg").mkdir()
    result = invoke("demo", *options)
    assert result.exit_code == 2
    assert asked == []


def test_the_flow_of_the_surge_is_one_unit_with_all_kinds_of_terms() -> None:
    flow = read_flow(FLOW)
    assert len(flow.units()) == 1
    queries = {query.name: query for query in flow.spec().queries}
    assert queries["billing"].floor == 1
    assert 0 < queries["dashboard"].floor < 1
    assert any(query.deadline is not None for query in queries.values())
    # No two share a row: whose share is whose would be hard to see.
    assert sum(len(unit.families) for unit in flow.units()) == len(NAMES)


def test_a_flow_file_with_other_options_is_a_flow_file(tmp_path: Path) -> None:
    flow = read_flow(write_flow(tmp_path / "new", "surge", {"rate": 17, "surge": 9}))
    options = flow.spec().readers["readings"].options
    assert (options["rate"], options["surge"], options["seed"]) == ("17", "9", "7")


def test_rates_follow_what_the_machine_can_do() -> None:
    small, large = Machine(costs=COSTS, cores=2.0), Machine(costs=COSTS, cores=16.0)
    # Reading takes 2 us and the queries 259 us of a processor.
    assert small.rows_per_second == pytest.approx(2 / 261e-6)
    assert large.rates().usual == pytest.approx(8 * small.rates().usual, rel=0.01)
    assert small.rates().usual * small.rates().times > 1.5 * small.rows_per_second
