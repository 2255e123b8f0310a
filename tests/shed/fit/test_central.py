"""`c-fit` on whole networks: what fits, what is kept, and what it says about it.

`make test` tries 30 small trees with 40 rates, `make shed-test` 1,000 with 1,000.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from tests.shed.fit.small_trees import (
    can_be_cut,
    optimum,
    rates_around,
    small_tree,
    value_of,
)
from tests.shed.fit.test_cut import network
from tests.shed.fit.test_merge_inputs import chains
from tests.shed.random_network import random_network

from evenflow.shed.fit.central import c_fit
from evenflow.shed.fit.exchange.distributed import d_fit
from evenflow.shed.linear.exact import Exact
from evenflow.shed.linear.lp import Lp
from evenflow.shed.network import Network, Node
from evenflow.shed.network_data import network_from_data
from evenflow.shed.plan_index import make_index
from evenflow.shed.program import program_of

TREES = int(os.environ.get("EVENFLOW_TREES", "30"))
BLOCK = 30
RATES = int(os.environ.get("EVENFLOW_TREE_RATES", "40"))


def worst(network: Network, epsilon: float, seed: int, most: int, rates: int = RATES) -> float:
    """Check both methods at random rates; return the bound that they promise."""
    program, exact = program_of(network), Exact(network)
    around = rates_around(program, seed, rates)
    largest = around.max(axis=0)
    indexes = [
        c_fit(program, largest, epsilon, most_entries=most),
        c_fit(program, largest, epsilon, most_entries=most, fill=False, merge=False),
    ]
    spread = d_fit(program, largest, epsilon, most_entries=most)
    for rate in around:
        wanted = optimum(exact, program, rate)
        found = [(index.select(rate).flows, index.kept) for index in indexes]
        for flows, kept in (*found, (spread.select(rate), spread.kept)):
            value = value_of(program, flows, rate)
            assert value >= kept * wanted * (1 - 1e-6) - 1e-9, (seed, rate)
    return indexes[0].kept


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, TREES, BLOCK))
def test_plans_of_small_trees_fit_and_keep_epsilon(first: int) -> None:
    seeds = range(first, min(first + BLOCK, TREES))
    able = {seed: small_tree(seed) for seed in seeds if can_be_cut(small_tree(seed))}
    assert len(able) > len(seeds) / 2
    kept = [worst(network, 0.3, seed, most=1000) for seed, network in able.items()]
    assert np.mean([each >= 0.7 - 1e-9 for each in kept]) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, TREES // 10, BLOCK))
def test_plans_of_any_tree_fit_and_keep_what_they_promise(first: int) -> None:
    for seed in range(first, min(first + BLOCK, TREES // 10)):
        network = network_from_data(random_network(seed, tree=True))
        if can_be_cut(network):
            worst(network, 0.3, seed, most=60, rates=RATES // 5)


def test_larger_rates_are_those_that_were_planned_for() -> None:
    program = program_of(chains((1, 2), (2, 1)))
    index = c_fit(program, np.array([0.5, 0.5]), 0.1)
    within = index.select(np.array([0.5, 0.5])).flows
    assert np.array_equal(index.select(np.array([5.0, 0.5])).flows, within)


def test_without_room_for_a_bound_none_is_promised() -> None:
    program = program_of(chains(*[(1.0, 2.0 + i) for i in range(6)]))
    index = c_fit(program, np.ones(6), 0.1, most_entries=500)
    assert index.kept == 0.0
    assert 0 < index.entries <= 500
    assert len(index.trees[0].trials) > 1


def test_what_strains_nothing_is_open_and_what_brings_nothing_is_closed() -> None:
    program = program_of(chains((1, 2), (0, 0)))
    index = c_fit(program, np.full(2, 9.0), 0.1)
    flows = index.select(np.array([9.0, 7.0])).flows
    assert flows[1] == 7.0
    assert flows[0] == pytest.approx(0.5, rel=0.1)


@pytest.mark.slow
def test_four_inputs_at_a_tenth_keep_the_bound() -> None:
    """The bar of section 8.2.4's second network: costs in milliseconds, two nodes."""
    pairs = [(0.032, 0.016), (0.016, 0.032)] * 2
    program = program_of(chains(*pairs))
    exact = Exact(program.network)
    index = c_fit(program, np.full(4, 1000.0), 0.1, merge=False)
    assert index.kept == pytest.approx(0.9)
    draw = np.random.default_rng(2)
    for rates in draw.random((100, 4)):
        full = (program.unit_load @ rates / program.capacity).max()
        at_boundary = rates * draw.uniform(1.0, 1.3) / full
        value = value_of(program, index.select(at_boundary).flows, at_boundary)
        assert value >= 0.9 * optimum(exact, program, at_boundary) - 1e-9


def test_a_plan_of_several_trees_names_the_entries_of_all_of_them() -> None:
    """One input feeds two nodes that have nothing else in common: one fragment, two trees."""
    apart = network("AB", {"q": "a", "r": "b"}, a=("A", "in"), b=("B", "in"))
    apart = replace(apart, nodes={"A": Node(capacity=1.0), "B": Node(capacity=0.5)})
    assert len(apart.fragments) == 1
    index = make_index(apart, "c-fit", {"in": 9.0}, 0.1)
    told = {rate: index.select({"in": rate}).plan for rate in (0.4, 0.9, 4.0)}
    assert told[0.4] is None
    assert str(told[0.9]).startswith("-+")
    both = [int(entry) for entry in str(told[4.0]).split("+")]
    assert len(both) == 2


@pytest.mark.parametrize("method", ["c-fit", "d-fit"])
def test_nodes_that_nothing_ever_reaches_are_planned_too(method: str) -> None:
    nowhere = network(
        "ABC", {"q": "c", "r": "d"}, a=("A", "x"), b=("B", "a"), c=("C", "b"), d=("A", "x")
    )
    nothing = replace(nowhere.operators["a"], selectivity=0.0)
    nowhere = replace(nowhere, operators={**nowhere.operators, "a": nothing})
    index = make_index(nowhere, method, {"x": 4.0}, 0.1)
    assert index.select({"x": 3.0}).keep == {"x->a": 0.0, "x->d": pytest.approx(1 / 3)}


def test_many_branches_of_a_merge_make_the_division_coarser_not_the_plans_endless() -> None:
    """Eight branches in parts of what 5 % asks for would be 10^13 ways to divide a flow."""
    inputs = [f"in{i}" for i in range(8)]
    merging = network("AB", {"q": "c"}, u=("A", *inputs), c=("B", "u"))
    index = make_index(merging, "c-fit", dict.fromkeys(inputs, 1.0), 0.05)
    assert index.report()["error"] == 1.0
    rates = dict(zip(inputs, (1.0, 1.0, 0.2, 0.0, 0.1, 1.0, 1.0, 0.7), strict=True))
    assert index.select(rates).objective > 0.5 * Lp(merging).plan(rates).objective > 0.0
