"""Bases met before serve new rates, and only where they are right."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.shed.networks import figure_1, figure_3, figure_7
from tests.shed.oracle import Oracle
from tests.shed.random_network import random_network, random_rates

from evenflow.errors import NetworkError
from evenflow.shed.linear import exact
from evenflow.shed.linear.exact import Exact
from evenflow.shed.linear.lp import Lp
from evenflow.shed.network import Network
from evenflow.shed.network_data import network_from_data
from evenflow.shed.program import program_of


def grid(network: Network, steps: int = 12, most: float = 2.0) -> list[dict[str, float]]:
    draw = random.Random(1)
    return [{n: draw.uniform(0, most) for n in network.inputs} for _ in range(steps * steps)]


@pytest.mark.parametrize("network", [figure_1(), figure_3(), figure_7()])
def test_few_bases_serve_all_rates(network: Network) -> None:
    planner, lp = Exact(network), Lp(network)
    for rates in grid(network):
        plan = planner.plan(rates)
        assert plan.keep == pytest.approx(lp.plan(rates).keep, abs=1e-9)
    assert planner.fragments[0].misses <= 8


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_of_lp_ties_included(seed: int) -> None:
    data = random_network(seed, floors=seed % 3 == 1, never=seed % 3 == 2)
    network, load = network_from_data(data), Oracle(data).fullest
    planner, lp = Exact(network), Lp(network)
    for i in range(25):
        rates = random_rates(i + 1000 * seed, load, list(network.inputs))
        try:
            wanted = lp.plan(rates)
        except NetworkError:
            with pytest.raises(NetworkError):
                planner.plan(rates)
            continue
        plan = planner.plan(rates)
        assert plan.keep == pytest.approx(wanted.keep, abs=1e-7)
        assert plan.objective == pytest.approx(wanted.objective, abs=1e-9)


def test_a_basis_that_is_not_optimal_is_caught_by_its_duals() -> None:
    """A kept basis is damaged: it says that closed gates are the best."""
    network = figure_1()
    planner = Exact(network)
    rates = {"in1": 1.0, "in2": 1.0}
    planner.plan(rates)
    fragment = planner.fragments[0]
    (region,) = fragment._regions.values()
    constant, by_rate = region.made
    constant[region.flow] = 0.0
    by_rate[region.flow] = 0.0
    fragment._shelf = None
    assert planner.plan(rates).objective == pytest.approx(0.6)
    assert fragment.misses == 2


def test_an_overload_by_a_damaged_basis_is_caught() -> None:
    network = figure_1()
    planner = Exact(network)
    rates = {"in1": 1.0, "in2": 1.0}
    planner.plan(rates)
    fragment = planner.fragments[0]
    (region,) = fragment._regions.values()
    region.made[0][region.flow] = 1.0
    fragment._shelf = None
    assert planner.plan(rates).objective == pytest.approx(0.6)


def test_a_gate_to_which_only_rounding_comes_is_open() -> None:
    """A basis that is computed at rates of 0 gives flows that are not quite 0."""
    program = program_of(figure_1())
    kept = program.fractions([0.05, 0.0], [0.1, 1e-17], [0.1, 0.0])
    assert kept == {"in1": 0.5, "in2": 1.0}


def test_no_more_bases_are_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_BASES", 2)
    network = figure_1()
    planner, lp = Exact(network), Lp(network)
    for rates in grid(network):
        assert planner.plan(rates).objective == pytest.approx(lp.plan(rates).objective)
        assert len(planner.fragments[0]._regions) <= 2


def test_the_bound_of_duals_holds_at_all_rates() -> None:
    """Weak duality: a basis found at some rates bounds the value at all others."""
    network = replace(figure_3())
    planner, lp = Exact(network), Lp(network)
    planner.plan({"in": 1.0})
    for region in planner.fragments[0]._regions.values():
        for rates in grid(network, 5):
            bound = region.bound[0] + region.bound[1][0] * rates["in"]
            assert lp.plan(rates).objective <= bound * (1 + 1e-9)
