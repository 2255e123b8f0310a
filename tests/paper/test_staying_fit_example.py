"""Staying FIT, sections 1.1 and 6.2.2: the examples with numbers."""

from __future__ import annotations

import pytest
from tests.shed.networks import figure_1, figure_7

from evenflow.shed.evaluate import evaluate
from evenflow.shed.linear.lp import Lp

THIRD = 1 / 3


@pytest.mark.parametrize(
    ("reduced", "load", "out_of_a", "throughput", "overloaded"),
    [
        ((1, 1), (3, 4 / 3), (THIRD, THIRD), (1 / 4, 1 / 4), ("A", "B")),
        ((THIRD, THIRD), (1, 4 / 3), (THIRD, THIRD), (1 / 4, 1 / 4), ("B",)),
        ((1, 0), (1, 3), (1, 0), (THIRD, 0), ("B",)),
        ((0, 1 / 2), (1, 1 / 2), (0, 1 / 2), (0, 1 / 2), ()),
        ((1 / 5, 2 / 5), (1, 1), (1 / 5, 2 / 5), (1 / 5, 2 / 5), ()),
    ],
    ids=["plan 0", "plan 1", "plan 2", "plan 3", "plan 4"],
)
def test_1_1_table_1(
    reduced: tuple[float, float],
    load: tuple[float, float],
    out_of_a: tuple[float, float],
    throughput: tuple[float, float],
    overloaded: tuple[str, ...],
) -> None:
    keep = dict(zip(("in1", "in2"), reduced, strict=True))
    outcome = evaluate(figure_1(), {"in1": 1, "in2": 1}, keep)
    assert tuple(outcome.load.values()) == pytest.approx(load)
    assert (outcome.output["a1"], outcome.output["a2"]) == pytest.approx(out_of_a)
    assert tuple(outcome.throughput.values()) == pytest.approx(throughput)
    assert outcome.overloaded == overloaded


def test_1_1_plan_4_is_optimal() -> None:
    plan = Lp(figure_1()).plan({"in1": 1, "in2": 1})
    assert plan.objective == pytest.approx(0.6)
    assert plan.keep == pytest.approx({"in1": 0.2, "in2": 0.4})
    assert plan.load == pytest.approx({"A": 1.0, "B": 1.0})


def test_6_2_2_dropping_at_the_split_beats_dropping_at_the_input() -> None:
    """Figure 7 at r = 0.2: 60 % off the bottom branch gives 0.28, 37.5 % off the input 0.25."""
    plan = Lp(figure_7()).plan({"in": 0.2})
    assert plan.keep == pytest.approx({"in": 1.0, "o->top": 1.0, "o->bottom": 0.4})
    assert plan.objective == pytest.approx(0.28)
    at_input = Lp(figure_7()).uniform({"in": 0.2})
    assert at_input.keep == pytest.approx({"in": 0.625, "o->top": 1.0, "o->bottom": 1.0})
    assert at_input.objective == pytest.approx(0.25)


def test_6_2_2_the_input_drops_only_when_the_branch_is_closed() -> None:
    """Up to a rate of 1/3 the split takes it all."""
    lp = Lp(figure_7())
    assert lp.plan({"in": 1 / 8}).keep == pytest.approx({"in": 1, "o->top": 1, "o->bottom": 1})
    third = lp.plan({"in": 1 / 3}).keep
    assert third == pytest.approx({"in": 1.0, "o->top": 1.0, "o->bottom": 0.0}, abs=1e-9)
    beyond = lp.plan({"in": 2 / 3}).keep
    assert beyond == pytest.approx({"in": 0.5, "o->top": 1.0, "o->bottom": 0.0}, abs=1e-9)
