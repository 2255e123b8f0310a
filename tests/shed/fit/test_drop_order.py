"""Complementary local plans against a solver: the order of ratios is optimal for one node."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.shed.networks import figure_3, figure_7

from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.drop_order import drop_order
from evenflow.shed.fit.part import Part
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query
from evenflow.shed.program import program_of


def part_of(network: Network) -> Part:
    (part,) = cut(program_of(network)).values()
    return part


def best(part: Part, heads: np.ndarray) -> float | None:
    """Return the most that a node can make of flows that it has to take as they are."""
    own, fixed = len(part.own_gates), len(heads)
    found = linprog(
        -part.value[fixed:],
        A_ub=np.vstack([part.load[fixed:], np.eye(own) - part.own_arriving[:, fixed:]]),
        b_ub=[part.capacity - part.load[:fixed] @ heads, *(part.own_arriving[:, :fixed] @ heads)],
    )
    return float(part.value[:fixed] @ heads - found.fun) if found.status == 0 else None


def gates_behind_a_union() -> Network:
    """Two inputs, a gate on a split before a union, and a split behind it."""
    return Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "a": Operator(node="N", inputs=("in1",), cost=0.2),
            "b": Operator(node="N", inputs=("in2",), cost=0.1, selectivity=0.5),
            "u": Operator(node="N", inputs=("a", "b"), cost=0.3, kind=OperatorKind.UNION),
            "c": Operator(node="N", inputs=("a",), cost=1.5),
            "d": Operator(node="N", inputs=("u",), cost=0.7, selectivity=1.2),
            "e": Operator(node="N", inputs=("u",), cost=2.0, selectivity=2.0),
        },
        queries={
            "q1": Query(output="c"),
            "q2": Query(output="d", weight=2.0),
            "q3": Query(output="e"),
        },
    )


@pytest.mark.parametrize(
    "network", [figure_3(20.0), figure_7(), gates_behind_a_union()], ids=["3", "7", "union"]
)
def test_no_local_plan_is_better(network: Network) -> None:
    part = part_of(network)
    draw = np.random.default_rng(7)
    flows = draw.random((60, len(part.heads))) * part.capacity / part.drops.loads[-1].max()
    closed, values = part.drops.settle(flows, part.capacity)
    for heads, stop, value in zip(flows, closed, values, strict=True):
        wanted = best(part, heads)
        assert (wanted is None) == (stop < 0)
        if wanted is not None:
            assert value == pytest.approx(wanted, rel=1e-9)


def test_ratios_ascend_and_gates_that_save_nothing_stay_open() -> None:
    order = drop_order(
        heads=1,
        arriving=np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 1.0, 0, 0]]),
        load=np.array([1.0, 1.0, 0.0, 2.0]),
        value=np.array([0.0, 0.0, 5.0, 1.0]),
    )
    assert order.gates == (0, 2)
    assert order.ratios == pytest.approx((1 / 3, 1 / 2))
    assert order.loads[:, 0].tolist() == [4.0, 1.0, 1.0]
