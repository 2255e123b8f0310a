"""Inputs that are alike are planned as one, and lose nothing by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.shed.fit.small_trees import optimum, value_of
from tests.shed.networks import figure_1

from evenflow.shed.fit.central import c_fit
from evenflow.shed.fit.merge_inputs import merge_inputs
from evenflow.shed.linear.lp import Lp
from evenflow.shed.network import Network, Node, Operator, Query
from evenflow.shed.program import program_of


def chains(*costs: tuple[float, float], weights: tuple[float, ...] = ()) -> Network:
    """Return chains over nodes A and B."""
    operators, queries = {}, {}
    for i, (a, b) in enumerate(costs, 1):
        operators[f"a{i}"] = Operator(node="A", inputs=(f"in{i}",), cost=a)
        operators[f"b{i}"] = Operator(node="B", inputs=(f"a{i}",), cost=b)
        queries[f"q{i}"] = Query(output=f"b{i}", weight=weights[i - 1] if weights else 1.0)
    nodes = {"A": Node(capacity=1.0), "B": Node(capacity=1.0)}
    return Network(nodes=nodes, operators=operators, queries=queries)


def test_alike_is_equal_in_proportion() -> None:
    program = program_of(chains((1, 2), (2, 4), (2, 1), (2, 4), weights=(1, 2, 1, 1)))
    merged = merge_inputs(program)
    assert merged.representative == {"in2": "in1"}
    assert merged.network.inputs == ("in1", "in3", "in4")
    assert merged.shares.tolist() == [[1, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_nothing_is_merged_that_differs() -> None:
    program = program_of(figure_1())
    assert merge_inputs(program).network is program.network


def test_plans_of_merged_inputs_keep_the_bound() -> None:
    program = program_of(chains((1, 2), (2, 1), (2, 4), (4, 2), weights=(1, 1, 2, 2)))
    lp = Lp(program.network)
    index = c_fit(program, np.full(4, 3.0), 0.1)
    assert len(index.parts["A"].dimensions) == 2
    for rates in np.random.default_rng(1).random((100, 4)):
        value = value_of(program, index.select(rates).flows, rates)
        assert value >= 0.9 * optimum(lp, program, rates) - 1e-9


def test_a_split_at_which_nothing_arrives_is_a_split() -> None:
    """Its gates have no place in a network from which it is gone."""
    hidden = chains((1, 0), (1, 0))
    operators = {
        **hidden.operators,
        "a1": Operator(node="A", inputs=("in1",), cost=1.0, selectivity=0.0),
        "a2": Operator(node="A", inputs=("in2",), cost=1.0, selectivity=0.0),
        "c2": Operator(node="B", inputs=("a2",), cost=1.0),
    }
    queries = {**hidden.queries, "r2": Query(output="c2")}
    program = program_of(Network(nodes=hidden.nodes, operators=operators, queries=queries))
    assert merge_inputs(program).representative == {}
    c_fit(program, np.ones(2), 0.1)


def test_inputs_without_value_are_not_merged() -> None:
    """They may have all the queries that there are."""
    dead = chains((1, 0), (1, 0))
    operators = {name: replace(each, selectivity=0.0) for name, each in dead.operators.items()}
    program = program_of(replace(dead, operators=operators, queries={"q": Query(output="b2")}))
    assert merge_inputs(program).network is program.network
    c_fit(program, np.ones(2), 0.1)
