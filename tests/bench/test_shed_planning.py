"""The benchmark of planning: its networks, its cases, its verdict."""

from __future__ import annotations

import pytest

from evenflow.bench import shed_planning
from evenflow.bench.choice import Only
from evenflow.bench.shed_networks import COSTS, by_inputs, fan_out, figure_9, highest_rates
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
    assert [case["x"] for case in result["cases"]] == [2, 4, 8, 16]
    assert all(case["error"] <= 0.01 for case in result["cases"])
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


def test_an_unknown_case_is_told() -> None:
    with pytest.raises(UserError):
        shed_planning.run(True, lambda _: None, Only(case="figure-99"))
