"""Loads and throughputs of given gates, with and without overload."""

from __future__ import annotations

import math

import pytest
from tests.shed.networks import figure_1, figure_3

from evenflow.errors import NetworkError
from evenflow.shed.evaluate import evaluate
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query


def test_gates_may_stand_on_any_arc() -> None:
    outcome = evaluate(figure_1(), {"in1": 1, "in2": 0}, {"in1": 0.5, "a1->b1": 0.5, "b1->q1": 0.5})
    assert outcome.load == pytest.approx({"A": 0.5, "B": 0.75})
    assert outcome.throughput["q1"] == pytest.approx(0.125)


def test_a_slow_stream_is_served_whole_and_the_rest_shared_in_turn() -> None:
    """Three operators on one node: max-min fair in tuples per second, whatever they cost."""
    operators = {
        name: Operator(node="N", inputs=(f"in_{name}",), cost=cost)
        for name, cost in (("a", 1.0), ("b", 0.25), ("c", 2.0))
    }
    network = Network(
        nodes={"N": Node(capacity=1.0)},
        operators=operators,
        queries={f"q_{name}": Query(output=name) for name in operators},
    )
    outcome = evaluate(network, {"in_a": 0.1, "in_b": 0.5, "in_c": 9.0}, {})
    assert tuple(outcome.throughput.values()) == pytest.approx((0.1, 0.4, 0.4))


def test_operators_of_a_chain_on_one_node_take_turns() -> None:
    """Each tuple is processed twice: the node passes half of what it could once."""
    network = Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "a": Operator(node="N", inputs=("in",), cost=1.0),
            "b": Operator(node="N", inputs=("a",), cost=1.0),
        },
        queries={"q": Query(output="b")},
    )
    outcome = evaluate(network, {"in": 3.0}, {})
    assert outcome.throughput["q"] == pytest.approx(0.5)
    assert outcome.load["N"] == pytest.approx(3.5)


def test_nodes_that_feed_one_another_settle() -> None:
    network = Network(
        nodes={"A": Node(capacity=1.0), "B": Node(capacity=1.0)},
        operators={
            "a": Operator(node="A", inputs=("in1",), cost=1.0),
            "b": Operator(node="B", inputs=("a",), cost=1.0),
            "c": Operator(node="A", inputs=("b",), cost=1.0),
            "d": Operator(node="B", inputs=("in2",), cost=1.0),
            "u": Operator(node="A", inputs=("c", "d"), cost=0.0, kind=OperatorKind.UNION),
        },
        queries={"q": Query(output="u")},
    )
    outcome = evaluate(network, {"in1": 2.0, "in2": 2.0}, {})
    assert outcome.throughput["q"] == pytest.approx(1.0, abs=1e-6)


def test_a_node_without_capacity_passes_nothing() -> None:
    network = Network(
        nodes={"N": Node(capacity=0.0)},
        operators={"a": Operator(node="N", inputs=("in",), cost=1.0)},
        queries={"q": Query(output="a")},
    )
    assert evaluate(network, {"in": 1.0}, {}).throughput["q"] == 0.0


@pytest.mark.parametrize(
    ("rates", "keep", "code"),
    [
        ({"in1": 1}, {}, "rate.missing"),
        ({"in1": 1, "in2": -1}, {}, "number.invalid"),
        ({"in1": 1, "in2": math.nan}, {}, "number.invalid"),
        ({"in1": 1e308, "in2": 1e308}, {"a1->b1": 0.0}, "number.invalid"),
        ({"in1": 1, "in2": math.inf}, {}, "number.invalid"),
        ({"in1": 1, "in2": 1, "in3": 1}, {}, "input.unknown"),
        ({"in1": 1, "in2": 1}, {"in3": 1}, "gate.unknown"),
        ({"in1": 1, "in2": 1}, {"in1": 1.5}, "number.invalid"),
        ({"in1": 1, "in2": 1}, {"in1": math.nan}, "number.invalid"),
    ],
)
def test_wrong_rates_and_gates_are_told(
    rates: dict[str, float], keep: dict[str, float], code: str
) -> None:
    with pytest.raises(NetworkError) as caught:
        evaluate(figure_1(), rates, keep)
    assert caught.value.code == code


def test_one_name_stands_for_all_arcs_of_an_input() -> None:
    network = Network(
        nodes={"N": Node(capacity=9.0)},
        operators={name: Operator(node="N", inputs=("in",), cost=1.0) for name in ("a", "b")},
        queries={"q": Query(output="a"), "r": Query(output="b")},
    )
    assert evaluate(network, {"in": 1.0}, {"in": 0.5, "in->b": 0.5}).load["N"] == 0.75
    assert evaluate(figure_3(99.0), {"in": 1.0}, {"in": 0.0}).objective == 0.0
