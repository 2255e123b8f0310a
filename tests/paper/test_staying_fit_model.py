"""Staying FIT, section 3: the distributed load shedding problem."""

from __future__ import annotations

import numpy as np
import pytest
from tests.shed.networks import COSTS, SELECTIVITIES, WEIGHTS, figure_1, figure_3, figure_4

from evenflow.shed.network import OperatorKind
from evenflow.shed.program import program_of


def test_3_1_load_constraints_and_objective_of_chains() -> None:
    """(1), (3): partial selectivity times cost per node, total selectivity times weight."""
    program = program_of(figure_1())
    assert [gate.name for gate in program.gates] == ["in1", "in2"]
    assert program.load.tolist() == [[1.0, 2.0], [3.0, 1.0]]
    assert program.value.tolist() == [1.0, 1.0]
    assert program.capacity.tolist() == [1.0, 1.0]


def test_3_2_drop_locations_are_the_input_arc_and_all_arcs_of_splits() -> None:
    program = program_of(figure_3())
    names = [gate.name for gate in program.gates]
    assert names == ["in", "o1->o2", "o1->o5", "o1->o6", "o2->o3", "o2->o4"]


def test_3_2_prefix_variables_of_figure_3() -> None:
    """(4) to (8). A prefix variable is a flow over what would come there without drops.

    Departure: variables are flows, so that (6) and (7) bound a flow by what comes to its gate.
    """
    program = program_of(figure_3())
    c1, c2, c3, c4, c5, c6 = COSTS
    s1, s2, s3, s4, s5, s6 = SELECTIVITIES
    p1, p2, p3, p4 = WEIGHTS
    rate = 10.0
    flow_of_prefix_1 = program.unit_flow[:, 0] * rate
    assert flow_of_prefix_1 == pytest.approx(
        rate * np.array([1, s1, s1, s1, s1 * s2, s1 * s2])  # x1, A, D, E, B, C
    )
    assert program.load[0] * flow_of_prefix_1 == pytest.approx(
        rate * np.array([c1, s1 * c2, s1 * c5, s1 * c6, s1 * s2 * c3, s1 * s2 * c4])
    )
    worth = [0, 0, s1 * s5 * p3, s1 * s6 * p4, s1 * s2 * s3 * p1, s1 * s2 * s4 * p2]
    assert program.value * flow_of_prefix_1 == pytest.approx(rate * np.array(worth))
    # A, D, E <= x1 and B, C <= A, as flows: at most what comes through the gate before.
    before = {(1, 0): s1, (2, 0): s1, (3, 0): s1, (4, 1): s2, (5, 1): s2}
    expected = np.zeros((6, 6))
    for place, selectivity in before.items():
        expected[place] = selectivity
    assert program.arriving == pytest.approx(expected)


def test_3_2_original_variables_come_from_prefix_variables() -> None:
    """x2 = A / x1, x3 = B / (x1 x2), and so on."""
    program = program_of(figure_3())
    x = {"in": 0.8, "o1->o2": 0.5, "o1->o5": 0.25, "o1->o6": 0.0, "o2->o3": 0.4, "o2->o4": 1.0}
    prefixes = [0.8, 0.8 * 0.5, 0.8 * 0.25, 0.0, 0.8 * 0.5 * 0.4, 0.8 * 0.5]
    rates = np.array([3.0])
    flows = np.array(prefixes) * (program.unit_flow @ rates)
    assert program.keep(flows, rates) == pytest.approx(x)


def test_3_3_union_of_figure_4() -> None:
    """(9), (11) with windows and selectivity of 1."""
    program = program_of(figure_4(OperatorKind.UNION))
    assert [gate.name for gate in program.gates] == ["in1", "in2"]
    assert program.load[0] == pytest.approx(
        [2.0 + 0.9 * 5.0 + 0.9 * 7.0, 3.0 + 0.8 * 5.0 + 0.8 * 7.0]
    )
    assert program.value == pytest.approx([0.9 * 0.6 * 2.0, 0.8 * 0.6 * 2.0])


def test_3_3_join_of_figure_4() -> None:
    """(9), (11): a tuple of one side meets the window of the other."""
    w1, w2, s3 = 10.0, 40.0, 0.25
    program = program_of(figure_4(OperatorKind.JOIN, (w1, w2)))
    assert program.load[0] == pytest.approx(
        [2.0 + 0.9 * 5.0 + 0.9 * w2 * s3 * 7.0, 3.0 + 0.8 * 5.0 + 0.8 * w1 * s3 * 7.0]
    )
    assert program.value == pytest.approx([0.9 * w2 * s3 * 0.6 * 2, 0.8 * w1 * s3 * 0.6 * 2])
