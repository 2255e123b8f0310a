"""Networks: what is refused, and what is derived."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from tests.shed.networks import figure_1, figure_3

from evenflow.errors import FileError, NetworkError
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query
from evenflow.shed.program import program_of

NODES = {"N": Node(capacity=1.0)}
QUERIES = {"q": Query(output="a")}


def operator(**changed: Any) -> Operator:
    values: dict[str, Any] = {"node": "N", "inputs": ("in",), "cost": 1.0}
    return Operator(**(values | changed))


def made(**changed: Any) -> Network:
    values: dict[str, Any] = {"nodes": NODES, "operators": {"a": operator()}, "queries": QUERIES}
    return Network(**(values | changed))


def node(capacity: Any) -> Node:
    return Node(capacity=capacity)


BAD: list[tuple[str, tuple[str | int, ...], dict[str, Any]]] = [
    *(
        ("number.invalid", ("operators", "a", "cost"), {"operators": {"a": operator(cost=bad)}})
        for bad in (-1.0, math.nan, math.inf, None, True, "1")
    ),
    *(
        (
            "number.invalid",
            ("operators", "a", "selectivity"),
            {"operators": {"a": operator(selectivity=bad)}},
        )
        for bad in (-0.1, math.nan, math.inf, None)
    ),
    *(
        ("number.invalid", ("nodes", "N", "capacity"), {"nodes": {"N": node(bad)}})
        for bad in (-1.0, math.nan, -math.inf, None)
    ),
    *(
        (
            "number.invalid",
            ("queries", "q", "floor"),
            {"queries": {"q": Query(output="a", floor=f)}},
        )
        for f in (-0.1, 1.1, math.nan)
    ),
    *(
        (
            "number.invalid",
            ("queries", "q", "weight"),
            {"queries": {"q": Query(output="a", weight=weight)}},
        )
        for weight in (-1.0, 0.0, math.inf)
    ),
    ("node.unknown", ("operators", "a", "node"), {"operators": {"a": operator(node="M")}}),
    ("query.unfed", ("queries", "q", "output"), {"queries": {"q": Query(output="in")}}),
    ("query.unfed", ("queries", "q", "output"), {"queries": {"q": Query(output="nobody")}}),
    ("operator.unfed", ("operators", "a", "inputs"), {"operators": {"a": operator(inputs=())}}),
    (
        "operator.inputs",
        ("operators", "a", "inputs"),
        {"operators": {"a": operator(inputs=("in", "in2"))}},
    ),
    (
        "operator.inputs",
        ("operators", "a", "inputs"),
        {"operators": {"a": operator(kind=OperatorKind.JOIN, windows=(1.0, 1.0))}},
    ),
    (
        "operator.windows",
        ("operators", "a", "windows"),
        {"operators": {"a": operator(kind=OperatorKind.JOIN, inputs=("in", "in2"))}},
    ),
    (
        "operator.windows",
        ("operators", "a", "windows"),
        {"operators": {"a": operator(windows=(1.0,))}},
    ),
    (
        "number.invalid",
        ("operators", "a", "windows", 1),
        {
            "operators": {
                "a": operator(kind=OperatorKind.JOIN, inputs=("in", "i"), windows=(1.0, -1.0))
            }
        },
    ),
    ("name.invalid", ("operators",), {"operators": {"a": operator(inputs=("in 1",))}}),
    ("name.taken", ("queries", "a"), {"queries": {"a": Query(output="a")}}),
    ("network.empty", ("queries",), {"queries": {}}),
    (
        "network.cycle",
        ("operators", "b"),
        {
            "operators": {
                "a": operator(),
                "b": operator(inputs=("c",)),
                "c": operator(inputs=("b",)),
            }
        },
    ),
]


@pytest.mark.parametrize(("code", "place", "changed"), BAD)
def test_what_is_wrong_is_told_with_its_place(
    code: str, place: tuple[str, ...], changed: dict[str, Any]
) -> None:
    with pytest.raises(NetworkError) as caught:
        made(**changed)
    assert caught.value.code == code
    assert caught.value.place == place
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.place, str(again)) == (code, caught.value.place, str(caught.value))


def test_several_faults_are_told_at_once() -> None:
    with pytest.raises(FileError) as caught:
        made(
            nodes={"N": Node(capacity=-1.0)},
            operators={"a": operator(cost=-1.0, node="M")},
            queries={"q": Query(output="b")},
        )
    codes = [fault.code for fault in caught.value.faults]
    assert codes == ["number.invalid", "number.invalid", "node.unknown", "query.unfed"]


def test_selectivities_that_overflow_are_refused() -> None:
    chain = {
        "a": operator(selectivity=1e200),
        "b": operator(inputs=("a",), selectivity=1e200),
    }
    with pytest.raises(NetworkError):
        program_of(made(operators=chain, queries={"q": Query(output="b")}))


def test_inputs_are_what_is_no_operator() -> None:
    assert figure_1().inputs == ("in1", "in2")
    assert figure_3().inputs == ("in",)


def test_operators_come_after_those_that_feed_them() -> None:
    backwards = made(
        operators={"b": operator(inputs=("a",)), "a": operator()}, queries={"q": Query(output="b")}
    )
    assert backwards.order == ("a", "b")


def test_fragments_share_neither_operator_nor_node_nor_stream() -> None:
    assert len(figure_1().fragments) == 1
    nodes = {name: Node(capacity=1.0) for name in "ABCD"}
    operators = {
        "a": operator(node="A", inputs=("x",)),
        "b": operator(node="B", inputs=("y",)),
        "c": operator(node="A", inputs=("z",)),
        "d": operator(node="C", inputs=("y",)),
    }
    queries = {f"q{name}": Query(output=name) for name in operators}
    parts = Network(nodes=nodes, operators=operators, queries=queries).fragments
    assert [tuple(part.operators) for part in parts] == [("a", "c"), ("b", "d")]
    assert [tuple(part.nodes) for part in parts] == [("A",), ("B", "C")]
    assert [part.inputs for part in parts] == [("x", "z"), ("y",)]
    assert [tuple(part.queries) for part in parts] == [("qa", "qc"), ("qb", "qd")]


def test_units_without_drops_are_per_input() -> None:
    program = program_of(figure_1())
    assert program.unit_load.tolist() == [[1.0, 2.0], [3.0, 1.0]]
    assert program.unit_throughput.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert program.unit_value.tolist() == [1.0, 1.0]
    assert program.fits(program.rate_vector({"in1": 0.2, "in2": 0.4}))
    assert not program.fits(program.rate_vector({"in1": 0.3, "in2": 0.4}))
