"""The benchmark of planning: its networks, its cases, its verdict."""

from __future__ import annotations

import pytest

from evenflow.bench import shed_fit, shed_planning
from evenflow.bench.choice import Only
from evenflow.bench.shed_case import case_of
from evenflow.bench.shed_networks import (
    COSTS,
    SUBSTITUTES,
    by_inputs,
    fan_out,
    figure_9,
    highest_rates,
)
from evenflow.bench.shed_picture import PICTURES, Picture, lines_of
from evenflow.errors import UserError
from evenflow.shed.program import program_of


def test_servers_cost_the_same_and_imbalance_grows() -> None:
    loads = [program_of(figure_9(name)).unit_load for name in COSTS]
    assert all(load.sum(axis=1) == pytest.approx([0.096, 0.096]) for load in loads)
    imbalances = [float(load[0, 0] - load[0, 1]) for load in loads]
    assert imbalances == sorted(imbalances)


@pytest.mark.parametrize("inputs", [2, 4, 8])
def test_more_inputs_share_the_same_cost(inputs: int) -> None:
    network = by_inputs(inputs)
    assert len(network.inputs) == inputs
    assert program_of(network).unit_load.sum(axis=1) == pytest.approx([0.096, 0.096])
    assert set(highest_rates(network)) == set(network.inputs)


def test_fan_out_has_a_gate_for_each_branch() -> None:
    assert len(program_of(fan_out(8)).gates) == 9


@pytest.mark.slow
def test_cases_are_measured() -> None:
    steps: list[str] = []
    result = shed_planning.run(True, steps.append, Only(case="figure-13"))
    assert steps == ["figure-13"]
    assert [case["x"] for case in result["cases"]] == [2, 4, 8, 16] * 2
    assert all(case["error"] <= 0.01 + 1e-9 for case in result["cases"])
    assert result["exact_microseconds_median"] is None
    assert shed_planning.verdict(result) == []


def test_the_worst_network_counts() -> None:
    cases = [
        {"figure": "select", "exact_us": 10.0, "lp_us": 200.0, "solver_us": 150.0, "speedup": 90.0},
        {"figure": "select", "exact_us": 30.0, "lp_us": 300.0, "solver_us": 150.0, "speedup": 40.0},
    ]
    result = shed_planning._summary(cases)
    assert result["exact_microseconds_median"] == 30.0
    assert result["exact_speedup_over_cold_lp"] == 40.0
    assert result["exact_speedup_over_bare_solver"] == 5.0
    assert "below" in shed_planning.verdict(dict(result))[1]


def test_the_summary_has_the_figures_that_bars_are_set_for() -> None:
    chosen = {"figure": "select", "exact_us": 10.0, "lp_us": 200.0, "solver_us": 150.0}
    cases = [
        {**chosen, "speedup": 90.0},
        *(
            case_of("table 3", "", x=x, merged=False, seconds=s, plans=n, error=1, worst_error=e)
            for x, s, n, e in ((4, 0.1, 984, 0.03), (8, 0.6, 31_542, 0.15))
        ),
    ]
    asked = {
        "exact_microseconds_median": 10.0,
        "lp_microseconds_median": 200.0,
        "exact_speedup_over_cold_lp": 90.0,
        "cfit_4_inputs_seconds": 0.1,
        "cfit_8_inputs_seconds": 0.6,
        "cfit_8_inputs_entries": 31_542,
        "cfit_8_inputs_worst_error": 0.15,
    }
    found = shed_planning._summary(cases)
    assert {key: found[key] for key in asked} == asked


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.figure)
def test_every_figure_says_what_stands_for_what_the_paper_does_not_print(picture: Picture) -> None:
    assert SUBSTITUTES[picture.figure]


def test_an_unknown_case_is_told() -> None:
    with pytest.raises(UserError):
        shed_planning.run(True, lambda _: None, Only(case="figure-99"))


@pytest.mark.slow
def test_tables_are_measured_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shed_fit, "PAPER_ENTRIES", {2: 46})
    monkeypatch.setattr(shed_fit, "BOUNDARY_RATES", 100)
    table = shed_planning.run(True, lambda _: None, Only(case="table-3"))
    assert [case["plans"] for case in table["cases"]] == [42, 42]
    assert all(case["worst_error"] <= case["error"] for case in table["cases"])
    changed = shed_planning.run(True, lambda _: None, Only(case="figure-15"))
    assert set(shed_planning.pictures(table)) == {"table-3.svg"}
    drawn = shed_planning.pictures(changed)
    assert set(drawn) == {"figure-15a.svg", "figure-15b.svg", "figure-15c.svg"}
    assert set(changed["substitutes"]) == {"15a", "15b", "15c"}
    assert drawn == shed_planning.pictures(changed)
    assert all(picture.startswith(b"<?xml") for picture in drawn.values())


def test_what_the_paper_prints_is_a_line_of_its_own() -> None:
    (picture,) = (each for each in PICTURES if each.figure == "table 3")
    cases = [
        case_of("table 3", "2 inputs", method=method, x=2, plans=54, paper_entries=46)
        for method in ("c-fit", "c-fit, merged")
    ]
    lines = lines_of(picture, cases)
    assert lines == {"c-fit": [(2, 54)], "paper": [(2, 46)], "c-fit, merged": [(2, 54)]}


def test_tables_of_four_and_eight_inputs_count_unmerged() -> None:
    cases = [
        case_of("table 3", "", x=8, merged=merged, seconds=s, plans=n, error=1.0, worst_error=0.1)
        for merged, s, n in ((False, 11.0, 42_000), (True, 0.1, 54))
    ]
    result = shed_planning._summary(cases)
    assert result["cfit_8_inputs_seconds"] == 11.0
    assert result["cfit_8_inputs_entries"] == 42_000
    assert result["cfit_4_inputs_seconds"] is None
    assert "above" in shed_planning.verdict(result)[0]
    assert "promising nothing" in shed_planning.verdict(result)[0]
