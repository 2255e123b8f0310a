"""`solver`, `solver-w`, `c-fit` and `d-fit` in random trees of nodes: feasible, within their bound.

Their plans grow with the power of the number of inputs, so that the trees have one or two. Where a
bound is above epsilon, because tables would be too large, the index says so, and is held to that.
`make test` tries each method in 100 networks with 100 rates, `make shed-test` in 1,000 with 1,000;
larger trees are tried with smaller tables in `tests/shed/fit`.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import pytest
from tests.shed.fit.small_trees import can_be_cut
from tests.shed.proved_optimum import Trial
from tests.shed.random_network import random_network

from evenflow.shed.method import METHODS
from evenflow.shed.network_data import network_from_data
from evenflow.shed.plan_index import make_index

if TYPE_CHECKING:
    from evenflow.shed.plan_index import PlanIndex

NETWORKS = int(os.environ.get("EVENFLOW_METHOD_NETWORKS", "20"))
RATES = int(os.environ.get("EVENFLOW_METHOD_RATES", "50"))
BLOCK = 10
EPSILON = 0.2
AHEAD = sorted(METHODS.keys() - {"exact"})


def _data(seed: int) -> dict[str, Any]:
    return random_network(seed, tree=True, most_inputs=2, most_steps=8)


@cache
def _seeds() -> list[int]:
    """Return trees that tables can be made for: no branches that part and meet on other nodes."""
    able = (seed for seed in count() if can_be_cut(network_from_data(_data(seed))))
    return list(islice(able, NETWORKS))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NETWORKS, BLOCK))
def test_plans_are_feasible_and_within_their_bound(first: int) -> None:
    bounds = [_try(Trial(seed, _data(seed))) for seed in _seeds()[first : first + BLOCK]]
    # If bounds above epsilon were the rule, not much would be tried.
    assert sum(each <= EPSILON * (1 + 1e-9) for each in bounds) > len(bounds) / 2


def _try(trial: Trial) -> float:
    """Return the bound of `c-fit`."""
    indexes = {
        method: make_index(trial.network, method, trial.highest, EPSILON) for method in AHEAD
    }
    bounds = {method: _bound(index) for method, index in indexes.items()}
    for rates in trial.rates(RATES):
        best = trial.optimum(rates)
        assert best is not None
        for method, index in indexes.items():
            trial.assert_within(index.select(rates), method, best.objective, bounds[method])
    return bounds["c-fit"]


def _bound(index: PlanIndex) -> float:
    """Return what an index says that a plan misses at most, which is epsilon if it can be."""
    told = index.report()
    if index.method == "solver-w":
        assert told["expected_error"] <= EPSILON
    elif index.method == "solver":
        assert told["error"] <= EPSILON
    bound: float = told["error"]
    return bound
