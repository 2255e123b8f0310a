"""Every method of planning ahead in random networks: feasible, and within its bound.

Half of the rates lie at load 1.0 to 1.3, where plans differ most. The optimum is that of `exact`:
at all rates its plan must reach a bound of weak duality, which is computed here from the prices
alone. Every tenth time `lp` is asked too. `make test` tries 100 networks with 100 rates for
`exact`; `solver` and `solver-w` plan for fragments of one or two inputs, `c-fit` and `d-fit` are
tried in `tests/shed/fit`, on fewer networks. `make shed-test` tries 1,000 with 1,000, `lp` always.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.shed.oracle import Oracle
from tests.shed.random_network import random_network, random_rates

from evenflow.errors import NetworkError
from evenflow.shed.check import Checker
from evenflow.shed.linear.exact import FragmentExact
from evenflow.shed.linear.lp import Lp
from evenflow.shed.method import METHODS
from evenflow.shed.network_data import network_from_data
from evenflow.shed.plan_index import make_index

if TYPE_CHECKING:
    from evenflow.shed.network import Network
    from evenflow.shed.plan_index import PlanIndex

NETWORKS = int(os.environ.get("EVENFLOW_METHOD_NETWORKS", "20"))
RATES = int(os.environ.get("EVENFLOW_METHOD_RATES", "50"))
BLOCK = 10
LP_EVERY = int(os.environ.get("EVENFLOW_LP_EVERY", "10"))
EPSILON = 0.2
MOST_INPUTS = {"exact": 8}
"""Of a fragment; other methods make tables that grow with the power of it."""
TABLE_INPUTS = 2
TABLES = {"c-fit", "d-fit"}
"""Tried in `tests/shed/fit`, with tables small enough for many networks."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NETWORKS, BLOCK))
def test_plans_are_feasible_and_within_their_bound(first: int) -> None:
    for seed in range(first, min(first + BLOCK, NETWORKS)):
        _try(seed)


def _try(seed: int) -> None:
    # Trees are for methods that know no fan-in; every second network has it.
    data = random_network(seed, tree=seed % 2 == 0)
    network, oracle = network_from_data(data), Oracle(data)
    names = list(network.inputs)
    highest = {name: _alone(oracle, names, name) for name in names}
    indexes = _indexes(network, highest)
    lp, checker, exact = Lp(network), Checker(network), indexes["exact"][0]
    for number in range(RATES):
        drawn = random_rates(seed * 10_000 + number, oracle.fullest, names)
        rates = {name: min(drawn[name], highest[name]) for name in names}
        optimum = _proved(exact, rates)
        if number % LP_EVERY == 0:
            assert lp.plan(rates).objective == pytest.approx(optimum, rel=1e-6, abs=1e-9), seed
        for method, (index, bound) in indexes.items():
            plan = index.select(rates)
            where = (seed, method, rates)
            # An index checks its plans; that it does so is looked at now and then.
            assert number % LP_EVERY or checker.faults(plan) == (), where
            assert plan.objective <= optimum * (1 + 1e-6) + 1e-9, where
            assert plan.objective >= optimum * (1 - bound) * (1 - 1e-9) - 1e-9, where


def _proved(exact: PlanIndex, rates: dict[str, float]) -> float:
    """Return the optimum, after comparing it with what no plan can exceed."""
    value = bound = 0.0
    for fragment in exact.parts:
        assert isinstance(fragment, FragmentExact)
        vector = fragment.program.rate_vector(rates)
        plan, prices = fragment.select_with_bound(vector)
        assert prices is not None
        value += plan.objective
        bound += prices[0] + float(prices[1] @ vector)
    assert value == pytest.approx(bound, rel=1e-6, abs=1e-9)
    return value


def _alone(oracle: Oracle, names: list[str], name: str) -> float:
    """Return the rate at which an input alone brings a node to 1.3 of its capacity."""
    full = oracle.fullest({each: float(each == name) for each in names})
    return 1.3 / full if full > 0 else 1.0


def _indexes(network: Network, highest: dict[str, float]) -> dict[str, tuple[PlanIndex, float]]:
    """Return plans by method, for methods that can plan for the network, with their bounds."""
    widest = max(len(each.inputs) for each in network.fragments)
    found = {}
    for method in sorted(METHODS.keys() - TABLES):
        if widest > MOST_INPUTS.get(method, TABLE_INPUTS):
            continue
        try:
            index = make_index(network, method, highest, EPSILON)
        except NetworkError as exc:
            if exc.code != "method.unsupported":
                raise
            continue
        told = index.report()
        bound = told.get("error", EPSILON)
        if "expected_error" in told:
            assert told["expected_error"] <= EPSILON
        else:
            assert bound <= EPSILON
        found[method] = (index, bound)
    return found


def test_all_methods_have_been_tried() -> None:
    """The networks are such that no method is left out of all of them."""
    tried: set[str] = set()
    for seed in range(20):
        data = random_network(seed, tree=seed % 2 == 0)
        network = network_from_data(data)
        widest = max(len(each.inputs) for each in network.fragments)
        tried |= {m for m in METHODS if widest <= MOST_INPUTS.get(m, TABLE_INPUTS)}
    assert tried | TABLES == set(METHODS)
