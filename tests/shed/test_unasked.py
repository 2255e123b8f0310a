"""Parts of a network that no query asks for: they are planned for, and cost nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from evenflow.errors import NetworkError
from evenflow.shed.check import check
from evenflow.shed.linear.exact import Exact
from evenflow.shed.linear.lp import Lp
from evenflow.shed.method import METHODS
from evenflow.shed.network import Network, Node, Operator, Query
from evenflow.shed.plan_index import index_from_data, make_index

if TYPE_CHECKING:
    from evenflow.shed.plan import SheddingPlan

RATES = {"x": 2.0, "y": 2.0}


def half_asked(*, never: bool = False) -> Network:
    """Return two chains on nodes of their own; nobody asks for the second."""
    return Network(
        nodes={"A": Node(capacity=1.0), "B": Node(capacity=1.0)},
        operators={
            "a": Operator(node="A", inputs=("x",), cost=1.0),
            "b": Operator(node="B", inputs=("y",), cost=1.0, never=never),
        },
        queries={"q": Query(output="a")},
    )


def assert_closed(plan: SheddingPlan) -> None:
    assert plan.keep == pytest.approx({"x": 0.5, "y": 0.0}, abs=1e-9)
    assert plan.load == pytest.approx({"A": 1.0, "B": 0.0}, abs=1e-9)
    assert plan.objective == pytest.approx(1.0)
    assert check(half_asked(), plan) == ()


def test_a_fragment_without_queries_is_closed() -> None:
    assert [len(each.queries) for each in half_asked().fragments] == [1, 0]
    assert_closed(Lp(half_asked()).plan(RATES))
    assert_closed(Exact(half_asked()).plan(RATES))
    assert check(half_asked(), Lp(half_asked()).uniform(RATES)) == ()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_plans_made_ahead_close_it_too(method: str) -> None:
    made = make_index(half_asked(), method, RATES, 0.1)
    assert_closed(index_from_data(json.loads(json.dumps(made.data()))).select(RATES))


def test_numbers_of_fragments_are_told_apart() -> None:
    index = make_index(half_asked(), "solver", RATES, 0.1)
    first, second = index.select({"x": 2.0, "y": 0.2}), index.select({"x": 0.2, "y": 2.0})
    assert str(first.plan).endswith("+-")
    assert str(second.plan).startswith("-+")
    assert index.select({"x": 0.2, "y": 0.2}).plan is None


def test_what_must_not_be_dropped_is_not_although_nobody_asks_for_it() -> None:
    network = half_asked(never=True)
    assert Lp(network).plan({"x": 2.0, "y": 0.5}).load == pytest.approx({"A": 1.0, "B": 0.5})
    with pytest.raises(NetworkError) as caught:
        Lp(network).plan(RATES)
    assert caught.value.code == "never.overload"
