"""What tables cannot do is refused with one error, and parts say how a node is fed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.shed.networks import figure_1

from evenflow.errors import NetworkError
from evenflow.shed.fit.cut import cut
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query
from evenflow.shed.program import program_of


def network(nodes: str, queries: dict[str, str], **operators: tuple[str, ...]) -> Network:
    """Return a network of operators given as (node, input, ...)."""
    return Network(
        nodes={name: Node(capacity=1.0) for name in nodes},
        operators={
            name: Operator(
                node=node,
                inputs=tuple(inputs),
                cost=1.0,
                selectivity=1.0 if len(inputs) > 1 else 0.5,
                kind=OperatorKind.UNION if len(inputs) > 1 else OperatorKind.FILTER,
            )
            for name, (node, *inputs) in operators.items()
        },
        queries={name: Query(output=output) for name, output in queries.items()},
    )


FAN_IN = network("ABC", {"q": "u"}, a=("A", "in1"), b=("B", "in2"), u=("C", "a", "b"))
CIRCLE = network("AB", {"q": "c"}, a=("A", "in"), b=("B", "a"), c=("A", "b"))
APART = network("AB", {"q": "u"}, a=("A", "in"), b=("B", "in"), u=("B", "a", "b"))
NEVER = replace(
    figure_1(),
    operators={**figure_1().operators, "b1": replace(figure_1().operators["b1"], never=True)},
)
FLOOR = replace(figure_1(), queries={**figure_1().queries, "q2": Query(output="b2", floor=0.1)})
NOTHING = replace(figure_1(), nodes={"A": Node(capacity=1.0), "B": Node(capacity=0.0)})


@pytest.mark.parametrize(
    ("refused", "place", "named"),
    [
        (FAN_IN, ("nodes", "C"), "fed by 2 nodes (A, B)"),
        (CIRCLE, ("nodes", "A"), "feed one another"),
        (APART, ("nodes", "A"), "branches of in"),
        (NEVER, ("operators", "b1", "shed"), "scales every input"),
        (FLOOR, ("queries", "q2", "floor"), "no floors"),
        (NOTHING, ("nodes", "B", "capacity"), "above 0"),
    ],
    ids=["fan-in", "cycle", "meeting", "never", "floor", "capacity"],
)
@pytest.mark.parametrize("method", ["c-fit", "d-fit"])
def test_what_tables_cannot_do_is_refused(
    refused: Network, place: tuple[str, ...], named: str, method: str
) -> None:
    with pytest.raises(NetworkError) as caught:
        cut(program_of(refused), method)
    assert caught.value.code == "method.unsupported"
    assert caught.value.place == place
    assert method in str(caught.value)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint is not None


def test_branches_that_a_gate_lets_through_apart_cannot_meet_below() -> None:
    apart = network("AB", {"q": "u"}, a=("A", "in"), b=("A", "a"), c=("A", "a"), u=("B", "b", "c"))
    parts = cut(program_of(apart))
    assert parts["B"].dimensions == ("b->u",)
    assert parts["A"].links[0].gain.tolist() == [[0.25]]


def test_every_gated_branch_is_a_dimension_of_the_child() -> None:
    split = network("AB", {"q": "b", "r": "c"}, a=("A", "in"), b=("B", "a"), c=("B", "a"))
    parts = cut(program_of(split))
    assert list(parts) == ["A", "B"]
    assert parts["A"].heads == ("in", "a->b", "a->c")
    assert parts["A"].taps == ()
    assert parts["A"].own_gates == ()
    assert np.array_equal(parts["A"].links[0].gain, [[0, 1, 0], [0, 0, 1]])
    assert parts["B"].taps == (0, 1)


def test_gates_whose_tuples_stay_are_own_gates() -> None:
    both = network("AB", {"q": "b", "r": "c"}, a=("A", "in"), b=("A", "a"), c=("B", "a"))
    part = cut(program_of(both))["A"]
    assert part.heads == ("in", "a->c")
    assert part.own_gates == ("a->b",)
    assert part.taps == (0,)


def test_an_input_of_a_lower_node_is_a_dimension_of_all_above() -> None:
    lower = network("AB", {"q": "b", "r": "c"}, a=("A", "in1"), b=("B", "a"), c=("B", "in2"))
    parts = cut(program_of(lower))
    assert parts["A"].dimensions == ("in1", "in2")
    assert parts["B"].dimensions == ("in2", "a->b")
    assert parts["B"].inlets == (True, False)
    assert parts["A"].load[1] == 0.0
    assert parts["A"].links[0].gain.tolist() == [[0.0, 1.0], [0.5, 0.0]]


def test_merges_in_a_row_are_counted() -> None:
    merging = network(
        "AB",
        {"q": "c"},
        a=("A", "in1"),
        b=("A", "in2"),
        u=("A", "a", "b"),
        v=("A", "u", "in3"),
        c=("B", "v"),
    )
    assert cut(program_of(merging))["A"].merges == 1
