"""Optimal plans: ties, fallbacks, floors, and what must not be dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.shed.networks import figure_1, figure_3, figure_7

from evenflow.errors import InternalError, NetworkError
from evenflow.shed.check import check
from evenflow.shed.linear.lp import FragmentLp, Lp
from evenflow.shed.linear.solver import Bounds, Solved, Trouble
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers


def chains(costs: tuple[float, ...], weights: tuple[float, ...] = (), **query: float) -> Network:
    """Return chains of one operator each, on one node."""
    weights = weights or (1.0,) * len(costs)
    return Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            f"o{i}": Operator(node="N", inputs=(f"in{i}",), cost=cost)
            for i, cost in enumerate(costs, 1)
        },
        queries={
            f"q{i}": Query(output=f"o{i}", weight=weight, **query)
            for i, weight in enumerate(weights, 1)
        },
    )


def rates(network: Network, rate: float = 1.0) -> dict[str, float]:
    return dict.fromkeys(network.inputs, rate)


# --- ties -----------------------------------------------------------------------------------------


def test_of_equal_inputs_the_first_by_name_is_kept() -> None:
    network = chains((1.0, 1.0, 1.0))
    assert Lp(network).plan(rates(network, 0.75)).keep == pytest.approx(
        {"in1": 1.0, "in2": 1 / 3, "in3": 0.0}
    )


def test_least_load_comes_before_names() -> None:
    """Both nodes are full either way; in2 loads a third one less."""
    network = Network(
        nodes={name: Node(capacity=c) for name, c in (("A", 1.0), ("B", 9.0))},
        operators={
            "a1": Operator(node="A", inputs=("in1",), cost=1.0),
            "a2": Operator(node="A", inputs=("in2",), cost=1.0),
            "b1": Operator(node="B", inputs=("a1",), cost=2.0),
            "b2": Operator(node="B", inputs=("a2",), cost=1.0),
        },
        queries={"q1": Query(output="b1"), "q2": Query(output="b2")},
    )
    assert Lp(network).plan({"in1": 1.0, "in2": 1.0}).keep == {"in1": 0.0, "in2": 1.0}


def test_what_nobody_asks_for_is_dropped_because_that_loads_least() -> None:
    network = Network(
        nodes={"N": Node(capacity=9.0)},
        operators={
            "a": Operator(node="N", inputs=("in",), cost=1.0),
            "dead": Operator(node="N", inputs=("a",), cost=1.0),
        },
        queries={"q": Query(output="a")},
    )
    assert Lp(network).plan({"in": 1.0}).keep == {"in": 1.0, "a->dead": 0.0, "a->q": 1.0}


def test_at_a_split_the_first_by_name_keeps_as_large_a_share_as_can_be() -> None:
    """All branches are worth the same. `a->b1` keeps the most if little comes: in is small.

    0.6 of flow can be kept in branches and nothing is saved before them, so that any division is
    an optimum. What comes is 0.4 at least, because each branch passes at most what comes.
    """
    network = Network(
        nodes={"N": Node(capacity=0.6)},
        operators={
            "a": Operator(node="N", inputs=("in",), cost=0.0),
            **{f"b{i}": Operator(node="N", inputs=("a",), cost=1.0) for i in (1, 2)},
        },
        queries={"q1": Query(output="b1"), "q2": Query(output="b2")},
    )
    plan = Lp(network).plan({"in": 1.0})
    # Keeping all of b1 is possible, then all of b2; then the input keeps what that takes.
    assert plan.keep == pytest.approx({"in": 0.3, "a->b1": 1.0, "a->b2": 1.0})


def test_a_share_below_one_is_the_largest_there_is() -> None:
    """q0 wants all that comes, so that the input stays open; the branches share what is left."""
    network = Network(
        nodes={"N": Node(capacity=0.5)},
        operators={
            "a": Operator(node="N", inputs=("in",), cost=0.0),
            **{f"b{i}": Operator(node="N", inputs=("a",), cost=1.0) for i in (1, 2)},
        },
        queries={
            "q0": Query(output="a"),
            "q1": Query(output="b1"),
            "q2": Query(output="b2"),
        },
    )
    plan = Lp(network).plan({"in": 1.0})
    assert plan.keep == pytest.approx({"in": 1.0, "a->b1": 0.5, "a->b2": 0.0, "a->q0": 1.0})


def test_where_nothing_comes_all_is_kept() -> None:
    network = chains((1.0, 3.0))
    assert Lp(network).plan({"in1": 0.0, "in2": 1.0}).keep == pytest.approx(
        {"in1": 1.0, "in2": 1 / 3}
    )


# --- floors and never -----------------------------------------------------------------------------


def test_floors_hold_whatever_they_cost() -> None:
    network = chains((1.0, 9.0), floor=0.1)
    plan = Lp(network).plan(rates(network))
    assert plan.throughput == pytest.approx({"q1": 0.1, "q2": 0.1})
    assert check(network, plan) == ()


def test_floors_that_cannot_be_met_together_are_told() -> None:
    network = chains((1.0, 9.0), floor=0.2)
    with pytest.raises(NetworkError) as caught:
        Lp(network).plan(rates(network))
    assert caught.value.code == "floors.unmet"
    with pytest.raises(NetworkError):
        Lp(network).uniform(rates(network))


def never(network: Network, name: str) -> Network:
    operators = {**network.operators, name: replace(network.operators[name], never=True)}
    return Network(nodes=network.nodes, operators=operators, queries=network.queries)


def test_nothing_is_dropped_before_never() -> None:
    network = never(chains((1.0, 1.0), (1.0, 100.0)), "o1")
    plan = Lp(network).plan(rates(network, 0.75))
    assert plan.keep == pytest.approx({"in2": 1 / 3})
    assert plan.load == pytest.approx({"N": 1.0})
    assert Lp(network).uniform(rates(network, 0.75)).keep == pytest.approx({"in2": 1 / 3})


def test_overload_by_what_must_not_be_dropped_is_told() -> None:
    network = never(chains((1.0, 1.0)), "o1")
    for plan in (Lp(network).plan, Lp(network).uniform):
        with pytest.raises(NetworkError) as caught:
            plan(rates(network, 2.0))
        assert caught.value.code == "never.overload"
        assert caught.value.place == ("nodes", "N", "capacity")


def test_a_split_still_drops_beside_never() -> None:
    network = never(figure_7(), "top")
    assert Lp(network).plan({"in": 0.2}).keep == pytest.approx({"o->bottom": 0.4})


# --- fallback -------------------------------------------------------------------------------------


class _Failing:
    """A solver in trouble, or one that gives a wrong basis."""

    def __init__(self, answer: Solved | Trouble) -> None:
        self._answer = answer

    def __call__(self, rows: Numbers, seconds: float) -> _Failing:
        return self

    def maximise(self, objective: Numbers, bounds: Bounds) -> Solved | Trouble:
        return self._answer


@pytest.mark.parametrize("trouble", [Trouble.SLOW, Trouble.FAILED])
def test_a_solver_in_trouble_is_replaced_by_a_uniform_drop(trouble: Trouble) -> None:
    network = figure_1()
    plan = Lp(network, solver=_Failing(trouble)).plan(rates(network))
    assert plan.method == "uniform"
    assert plan.reason is not None
    assert plan.keep == pytest.approx({"in1": 0.25, "in2": 0.25})
    assert check(network, plan) == ()
    assert plan.report()["fallback"] == plan.reason


def test_a_basis_that_is_not_feasible_is_not_believed() -> None:
    import numpy as np

    network = figure_1()
    all_open = Solved(
        basic=np.array([False, False, True, True]), at_upper=np.array([True, True, False, False])
    )
    assert Lp(network, solver=_Failing(all_open)).plan(rates(network)).method == "uniform"
    none_basic = Solved(basic=np.zeros(4, dtype=bool), at_upper=np.zeros(4, dtype=bool))
    assert Lp(network, solver=_Failing(none_basic)).plan(rates(network)).method == "uniform"


def test_a_time_limit_of_nothing_falls_back() -> None:
    network = figure_3()
    plan = Lp(network, seconds=0.0).plan({"in": 1.0})
    assert plan.method == "uniform"


def test_no_fallback_is_an_error() -> None:
    """Floors fit only with gates at splits; the solver fails; no uniform drop fits."""
    network = figure_7()
    queries = {"q1": replace(network.queries["q1"], floor=1.0), "q2": network.queries["q2"]}
    network = Network(nodes=network.nodes, operators=network.operators, queries=queries)
    assert Lp(network).plan({"in": 0.2}).objective == pytest.approx(0.28)
    with pytest.raises(InternalError):
        Lp(network, solver=_Failing(Trouble.FAILED)).plan({"in": 0.2})


# --- the rest -------------------------------------------------------------------------------------


def test_fragments_are_solved_apart() -> None:
    one, two = figure_1(), figure_7()
    both = Network(
        nodes={**one.nodes, **two.nodes, "idle": Node(capacity=1.0)},
        operators={**one.operators, **two.operators},
        queries={**one.queries, **{f"r_{k}": v for k, v in two.queries.items()}},
    )
    lp = Lp(both)
    assert len(lp.fragments) == 2
    plan = lp.plan({"in1": 1.0, "in2": 1.0, "in": 0.2})
    assert plan.objective == pytest.approx(0.88)
    assert plan.load == pytest.approx({"A": 1.0, "B": 1.0, "N": 1.0, "idle": 0.0})
    assert check(both, plan) == ()


def test_a_node_that_two_nodes_feed_is_planned_for() -> None:
    network = Network(
        nodes={name: Node(capacity=1.0) for name in "ABC"},
        operators={
            "a": Operator(node="A", inputs=("in1",), cost=1.0),
            "b": Operator(node="B", inputs=("in2",), cost=1.0),
            "c": Operator(node="C", inputs=("a", "b"), cost=1.0, kind=OperatorKind.UNION),
        },
        queries={"q": Query(output="c")},
    )
    plan = Lp(network).plan({"in1": 1.0, "in2": 1.0})
    assert plan.objective == pytest.approx(1.0)
    assert plan.load["C"] == pytest.approx(1.0)


def test_units_do_not_matter() -> None:
    """A million tuples per second at a microsecond each, or one in an hour: the same plan."""
    for size in (1e-6, 1e6, 1e9):
        network = chains((1.0 / size, 3.0 / size), (1.0, 4.0))
        plan = Lp(network).plan(rates(network, size * 0.5))
        assert plan.keep == pytest.approx({"in1": 0.0, "in2": 2 / 3}, abs=1e-9)
        assert plan.objective == pytest.approx(size * 4 / 3)


def test_checks_find_what_is_wrong_with_a_plan() -> None:
    network = chains((1.0, 9.0), floor=0.1)
    fragment = FragmentLp(network)
    plan = fragment.plan(rates(network))
    wrong = [
        fragment.checker.plan_of(plan.rates, {"in1": 1.0, "in2": 0.5}, "overloaded"),
        fragment.checker.plan_of(plan.rates, {"in1": 0.5, "in2": 0.0}, "below a floor"),
        replace(plan, keep={"in1": 0.1}),
        replace(plan, objective=plan.objective + 0.1),
        replace(plan, load={"N": 0.5}),
        replace(plan, throughput={"q1": 0.1, "q2": 0.2}),
    ]
    assert check(network, plan) == ()
    assert [len(check(network, each)) for each in wrong] == [1] * len(wrong)
