"""Staying FIT, section 6 and table 3: feasible input tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.shed.fit.small_trees import optimum, value_of
from tests.shed.fit.test_merge_inputs import chains
from tests.shed.networks import figure_1, figure_7

from evenflow.shed.fit.central import c_fit
from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.make_table import make_table
from evenflow.shed.fit.mapping import head_flows, merge_tails
from evenflow.shed.fit.realise import local_flows
from evenflow.shed.fit.survey import survey_of, terms_of_root
from evenflow.shed.fit.table import inside_triangle
from evenflow.shed.fit.tree import plan_tree
from evenflow.shed.linear.lp import Lp
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query
from evenflow.shed.program import program_of


def test_6_2_1_the_printed_triangle_loses_the_bound_and_the_scaled_one_keeps_it() -> None:
    """One node, costs 3 and 1, weights 4 and 1: at rates (0.2, 0.9) the optimum is 1.2.

    Departure: an entry goes only if everything up to the next entries fits, too.
    """
    network = Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "a": Operator(node="N", inputs=("in1",), cost=3.0),
            "b": Operator(node="N", inputs=("in2",), cost=1.0),
        },
        queries={"q": Query(output="a", weight=4.0), "r": Query(output="b")},
    )
    part = cut(program_of(network))["N"]
    survey = survey_of(part, {})
    terms = terms_of_root(survey, np.ones(2), 0.1, 100_000)
    table = make_table(part, replace(terms, strains=None), {})
    assert table is not None
    assert table.ceilings is not None
    strains = np.array(survey.strains)
    below = np.all(table.rates <= [0.2, 0.9], axis=1)
    printed = below & ~inside_triangle(table.rates, strains)
    scaled = below & ~inside_triangle(table.ceilings, strains)
    assert table.scores[printed].max(initial=0.0) == 0.0
    assert table.scores[scaled].max() >= 0.9 * 1.2
    assert np.count_nonzero(scaled) < np.count_nonzero(below)


def test_6_2_1_a_leaf_with_siblings_must_not_exclude_its_triangle() -> None:
    """The paper lets every leaf exclude. Where siblings compete for a parent, 0 may be best.

    Departure: entries go at the leaf only if it has all taps of the tree, else at the root.
    """
    network = Network(
        nodes={name: Node(capacity=1.0) for name in "ABC"},
        operators={
            "a1": Operator(node="A", inputs=("in1",), cost=1.0),
            "a2": Operator(node="A", inputs=("in2",), cost=1.0),
            "b": Operator(node="B", inputs=("a1",), cost=0.1),
            "c": Operator(node="C", inputs=("a2",), cost=0.1),
        },
        queries={"q": Query(output="b"), "r": Query(output="c", weight=10.0)},
    )
    program = program_of(network)
    index = c_fit(program, np.ones(2), 0.1, fill=False)
    (tree,) = index.trees
    assert tree.terms["B"].strains is None
    assert tree.tables["B"].rates.min() == 0.0
    rates = np.ones(2)
    value = value_of(program, index.select(rates).flows, rates)
    assert value >= 0.9 * optimum(Lp(network), program, rates)


def test_6_2_2_the_branch_with_the_least_loss_per_load_is_shed_first() -> None:
    """Figure 7: at rate 0.2, 60 % of the bottom branch goes, and 0.28 is left, not 0.25."""
    part = cut(program_of(figure_7()))["N"]
    assert [part.own_gates[gate] for gate in part.drops.gates] == ["o->bottom", "o->top"]
    assert part.drops.ratios == pytest.approx((1 / 5, 1 / 2))
    flows = local_flows(part, np.array([0.2]))
    assert flows["o->bottom"] / flows["in"] == pytest.approx(0.4)
    assert flows["o->top"] == pytest.approx(0.2)
    assert part.drops.settle(np.array([[0.2]]), 1.0)[1] == pytest.approx(0.28)


def test_6_2_2_local_plans_are_transparent_to_the_parent() -> None:
    """Figure 7: without local plans the rate is at most 1/8, with them 1/3 before the top gives."""
    part = cut(program_of(figure_7()))["N"]
    closed = part.drops.settle(np.array([[1 / 8], [1 / 3]]), 1.0)[0]
    assert closed == pytest.approx([0.0, 1.0])


def test_6_3_rows_of_a_child_are_mapped_to_the_inputs_of_the_parent() -> None:
    """Rates are divided by selectivities, scores stay, and what the parent cannot carry goes."""
    network = figure_1()
    slower = replace(network.operators["a1"], selectivity=0.5)
    network = replace(network, operators={**network.operators, "a1": slower})
    parts = cut(program_of(network))
    tree = plan_tree(parts, ["A", "B"], {"in1": 9.0, "in2": 9.0}, 0.1)
    mine, its = tree.tables["A"], tree.tables["B"]
    row = mine.choices[:, 0]
    assert np.allclose(mine.rates, its.rates[row] / [0.5, 1.0])
    assert np.array_equal(mine.scores, its.scores[row])
    assert np.all(mine.rates @ [1.0, 2.0] <= 1.0 + 1e-9)


def test_6_3_a_join_takes_pairs_of_rates_that_give_the_output() -> None:
    """Pairs are those with r_i * s * w_j + r_j * s * w_i = r.

    Departure: finitely many pairs, with shares so close that the bound holds.
    """
    network = Network(
        nodes={"A": Node(capacity=1.0), "B": Node(capacity=1.0)},
        operators={
            "j": Operator(
                node="A",
                inputs=("in1", "in2"),
                cost=0.1,
                selectivity=0.25,
                kind=OperatorKind.JOIN,
                windows=(2.0, 8.0),
            ),
            "b": Operator(node="B", inputs=("j",), cost=1.0),
        },
        queries={"q": Query(output="b")},
    )
    part = cut(program_of(network))["A"]
    (tail,) = merge_tails(part)
    pairs = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    flows = head_flows(part, 3, {"B": np.ones((3, 1)), tail: pairs})
    assert np.allclose(flows @ [0.25 * 8.0, 0.25 * 2.0], 1.0)
    assert np.allclose(flows[:, 0] * 2.0, pairs[:, 0])


def test_6_3_scores_of_several_children_add_up() -> None:
    network = Network(
        nodes={name: Node(capacity=1.0) for name in "ABC"},
        operators={
            "a": Operator(node="A", inputs=("in",), cost=0.5),
            "b": Operator(node="B", inputs=("a",), cost=2.0),
            "c": Operator(node="C", inputs=("a",), cost=1.0),
        },
        queries={"q": Query(output="b"), "r": Query(output="c")},
    )
    parts = cut(program_of(network))
    tree = plan_tree(parts, list(parts), {"in": 9.0}, 0.1)
    table = tree.tables["A"]
    below = [tree.tables[link.child] for link in parts["A"].links]
    total = sum(each.scores[table.choices[:, i]] for i, each in enumerate(below))
    assert np.allclose(table.scores, total)
    demands = [each.rates[table.choices[:, i], 0] for i, each in enumerate(below)]
    assert np.allclose(table.rates[:, 0], np.maximum(*demands))


@pytest.mark.parametrize("rates", [(0.9, 0.9), (0.3, 0.9), (0.05, 2.0), (2.0, 0.05)])
def test_6_4_infeasible_rates_are_served_by_the_best_entry_below_them(
    rates: tuple[float, float],
) -> None:
    program = program_of(figure_1())
    index = c_fit(program, np.full(2, 9.0), 0.1, fill=False)
    table = index.trees[0].tables["A"]
    chosen = index.select(np.array(rates))
    below = np.all(table.rates <= rates, axis=1)
    assert program.value @ chosen.flows == pytest.approx(table.scores[below].max())


def test_8_2_4_two_inputs_need_about_as_many_entries_as_in_table_3() -> None:
    """Table 3: 46 entries for two inputs at 10 %. Costs as in figure 9 (b), in milliseconds."""
    program = program_of(chains((0.064, 0.032), (0.032, 0.064)))
    index = c_fit(program, np.full(2, 1000.0), 0.1)
    assert index.kept == pytest.approx(0.9)
    assert 30 <= index.entries <= 60
