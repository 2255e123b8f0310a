"""Optimal plans: ties, fallbacks, floors, and what must not be dropped."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.shed.networks import figure_1, figure_3, figure_7

from evenflow.errors import InternalError, NetworkError
from evenflow.shed.check import check
from evenflow.shed.linear import even
from evenflow.shed.linear.exact import Exact
from evenflow.shed.linear.highs import HighsSolver
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

    def begin(self) -> None:
        pass

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


def floor_on_top(floor: float) -> Network:
    """Return figure 7 with a floor that fits only with the gate at the split."""
    network = figure_7()
    queries = {"q1": replace(network.queries["q1"], floor=floor), "q2": network.queries["q2"]}
    return Network(nodes=network.nodes, operators=network.operators, queries=queries)


def test_where_no_uniform_drop_fits_floors_come_first_and_the_rest_is_even() -> None:
    network = floor_on_top(1.0)
    assert Lp(network).plan({"in": 0.2}).objective == pytest.approx(0.28)
    plan = Lp(network, solver=_Failing(Trouble.FAILED)).plan({"in": 0.2})
    assert (plan.method, plan.reason) == ("even", "the solver failed")
    assert plan.throughput["q1"] == pytest.approx(0.2)
    assert plan.load == pytest.approx({"N": 1.0})
    assert check(network, plan) == ()


def test_a_solver_in_trouble_does_not_hide_that_nothing_fits() -> None:
    for trouble in Trouble:
        with pytest.raises(NetworkError) as caught:
            Lp(floor_on_top(1.0), solver=_Failing(trouble)).plan({"in": 0.4})
        assert caught.value.code == "floors.unmet"


def test_a_solver_that_finds_nothing_is_not_believed_where_something_fits() -> None:
    plan = Lp(figure_1(), solver=_Failing(Trouble.INFEASIBLE)).plan(rates(figure_1()))
    assert plan.method == "uniform"
    assert plan.reason is not None


def test_no_safe_plan_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(even, "MOST_PIVOTS", 0)
    with pytest.raises(InternalError):
        Lp(floor_on_top(1.0), solver=_Failing(Trouble.FAILED)).plan({"in": 0.2})


def shares_of_a_union() -> Network:
    """Return a floor on a union of a dear input and a free one."""
    return Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "a": Operator(node="N", inputs=("x",), cost=10.0),
            "u": Operator(node="N", inputs=("a", "y"), cost=0.0, kind=OperatorKind.UNION),
        },
        queries={"q": Query(output="u", floor=0.5)},
    )


def beside_never() -> Network:
    """Return a dear branch beside one before which nothing may be dropped."""
    return Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "a": Operator(node="N", inputs=("x",), cost=0.1),
            "b": Operator(node="N", inputs=("a",), cost=0.1, never=True),
            "c": Operator(node="N", inputs=("a",), cost=5.0),
        },
        queries={"q": Query(output="b"), "r": Query(output="c")},
    )


@pytest.mark.parametrize("network", [shares_of_a_union(), beside_never()])
def test_that_no_uniform_drop_fits_is_not_told_as_that_nothing_does(network: Network) -> None:
    with pytest.raises(NetworkError) as caught:
        Lp(network).uniform(rates(network))
    assert caught.value.code == "uniform.none"
    best = Lp(network).plan(rates(network))
    safe = Lp(network, solver=_Failing(Trouble.SLOW)).plan(rates(network))
    assert safe.method == "even"
    assert check(network, safe) == ()
    assert 0 < safe.objective <= best.objective * (1 + 1e-9)


def test_all_solves_of_a_plan_share_its_time() -> None:
    """Ties are broken by further solves; each may take what the others have left."""
    network = chains((1.0,) * 6)
    moments = iter(range(100))
    seen = []

    class Slow(HighsSolver):
        def maximise(self, objective: Numbers, bounds: Bounds) -> Solved | Trouble:
            seen.append(super().maximise(objective, bounds))
            return seen[-1]

    solver = partial(Slow, clock=lambda: float(next(moments)))
    plan = Lp(network, seconds=2.5, solver=solver).plan(rates(network))
    assert plan.reason == "the solver was slow"
    assert [each is Trouble.SLOW for each in seen] == [False, False, True]
    again = Lp(network, seconds=90.0, solver=partial(Slow, clock=lambda: float(next(moments))))
    assert again.plan(rates(network)).reason is None


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


@pytest.mark.parametrize("planner", [Lp, Exact])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("part", [0.0, 0.5, 2.0])
def test_a_node_that_carries_far_more_than_another_hides_nothing(
    planner: type[Lp | Exact], size: float, part: float
) -> None:
    network = Network(
        nodes={"A": Node(capacity=1.0), "B": Node(capacity=size)},
        operators={
            "a1": Operator(node="A", inputs=("x",), cost=1.0),
            "a2": Operator(node="A", inputs=("y",), cost=1.0),
            "b1": Operator(node="B", inputs=("a1",), cost=1.0),
            "b2": Operator(node="B", inputs=("a2",), cost=1.0),
            "b3": Operator(node="B", inputs=("z",), cost=1.0),
        },
        queries={
            "q1": Query(output="b1"),
            "q2": Query(output="b2", weight=10.0),
            "q3": Query(output="b3"),
        },
    )
    much = max(1.0, part * size)
    plan = planner(network).plan({"x": 1.0, "y": 1.0, "z": much})
    assert plan.reason is None
    assert plan.throughput == pytest.approx({"q1": 0.0, "q2": 1.0, "q3": min(much, size - 1.0)})


@pytest.mark.parametrize("planner", [Lp, Exact])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_a_query_that_costs_far_less_than_another_hides_nothing(
    planner: type[Lp | Exact], size: float
) -> None:
    network = chains((1.0, 1.0, 1.0 / size), (1.0, 2.0, 1.0))
    for much in (1.0, 0.25 * size):
        plan = planner(network).plan({"in1": 1.0, "in2": 1.0, "in3": much})
        assert plan.reason is None
        assert plan.keep == pytest.approx({"in1": 0.0, "in2": 1.0 - much / size, "in3": 1.0})


def test_a_plan_of_which_it_is_not_proved_that_none_is_better_says_so() -> None:
    class Idle(HighsSolver):
        """Finds the basis in which nothing passes."""

        def maximise(self, objective: Numbers, bounds: Bounds) -> Solved:
            columns, rows = len(objective), len(bounds.row_upper)
            basic = np.array([False] * columns + [True] * rows)
            return Solved(basic=basic, at_upper=np.zeros(columns + rows, dtype=bool))

    plan = Lp(chains((1.0, 3.0)), solver=Idle).plan({"in1": 1.0, "in2": 1.0})
    assert (plan.method, plan.objective) == ("lp", 0.0)
    assert plan.reason == "it is not proved that no more than 0 is possible"


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


# --- far more than fits ---------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e9, 1e12, 1e15, 1e40, 1e200])
@pytest.mark.parametrize("planner", [Lp, Exact])
def test_the_optimum_stays_however_much_comes(planner: type[Lp | Exact], far: float) -> None:
    for given in ({"in1": far, "in2": 1.0}, {"in1": 1.0, "in2": far}, {"in1": far, "in2": far}):
        plan = planner(figure_1()).plan(given)
        assert plan.reason is None
        assert plan.throughput == pytest.approx({"q1": 0.2, "q2": 0.4})
        assert plan.load == pytest.approx({"A": 1.0, "B": 1.0})
    split = planner(figure_7()).plan({"in": far})
    assert split.reason is None
    assert split.throughput == pytest.approx({"q1": 1 / 3, "q2": 0.0})
    uniform = Lp(figure_1()).uniform({"in1": far, "in2": far})
    assert uniform.throughput == pytest.approx({"q1": 0.25, "q2": 0.25})


def test_a_floor_beside_far_more_than_fits_is_kept() -> None:
    network = figure_1()
    queries = {"q1": network.queries["q1"], "q2": replace(network.queries["q2"], floor=1.0)}
    network = Network(nodes=network.nodes, operators=network.operators, queries=queries)
    plan = Lp(network).plan({"in1": 1e13, "in2": 0.45})
    assert plan.throughput == pytest.approx({"q1": 0.1, "q2": 0.45})


def test_a_split_far_behind_what_comes_keeps_its_share() -> None:
    """The branches get 0.6 of the capacity of 1e12 times what fits; nothing of it is rounding."""
    network = Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "a": Operator(node="N", inputs=("in",), cost=0.4),
            **{f"b{i}": Operator(node="N", inputs=("a",), cost=i * 1.0) for i in (1, 2)},
        },
        queries={"q1": Query(output="b1", floor=0.0), "q2": Query(output="b2", weight=1.2)},
    )
    near, far = (Lp(network).plan({"in": rate}) for rate in (100.0, 1e14))
    assert far.throughput == pytest.approx(near.throughput)
    assert far.keep["a->b1"] == pytest.approx(near.keep["a->b1"])


def test_what_costs_nothing_is_kept_however_much_comes() -> None:
    network = chains((0.0, 1.0))
    plan = Lp(network).plan({"in1": 1e40, "in2": 1e40})
    assert plan.keep == pytest.approx({"in1": 1.0, "in2": 1e-40})


@pytest.mark.parametrize("far", [1e306, 1.7e308])
def test_rates_that_no_number_can_hold_are_told(far: float) -> None:
    network = chains((1e5, 1e3))
    for asked in (Lp(network).plan, Lp(network).uniform, Exact(network).plan):
        with pytest.raises(NetworkError) as caught:
            asked({"in1": far, "in2": far})
        assert caught.value.code == "number.invalid"
        assert caught.value.place == ("rates", "in1")
