"""Among equal optima one is chosen: networks in which there are many."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.shed.networks import figure_1
from tests.shed.oracle import Oracle
from tests.shed.random_network import random_network, random_rates

from evenflow.bench.shed_networks import fan_out
from evenflow.shed.linear.exact import Exact
from evenflow.shed.linear.highs import HighsSolver
from evenflow.shed.linear.lp import Lp
from evenflow.shed.linear.optimum import Optimum, OptimumSearch
from evenflow.shed.linear.solver import Bounds, Solved, Trouble
from evenflow.shed.linear.standard import standard_form
from evenflow.shed.network import Network, Node, Operator, Query
from evenflow.shed.network_data import network_from_data
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers


def coupled() -> Network:
    """Return a network in which the largest share is not where the fewest tuples are dropped.

    N is full with x + z = 1, M with g + 0.8 z = 0.6, and all such flows are worth the same. So
    g = 0.8 x - 0.2: the share g / x grows with x, and so does what is dropped, x - g.
    """
    return Network(
        nodes={"N": Node(capacity=1.0), "M": Node(capacity=0.6)},
        operators={
            "o": Operator(node="N", inputs=("x",), cost=1.0),
            "g": Operator(node="M", inputs=("o",), cost=1.0),
            "h": Operator(node="M", inputs=("o",), cost=0.0),
            "z1": Operator(node="N", inputs=("z",), cost=1.0),
            "z2": Operator(node="M", inputs=("z1",), cost=0.8),
        },
        queries={
            "qg": Query(output="g"),
            "qh": Query(output="h"),
            "qz": Query(output="z2", weight=1.8),
        },
    )


def test_a_share_counts_and_not_how_many_are_dropped() -> None:
    plan = Lp(coupled()).plan({"x": 1.0, "z": 1.0})
    assert plan.keep == pytest.approx({"o->g": 0.6, "o->h": 1.0, "x": 1.0, "z": 0.0}, abs=1e-9)


def test_bases_serve_only_where_they_give_the_largest_share() -> None:
    network = coupled()
    planner, lp = Exact(network), Lp(network)
    draw = random.Random(2)
    for _ in range(200):
        rates = {"x": draw.uniform(0, 1.5), "z": draw.uniform(0, 1.5)}
        assert planner.plan(rates).keep == pytest.approx(lp.plan(rates).keep, abs=1e-7), rates


def test_a_basis_that_breaks_ties_by_shares_serves_nobody() -> None:
    """Where it is right depends on the rates in a way that no basis tells: the solver is asked."""
    planner = Exact(coupled())
    for _ in range(3):
        planner.plan({"x": 1.0, "z": 1.0})
    assert planner.fragments[0].misses == 3


def test_a_share_that_grows_elsewhere_is_not_that_of_a_basis_met_before() -> None:
    """With w on M too, g = 0.8 x + 0.2 - w: for small w the share g / x falls with x, else grows.

    The same basis is feasible at both rates, and nothing but the share tells them apart: values and
    loads are equal, and so is the sign of what it means to drop fewer tuples.
    """
    network = coupled()
    operators = {**network.operators, "w1": Operator(node="M", inputs=("w",), cost=1.0)}
    network = Network(
        nodes={"N": Node(capacity=1.0), "M": Node(capacity=1.0)},
        operators=operators,
        queries={**network.queries, "qw": Query(output="w1", weight=9.0)},
    )
    planner, lp = Exact(network), Lp(network)
    for w, z in ((0.18, 1.0), (0.4, 0.0)):
        rates = {"x": 1.0, "z": 0.7, "w": w}
        wanted = lp.plan(rates).keep
        assert wanted["z"] == pytest.approx(z)
        assert planner.plan(rates).keep == pytest.approx(wanted, abs=1e-7)


class Undecided:
    """A solver that says of columns which cannot move that they are at their lower bounds."""

    def __init__(self, rows: Numbers) -> None:
        self._solver = HighsSolver(rows, 1.0)

    def begin(self) -> None:
        pass

    def maximise(self, objective: Numbers, bounds: Bounds) -> Solved | Trouble:
        found = self._solver.maximise(objective, bounds)
        if isinstance(found, Trouble):
            return found
        lower = np.concatenate([bounds.column_lower, bounds.row_lower])
        upper = np.concatenate([bounds.column_upper, bounds.row_upper])
        return Solved(found.basic, found.at_upper & (lower < upper))


def test_a_basis_met_where_an_input_is_silent_keeps_it_when_it_speaks() -> None:
    """Both bounds of its flow are 0, and the solver may say that it is at either of them."""
    form = standard_form(program_of(figure_1()))
    solver = Undecided(form.matrix[:, : form.flows])
    found = OptimumSearch(form, solver).find(np.array([0.0, 0.1]))
    assert isinstance(found, Optimum)
    flows = found.basis.values(np.array([0.1, 0.1]))[: form.flows] * form.scale
    assert flows == pytest.approx([0.1, 0.1])


def test_equal_branches_need_no_solver_where_what_comes_to_them_is_fixed() -> None:
    network = fan_out(8)
    planner, lp = Exact(network), Lp(network)
    draw = random.Random(4)
    for _ in range(300):
        rates = {"in1": draw.uniform(0, 60.0)}
        assert planner.plan(rates).keep == pytest.approx(lp.plan(rates).keep, abs=1e-7)
    assert planner.fragments[0].misses <= 8


def test_a_basis_met_where_an_input_is_silent_serves_when_it_speaks() -> None:
    planner = Exact(figure_1())
    for rates in ({"in1": 0.0, "in2": 0.0}, {"in1": 0.0, "in2": 0.1}, {"in1": 0.1, "in2": 0.1}):
        assert set(planner.plan(rates).keep.values()) == {1.0}
    assert planner.fragments[0].misses == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 30, 15))
def test_no_equal_optimum_has_less_load_or_larger_shares_by_name(first: int) -> None:
    for seed in range(first, first + 20):
        data = random_network(seed, even=True)
        network, oracle = network_from_data(data), Oracle(data)
        rates = random_rates(seed, oracle.fullest, list(network.inputs))
        plan = Lp(network).plan(rates)
        load = sum(plan.load.values())
        assert oracle.could_be_better(rates, plan.objective, load, dict(plan.keep)) is None, seed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 30, 15))
def test_bases_met_before_break_ties_as_the_solver_does(first: int) -> None:
    for seed in range(first, first + 15):
        data = random_network(seed, even=True)
        network, load = network_from_data(data), Oracle(data).fullest
        planner, lp = Exact(network), Lp(network)
        for number in range(20):
            rates = random_rates(seed * 1000 + number, load, list(network.inputs))
            wanted = lp.plan(rates).keep
            assert planner.plan(rates).keep == pytest.approx(wanted, abs=1e-6), (seed, number)
