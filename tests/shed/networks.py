"""Networks that several tests use."""

from __future__ import annotations

from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query


def figure_1() -> Network:
    """Section 1.1: two chains over two nodes."""
    return Network(
        nodes={"A": Node(capacity=1.0), "B": Node(capacity=1.0)},
        operators={
            "a1": Operator(node="A", inputs=("in1",), cost=1.0),
            "a2": Operator(node="A", inputs=("in2",), cost=2.0),
            "b1": Operator(node="B", inputs=("a1",), cost=3.0),
            "b2": Operator(node="B", inputs=("a2",), cost=1.0),
        },
        queries={"q1": Query(output="b1"), "q2": Query(output="b2")},
    )


COSTS = (2.0, 3.0, 5.0, 7.0, 11.0, 13.0)
SELECTIVITIES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
WEIGHTS = (1.0, 2.0, 3.0, 4.0)


def figure_3(capacity: float = 1.0) -> Network:
    """Section 3.2: two levels of splits on one node."""
    feeds = {"o1": "in", "o2": "o1", "o3": "o2", "o4": "o2", "o5": "o1", "o6": "o1"}
    return Network(
        nodes={"N": Node(capacity=capacity)},
        operators={
            name: Operator(node="N", inputs=(feed,), cost=cost, selectivity=selectivity)
            for (name, feed), cost, selectivity in zip(
                feeds.items(), COSTS, SELECTIVITIES, strict=True
            )
        },
        queries={
            f"q{i}": Query(output=output, weight=weight)
            for i, (output, weight) in enumerate(
                zip(("o3", "o4", "o5", "o6"), WEIGHTS, strict=True), 1
            )
        },
    )


def figure_4(kind: OperatorKind, windows: tuple[float, ...] = ()) -> Network:
    """Section 3.3: two streams merge."""
    merge = Operator(
        node="N",
        inputs=("o1", "o2"),
        cost=5.0,
        selectivity=0.25 if windows else 1.0,
        kind=kind,
        windows=windows,
    )
    return Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "o1": Operator(node="N", inputs=("in1",), cost=2.0, selectivity=0.9),
            "o2": Operator(node="N", inputs=("in2",), cost=3.0, selectivity=0.8),
            "o3": merge,
            "o4": Operator(node="N", inputs=("o3",), cost=7.0, selectivity=0.6),
        },
        queries={"q": Query(output="o4", weight=2.0)},
    )


def figure_7() -> Network:
    """Section 6.2.2: one input, a shared operator of cost 1, branches of cost 2 and 5."""
    return Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "o": Operator(node="N", inputs=("in",), cost=1.0),
            "top": Operator(node="N", inputs=("o",), cost=2.0),
            "bottom": Operator(node="N", inputs=("o",), cost=5.0),
        },
        queries={"q1": Query(output="top"), "q2": Query(output="bottom")},
    )
