"""Which arcs get gates, and their names."""

from __future__ import annotations

from tests.shed.networks import figure_1, figure_3

from evenflow.shed.gate import all_gates, network_gates
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query


def network(queries: dict[str, str], **inputs_of: tuple[str, ...]) -> Network:
    """Return a network on one node; operators with two inputs are unions."""
    return Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            name: Operator(
                node="N",
                inputs=inputs,
                cost=1.0,
                kind=OperatorKind.UNION if len(inputs) > 1 else OperatorKind.FILTER,
            )
            for name, inputs in inputs_of.items()
        },
        queries={name: Query(output=output) for name, output in queries.items()},
    )


def names(network: Network) -> list[str]:
    return [gate.name for gate in network_gates(network)]


def changed(network: Network, **operators: Operator) -> Network:
    return Network(
        nodes=network.nodes,
        operators={**network.operators, **operators},
        queries=network.queries,
    )


def test_chains_have_gates_on_their_inputs() -> None:
    assert names(figure_1()) == ["in1", "in2"]


def test_branches_that_merge_again_are_no_split() -> None:
    diamond = network({"q": "u"}, a=("in",), b=("a",), c=("a",), u=("b", "c"))
    assert names(diamond) == ["in"]


def test_branches_that_merge_beside_another_share_a_gate() -> None:
    beside = network({"q": "u", "r": "d"}, a=("in",), b=("a",), c=("a",), d=("a",), u=("b", "c"))
    assert names(beside) == ["in", "a->b+c", "a->d"]
    assert [len(gate.arcs) for gate in network_gates(beside)] == [1, 2, 1]


def test_an_input_that_feeds_two_operators_has_a_gate_on_each_arc() -> None:
    assert names(network({"q": "a", "r": "b"}, a=("in",), b=("in",))) == ["in->a", "in->b"]
    assert names(network({"q": "u"}, a=("in",), b=("in",), u=("a", "b"))) == ["in"]


def test_a_stream_united_with_itself_has_one_gate() -> None:
    assert names(network({"q": "u"}, u=("in", "in"))) == ["in"]


def test_an_output_beside_a_branch_has_a_gate() -> None:
    assert names(network({"q1": "a", "q2": "b"}, a=("in",), b=("a",))) == ["in", "a->b", "a->q1"]
    assert names(network({"q1": "a", "q2": "a"}, a=("in",))) == ["in", "a->q1", "a->q2"]


def test_an_operator_that_nobody_asks_for_is_a_branch() -> None:
    assert names(network({"q": "a"}, a=("in",), dead=("a",))) == ["in", "a->dead", "a->q"]


def test_never_forbids_all_gates_before_an_operator() -> None:
    split = figure_3()
    o3 = Operator(node="N", inputs=("o2",), cost=1.0, never=True)
    assert names(changed(split, o3=o3)) == ["o1->o5", "o1->o6", "o2->o4"]
    assert len(all_gates(split)) == len(all_gates(changed(split, o3=o3)))


def test_gates_before_an_aggregate_drop_windows() -> None:
    split = network({"q": "b", "r": "c"}, a=("in",), b=("a",), c=("a",))
    b = Operator(node="N", inputs=("a",), cost=1.0, kind=OperatorKind.AGGREGATE)
    windows = {gate.name: gate.windows for gate in network_gates(changed(split, b=b))}
    assert windows == {"in": True, "a->b": True, "a->c": False}
