"""`evenflow shed`: what it prints, what it refuses, what it leaves on disk."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from tests.architecture.tree import ROOT
from tests.cli.conftest import invoke

from evenflow.cli.shed import plot
from evenflow.shed.fit import central
from evenflow.shed.fit.exchange import distributed
from evenflow.shed.linear import exact_index
from evenflow.shed.method import METHODS
from evenflow.shed.network import Network, Node, Operator, Query
from evenflow.shed.program import program_of
from evenflow.shed.region import region_index

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke

__all__ = ["invoke"]

FIGURE_1 = """\
evenflow: 1
nodes: {A: {capacity: 1.0}, B: {capacity: 1.0}}
operators:
  a1: {node: A, inputs: [in1], cost: 1.0, selectivity: 1.0}
  a2: {node: A, inputs: [in2], cost: 2.0}
  b1: {node: B, inputs: [a1], cost: 3.0}
  b2: {node: B, inputs: [a2], cost: 1}
queries: {q1: {output: b1, weight: 1.0}, q2: {output: b2}}
"""
RATES = "in1=1,in2=1"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "network.yaml"
    path.write_text(FIGURE_1)
    return path


def data(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_solve_prints_the_best_gates(invoke: Invoke, network: Path) -> None:
    assert data(invoke("shed", "solve", network, "--rates", RATES, "--json")) == {
        "objective": 0.6,
        "keep": {"in1": 0.2, "in2": 0.4},
        "load": {"A": 1.0, "B": 1.0},
        "throughput": {"q1": 0.2, "q2": 0.4},
    }
    text = invoke("shed", "solve", network, "--rates", RATES).stdout
    assert "value 0.6" in text
    assert ["in1", "0.2", "0.8", "tuples"] in [line.split() for line in text.splitlines()]


def test_the_example_is_solved(invoke: Invoke) -> None:
    example = ROOT / "examples" / "network.yaml"
    assert data(invoke("shed", "solve", example, "--rates", RATES, "--json"))["objective"] == 0.6


def test_costs_with_exponents_are_read(invoke: Invoke, network: Path) -> None:
    network.write_text(
        FIGURE_1.replace("cost: 1.0", "cost: 1e-6").replace("cost: 3.0", "cost: 3e0")
    )
    found = data(invoke("shed", "solve", network, "--rates", "in1=1,in2=0", "--json"))
    assert found["load"] == {"A": pytest.approx(1 / 3 * 1e-6), "B": 1.0}


def test_solve_uniform(invoke: Invoke, network: Path) -> None:
    found = data(
        invoke("shed", "solve", network, "--rates", RATES, "--method", "uniform", "--json")
    )
    assert found["keep"] == {"in1": 0.25, "in2": 0.25}
    assert found["objective"] == 0.5


def test_evaluate_prints_loads_and_throughputs(invoke: Invoke, network: Path) -> None:
    found = data(invoke("shed", "evaluate", network, "--rates", RATES, "--json"))
    assert found["load"] == pytest.approx({"A": 3.0, "B": 4 / 3})
    assert found["throughput"] == pytest.approx({"q1": 0.25, "q2": 0.25})
    assert found["overloaded"] == ["A", "B"]
    text = invoke("shed", "evaluate", network, "--rates", RATES, "--keep", "in1=0.2,in2=0.4").stdout
    assert "overloaded" not in text
    assert "value 0.6" in text


TABLE_1 = [
    ("in1=1,in2=1", (3, 4 / 3), (1 / 3, 1 / 3), (1 / 4, 1 / 4), ["A", "B"]),
    ("in1=0.333333333333,in2=0.333333333333", (1, 4 / 3), (1 / 3, 1 / 3), (1 / 4, 1 / 4), ["B"]),
    ("in1=1,in2=0", (1, 3), (1, 0), (1 / 3, 0), ["B"]),
    ("in1=0,in2=0.5", (1, 1 / 2), (0, 1 / 2), (0, 1 / 2), []),
    ("in1=0.2,in2=0.4", (1, 1), (1 / 5, 2 / 5), (1 / 5, 2 / 5), []),
]


@pytest.mark.parametrize(("keep", "load", "out_of_a", "throughput", "overloaded"), TABLE_1)
def test_evaluate_prints_table_1_row_by_row(
    invoke: Invoke,
    network: Path,
    keep: str,
    load: tuple[float, float],
    out_of_a: tuple[float, float],
    throughput: tuple[float, float],
    overloaded: list[str],
) -> None:
    options = ("--rates", RATES, "--keep", keep, "--json")
    found = data(invoke("shed", "evaluate", network, *options))
    assert tuple(found["load"].values()) == pytest.approx(load, abs=1e-9)
    assert (found["output"]["a1"], found["output"]["a2"]) == pytest.approx(out_of_a, abs=1e-9)
    assert tuple(found["throughput"].values()) == pytest.approx(throughput, abs=1e-9)
    assert found["overloaded"] == overloaded


def test_gates_before_an_aggregate_are_told_to_drop_windows(
    invoke: Invoke, network: Path, tmp_path: Path
) -> None:
    network.write_text(FIGURE_1.replace("cost: 3.0", "cost: 3.0, kind: aggregate"))
    options = ("shed", "solve", network, "--rates", RATES)
    found = data(invoke(*options, "--json"))
    assert found["keep"] == {"in1": 0.2, "in2": 0.4}
    assert found["windows"] == ["in1"]
    rows = [line.split() for line in invoke(*options).stdout.splitlines()]
    assert ["gate", "keep", "drop", "drops"] in rows
    assert ["in1", "0.2", "0.8", "windows"] in rows
    assert ["in2", "0.4", "0.6", "tuples"] in rows
    plans = tmp_path / "plans"
    data(invoke("shed", "plan", network, "--max", RATES, "--out", plans, "--json"))
    chosen = data(invoke("shed", "select", plans, "--rates", RATES, "--json"))
    assert chosen["windows"] == ["in1"]


@pytest.mark.parametrize("method", ["exact", "solver", "solver-w"])
def test_plans_are_written_and_selected_from(
    invoke: Invoke, network: Path, tmp_path: Path, method: str
) -> None:
    plans = tmp_path / "plans"
    options = ("--max", RATES, "--epsilon", "0.1", "--method", method, "--out", plans)
    made = data(invoke("shed", "plan", network, *options, "--json"))
    assert made["method"] == method
    assert made["plans"] > 0
    assert made["seconds"] >= 0
    assert made["lp_calls"] > 0
    found = data(invoke("shed", "select", plans, "--rates", "in1=0.7,in2=1", "--json"))
    assert found["objective"] >= 0.9 * 0.6
    assert found["plan"] is not None
    assert set(found) == {"objective", "keep", "load", "throughput", "plan"}
    fits = data(invoke("shed", "select", plans, "--rates", "in1=0.1,in2=0.1", "--json"))
    assert (fits["keep"], fits["plan"]) == ({"in1": 1.0, "in2": 1.0}, None)
    assert "value" in invoke("shed", "select", plans, "--rates", "in1=0.7,in2=1").stdout
    assert "plans" in invoke("shed", "plan", network, *options).stdout


def test_a_picture_shows_regions_and_boundary(
    invoke: Invoke, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "STEPS", 12)
    picture = tmp_path / "plans.svg"
    for _ in range(2):
        before = picture.read_bytes() if picture.exists() else None
        options = ("--max", RATES, "--out", tmp_path / "plans", "--plot", picture)
        data(invoke("shed", "plan", network, *options, "--json"))
        assert before in (None, picture.read_bytes())
    root = ET.fromstring(picture.read_text())
    assert root.tag.endswith("svg")
    assert "feasibility boundary" in picture.read_text()
    wide = tmp_path / "wide.yaml"
    wide.write_text(FIGURE_1.replace("inputs: [a2]", "inputs: [in3]"))
    options = ("--max", "in1=1,in2=1,in3=1", "--out", tmp_path / "wide", "--plot", picture)
    refused = invoke("shed", "plan", wide, *options)
    assert refused.exit_code == 2
    assert not (tmp_path / "wide").exists()


def test_a_workload_is_read(invoke: Invoke, network: Path, tmp_path: Path) -> None:
    network.write_text(
        FIGURE_1 + "rates: {in1: {exponential: 0.05}, in2: {histogram: [[0, 0.9], [0.1, 0.1]]}}\n"
    )
    options = ("--max", RATES, "--epsilon", "0.05", "--out", tmp_path / "plans", "--json")
    likely = data(invoke("shed", "plan", network, "--method", "solver-w", *options))
    network.write_text(FIGURE_1)
    even = data(invoke("shed", "plan", network, "--method", "solver-w", *options))
    assert likely["regions"] < even["regions"]
    assert max(likely["expected_error"], even["expected_error"]) <= 0.05


# --- bad input ------------------------------------------------------------------------------------

BAD_FILES = [
    ("cost: 1.0", "cost: -1.0", "number.invalid", "operators.a1.cost"),
    ("cost: 1.0", "cost: .nan", "number.invalid", "operators.a1.cost"),
    ("cost: 1.0", "cost: .inf", "number.invalid", "operators.a1.cost"),
    ("cost: 1.0, ", "", "config.invalid", "operators.a1.cost"),
    ("cost: 1.0", "cost: much", "config.invalid", "operators.a1.cost"),
    ("selectivity: 1.0", "selectivity: -0.5", "number.invalid", "operators.a1.selectivity"),
    ("selectivity: 1.0", "selectivity: .nan", "number.invalid", "operators.a1.selectivity"),
    ("selectivity: 1.0", "selectivity: null", "config.invalid", "operators.a1.selectivity"),
    ("A: {capacity: 1.0}", "A: {capacity: -1}", "number.invalid", "nodes.A.capacity"),
    ("A: {capacity: 1.0}", "A: {}", "config.invalid", "nodes.A.capacity"),
    ("A: {capacity: 1.0}", "A: {capacity: .inf}", "number.invalid", "nodes.A.capacity"),
    ("node: A, inputs: [in1]", "node: C, inputs: [in1]", "node.unknown", "operators.a1.node"),
    ("inputs: [in1]", "inputs: [b1]", "network.cycle", "operators"),
    ("inputs: [in1]", "inputs: []", "operator.unfed", "operators.a1.inputs"),
    ("output: b1", "output: b9", "query.unfed", "queries.q1.output"),
    ("weight: 1.0", "weight: 0", "number.invalid", "queries.q1.weight"),
    ("weight: 1.0", "floor: 1.5", "number.invalid", "queries.q1.floor"),
    ("weight: 1.0", "wieght: 1.0", "config.invalid", "queries.q1.wieght"),
    ("evenflow: 1", "evenflow: 2", "config.invalid", "evenflow"),
    ("selectivity: 1.0", "kind: sieve", "config.invalid", "operators.a1.kind"),
    ("selectivity: 1.0", "kind: join", "operator.inputs", "operators.a1.inputs"),
]


@pytest.mark.parametrize(("old", "new", "code", "place"), BAD_FILES)
def test_a_wrong_network_is_told_with_its_line(
    invoke: Invoke, network: Path, old: str, new: str, code: str, place: str
) -> None:
    assert old in FIGURE_1
    network.write_text(FIGURE_1.replace(old, new))
    result = invoke("shed", "solve", network, "--rates", RATES)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert any(f"error[{code}]: {network}:" in line and place in line for line in lines), lines


def test_several_faults_are_told_at_once(invoke: Invoke, network: Path) -> None:
    wrong = FIGURE_1.replace("cost: 1.0", "cost: -1.0").replace("output: b2", "output: b9")
    network.write_text(wrong)
    result = invoke("shed", "solve", network, "--rates", RATES)
    assert len([line for line in result.stderr.splitlines() if line.startswith("error")]) == 2


BAD_OPTIONS = [
    (("--rates", "in1=1"), "rate.missing"),
    (("--rates", "in1=1,in2=-1"), "number.invalid"),
    (("--rates", "in1=1,in2=nan"), "number.invalid"),
    (("--rates", "in1=1,in2=inf"), "number.invalid"),
    (("--rates", "in1=1,in2=1e305"), "number.invalid"),
    (("--rates", "in1=1,in2=1,in3=1"), "input.unknown"),
    (("--rates", "in1=1,in2"), "option.invalid"),
    (("--rates", "in1=1,in2=one"), "option.invalid"),
    (("--rates", "in1=1,in1=1,in2=1"), "option.invalid"),
    (("--rates", RATES, "--method", "guess"), "method.unknown"),
]


@pytest.mark.parametrize(("options", "code"), BAD_OPTIONS)
def test_wrong_options_are_told(
    invoke: Invoke, network: Path, options: tuple[str, ...], code: str
) -> None:
    result = invoke("shed", "solve", network, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error[{code}]: ")
    assert len(result.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("keep", "code"),
    [("in3=1", "gate.unknown"), ("in1=2", "number.invalid"), ("in1=nan", "number.invalid")],
)
def test_wrong_gates_are_told(invoke: Invoke, network: Path, keep: str, code: str) -> None:
    result = invoke("shed", "evaluate", network, "--rates", RATES, "--keep", keep)
    assert result.exit_code == 2
    assert f"error[{code}]" in result.stderr


def test_floors_that_cannot_be_met_are_told(invoke: Invoke, network: Path) -> None:
    network.write_text(FIGURE_1.replace("weight: 1.0", "floor: 0.5"))
    result = invoke("shed", "solve", network, "--rates", RATES)
    assert result.exit_code == 2
    assert "error[floors.unmet]" in result.stderr


def test_floors_that_cannot_be_met_at_the_greatest_rates_leave_no_plans(
    invoke: Invoke, network: Path, tmp_path: Path
) -> None:
    network.write_text(FIGURE_1.replace("weight: 1.0", "floor: 0.5"))
    plans = tmp_path / "plans"
    result = invoke("shed", "plan", network, "--max", RATES, "--out", plans)
    assert result.exit_code == 2
    assert "error[floors.unmet]" in result.stderr
    assert not plans.exists()


def test_a_picture_tells_where_floors_do_not_fit(
    invoke: Invoke, network: Path, tmp_path: Path
) -> None:
    """They fit at the greatest rates, where the cheap input serves the floor, and not at others."""
    network.write_text(UNION)
    picture = tmp_path / "plans.svg"
    options = ("--max", RATES, "--out", tmp_path / "plans", "--plot", picture)
    assert invoke("shed", "plan", network, *options).exit_code == 0
    assert "floors do not fit" in picture.read_text()


UNION = """
evenflow: 1
nodes: {N: {capacity: 1.0}}
operators:
  a: {node: N, inputs: [in1], cost: 10.0}
  b: {node: N, inputs: [in2], cost: 1.0}
  u: {node: N, inputs: [a, b], kind: union, cost: 0.0}
queries: {q: {output: u, floor: 0.5}}
"""


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_chosen_plan_is_told_by_its_number(
    invoke: Invoke, network: Path, tmp_path: Path, method: str
) -> None:
    plans = tmp_path / "plans"
    made = invoke("shed", "plan", network, "--max", RATES, "--out", plans, "--method", method)
    assert made.stdout.endswith(f"written to {plans}\n")
    assert re.match(r"plan \d+\n", invoke("shed", "select", plans, "--rates", RATES).stdout)
    rare = invoke("shed", "select", plans, "--rates", "in1=0.01,in2=0.01").stdout
    assert rare.startswith("no plan needed\n")


def test_a_plan_that_exact_has_to_make_says_so(
    invoke: Invoke, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = tmp_path / "plans"
    monkeypatch.setattr(exact_index, "MOST_TRIES", 0)
    invoke("shed", "plan", network, "--max", "in1=0.3,in2=0.1", "--out", plans)
    chosen = invoke("shed", "select", plans, "--rates", RATES).stdout
    assert chosen.startswith("a plan that was made now")


@pytest.mark.parametrize("method", ["solver", "c-fit", "d-fit"])
def test_it_is_told_if_epsilon_may_be_missed_and_why(
    invoke: Invoke, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(region_index.SolverMethod.plan, "__defaults__", (20,))
    for maker in (central.c_fit, distributed.d_fit):
        monkeypatch.setitem(maker.__kwdefaults__ or {}, "most_entries", 10)
    options = ("--max", RATES, "--out", tmp_path / "plans", "--method", method)
    told = invoke("shed", "plan", network, *options, "--epsilon", "0.01").stdout
    assert "more than epsilon may be missed: " in told
    made = data(invoke("shed", "plan", network, *options, "--epsilon", "0.01", "--json"))
    assert made["error"] > 0.01
    assert made["why"]
    kept = data(invoke("shed", "plan", network, *options, "--epsilon", "0.6", "--json"))
    assert "why" not in kept


@pytest.mark.parametrize("method", ["c-fit", "d-fit"])
def test_what_a_method_cannot_plan_for_is_told_with_its_line(
    invoke: Invoke, network: Path, tmp_path: Path, method: str
) -> None:
    """A node that two nodes feed, which only `lp` and `exact` serve."""
    network.write_text(
        FIGURE_1.replace("nodes: {", "nodes: {C: {capacity: 1.0}, ")
        .replace("a2: {node: A", "a2: {node: C")
        .replace("inputs: [a2], cost: 1.0}", "inputs: [a2], cost: 1.0}")
    )
    plans = tmp_path / "plans"
    options = ("--max", RATES, "--out", plans)
    refused = invoke("shed", "plan", network, *options, "--method", method)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error[method.unsupported]: {network}:")
    assert not plans.exists()
    assert invoke("shed", "plan", network, *options, "--method", "exact").exit_code == 0


@pytest.mark.parametrize("rates", ["in1=nan,in2=1", "in1=1,in2=inf", "in1=-1,in2=1", "in1=1"])
def test_wrong_rates_are_told_by_every_command(
    invoke: Invoke, network: Path, tmp_path: Path, rates: str
) -> None:
    plans, more = tmp_path / "plans", tmp_path / "more"
    assert invoke("shed", "plan", network, "--max", RATES, "--out", plans).exit_code == 0
    for words in (
        ("select", plans, "--rates", rates),
        ("evaluate", network, "--rates", rates),
        ("plan", network, "--max", rates, "--out", more),
    ):
        result = invoke("shed", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert re.match(r"error\[(number\.invalid|rate\.missing)\]: ", result.stderr)
    assert not more.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        "{in9: {exponential: 1}}",
        "{in1: {exponential: -1}}",
        "{in1: {exponential: .nan}}",
        "{in1: {histogram: [[1, 0.5], [0, 0.5]]}}",
        "{in1: {histogram: []}}",
    ],
)
def test_a_workload_that_cannot_be_is_told(
    invoke: Invoke, network: Path, tmp_path: Path, wrong: str
) -> None:
    network.write_text(FIGURE_1 + f"rates: {wrong}\n")
    options = ("--max", RATES, "--method", "solver-w", "--out", tmp_path / "plans")
    result = invoke("shed", "plan", network, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{network}:" in result.stderr.splitlines()[0]
    assert not (tmp_path / "plans").exists()


def test_files_of_another_kind_are_named(invoke: Invoke, network: Path, tmp_path: Path) -> None:
    result = invoke("shed", "select", network, "--rates", RATES)
    assert result.exit_code == 2
    assert "a network file, not a file of plans" in result.stderr
    plans = tmp_path / "plans"
    invoke("shed", "plan", network, "--max", RATES, "--out", plans)
    result = invoke("shed", "solve", plans, "--rates", RATES)
    assert result.exit_code == 2
    assert "a file of plans, not a network file" in result.stderr
    assert "shed select" in result.stderr


def test_a_picture_changes_nothing_that_is_told(
    invoke: Invoke, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "STEPS", 12)
    options = ("--max", RATES, "--out", tmp_path / "plans", "--json")
    bare = data(invoke("shed", "plan", network, *options))
    drawn = data(invoke("shed", "plan", network, *options, "--plot", tmp_path / "p.svg"))
    assert {**drawn, "seconds": 0} == {**bare, "seconds": 0}


BAD_PLANNING = [
    (("--max", "in1=1"), "rate.missing"),
    (("--max", "in1=1,in2=-1"), "number.invalid"),
    (("--max", "in1=1,in2=1,in3=1"), "input.unknown"),
    (("--max", "in1=1,in2=1e305"), "number.invalid"),
    (("--max", RATES, "--epsilon", "nan"), "number.invalid"),
    (("--max", RATES, "--epsilon", "-1"), "number.invalid"),
    (("--max", RATES, "--epsilon", "0"), "number.invalid"),
    (("--max", RATES, "--method", "guess"), "method.unknown"),
]


@pytest.mark.parametrize(("options", "code"), BAD_PLANNING)
def test_wrong_planning_leaves_the_old_plans(
    invoke: Invoke, network: Path, tmp_path: Path, options: tuple[str, ...], code: str
) -> None:
    plans = tmp_path / "plans"
    plans.write_text("old")
    result = invoke("shed", "plan", network, "--out", plans, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error[{code}]: ")
    assert "rates." not in result.stderr
    assert plans.read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["network.yaml", "plans"]


def test_what_cannot_be_written_leaves_nothing(
    invoke: Invoke, network: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    for out in (tmp_path / "no" / "plans", directory):
        result = invoke("shed", "plan", network, "--max", RATES, "--out", out)
        assert result.exit_code == 2
        assert "error[config.invalid]" in result.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["directory", "network.yaml"]


BAD_PICTURES = ["plans", "./plans", "network.yaml", "plans.pdf", "picture", "no/p.svg", "d.svg"]


@pytest.mark.parametrize("picture", BAD_PICTURES)
def test_a_picture_that_cannot_be_written_changes_nothing(
    invoke: Invoke, network: Path, tmp_path: Path, picture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "STEPS", 4)
    (tmp_path / "d.svg").mkdir()
    (tmp_path / "plans").write_text("old")
    options = ("--max", RATES, "--out", tmp_path / "plans", "--plot", f"{tmp_path}/{picture}")
    result = invoke("shed", "plan", network, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith("error[config.invalid]: ")
    assert (tmp_path / "plans").read_text() == "old"
    assert network.read_text() == FIGURE_1
    assert {each.name for each in tmp_path.iterdir()} == {"d.svg", "network.yaml", "plans"}


def test_plans_that_cannot_be_written_leave_no_picture(
    invoke: Invoke, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "STEPS", 4)
    picture = tmp_path / "plans.svg"
    for out in (tmp_path / "no" / "plans", tmp_path, network, picture):
        result = invoke("shed", "plan", network, "--max", RATES, "--out", out, "--plot", picture)
        assert result.exit_code == 2
        assert result.stderr.startswith("error[config.invalid]: ")
    assert network.read_text() == FIGURE_1
    assert [each.name for each in tmp_path.iterdir()] == ["network.yaml"]


def test_a_picture_is_drawn_in_the_form_of_its_name(
    invoke: Invoke, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "STEPS", 4)
    for name, begins in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")):
        options = ("--max", RATES, "--out", tmp_path / "plans", "--plot", tmp_path / name)
        data(invoke("shed", "plan", network, *options, "--json"))
        assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"cost":1.0', '"cost":1.5'),
        lambda text: text.replace('"evenflow": 1', '"evenflow": 9'),
        lambda text: "{}",
        lambda text: "\x00",
        lambda text: "[" * 100_000,
    ],
)
def test_damaged_plans_are_told(invoke: Invoke, network: Path, tmp_path: Path, damage: Any) -> None:
    plans = tmp_path / "plans"
    data(invoke("shed", "plan", network, "--max", RATES, "--out", plans, "--json"))
    plans.write_text(damage(plans.read_text()))
    result = invoke("shed", "select", plans, "--rates", RATES)
    assert result.exit_code == 2
    assert result.stderr.startswith("error[config.invalid]")


@pytest.mark.parametrize("other", [b"", b"evenflow: 1\n", b"<svg/>", b"\xff\xfe", b"{}", b"[1]"])
def test_another_file_is_not_called_damaged(invoke: Invoke, tmp_path: Path, other: bytes) -> None:
    (tmp_path / "other").write_bytes(other)
    result = invoke("shed", "select", tmp_path / "other", "--rates", RATES)
    assert result.exit_code == 2
    assert "not a file of plans" in result.stderr


def test_a_picture_without_room_is_refused(invoke: Invoke, network: Path, tmp_path: Path) -> None:
    files = ("--out", tmp_path / "plans", "--plot", tmp_path / "plans.svg")
    result = invoke("shed", "plan", network, "--max", "in1=0,in2=2", *files)
    assert result.exit_code == 2
    assert result.stderr.startswith("error[plot.inputs]: max")
    assert not (tmp_path / "plans").exists()


def test_the_boundary_ends_where_a_node_is_full_of_one_input_alone() -> None:
    network = Network(
        nodes={"A": Node(capacity=1.0), "B": Node(capacity=100.0)},
        operators={
            "a": Operator(node="A", inputs=("x",), cost=1.0),
            "b": Operator(node="B", inputs=("y",), cost=30.0),
        },
        queries={"q": Query(output="a"), "r": Query(output="b")},
    )
    line = plot.boundary(program_of(network), 2.0, 4.0)
    assert [line[0], *line[-2:]] == [(0.0, 10 / 3), (1.0, 10 / 3), (1.0, 0.0)]
    line = plot.boundary(program_of(network), 0.5, 2.0)
    assert [line[0], line[-1]] == [(0.0, 2.0), (0.5, 2.0)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"method":"solver"', '"method":5'),
        ('"plan":1}', '"plan":99999}'),
        ('"plan":1}', '"plan":' + "9" * 400 + "}"),
        ('"plans":[[', '"plans":[[7.5,'),
        ('"nodes":{', '"nodes":5,"other":{'),
    ],
)
def test_wrong_plans_under_a_right_checksum_are_told(
    invoke: Invoke, network: Path, tmp_path: Path, old: str, new: str
) -> None:
    plans = tmp_path / "plans"
    options = ("--max", RATES, "--out", plans, "--method", "solver", "--json")
    data(invoke("shed", "plan", network, *options))
    body = plans.read_text().splitlines()[1]
    assert old in body
    body = json.dumps(json.loads(body.replace(old, new)), sort_keys=True, separators=(",", ":"))
    head = {"evenflow": 1, "kind": "plans", "checksum": hashlib.sha256(body.encode()).hexdigest()}
    plans.write_text(f'{json.dumps(head)[:-1]}, "body":\n{body}\n}}\n')
    result = invoke("shed", "select", plans, "--rates", RATES)
    assert result.exit_code == 2
    assert len([each for each in result.stderr.splitlines() if each.startswith("error[")]) == 1


def test_plans_that_are_not_there_are_told(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("shed", "select", tmp_path / "plans", "--rates", RATES)
    assert result.exit_code == 2
