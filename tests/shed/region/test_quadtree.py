"""The division of the rate space, and that its bound holds."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from tests.shed.networks import figure_1, figure_7
from tests.shed.oracle import Oracle
from tests.shed.random_network import random_network, random_rates

from evenflow.errors import NetworkError
from evenflow.shed.linear.lp import Lp
from evenflow.shed.network import Network, Node, Operator, Query
from evenflow.shed.network_data import network_from_data
from evenflow.shed.plan_index import index_from_data, make_index
from evenflow.shed.region.quadtree import least_ratio, leaves_of
from evenflow.shed.region.region_index import RegionIndex, SolverMethod, WeightedSolverMethod
from evenflow.shed.workload import Exponential, Histogram, Workload

MAX = {"in1": 1.0, "in2": 1.0}


def worst_missed(network: Network, index: object, rates: list[dict[str, float]]) -> float:
    lp = Lp(network)
    worst = 0.0
    for each in rates:
        optimum = lp.plan(each).objective
        if optimum > 0:
            worst = max(worst, 1 - index.select(each).objective / optimum)  # type: ignore[attr-defined]
    return worst


def some_rates(names: list[str], count: int, most: float = 1.0) -> list[dict[str, float]]:
    draw = random.Random(7)
    return [{name: draw.uniform(0, most) for name in names} for _ in range(count)]


@pytest.mark.parametrize("epsilon", [0.3, 0.1])
def test_no_plan_misses_more_than_epsilon(epsilon: float) -> None:
    network = figure_1()
    index = make_index(network, "solver", MAX, epsilon)
    assert index.report()["error"] <= epsilon
    assert worst_missed(network, index, some_rates(["in1", "in2"], 300)) <= epsilon


def test_regions_that_fit_end_and_need_no_plan() -> None:
    index = make_index(figure_1(), "solver", {"in1": 0.2, "in2": 0.4}, 0.05)
    assert index.report()["plans"] == 0
    plan = index.select({"in1": 0.2, "in2": 0.4})
    assert (plan.plan, plan.method) == (None, "open")
    assert set(plan.keep.values()) == {1.0}


def test_rates_that_fit_are_not_shed_in_a_region_with_a_plan() -> None:
    index = make_index(figure_1(), "solver", MAX, 0.1)
    assert index.select({"in1": 0.199, "in2": 0.399}).method == "open"


def test_an_input_at_the_bottom_of_its_rates_is_not_dropped_whole() -> None:
    """`a` is worth something and rare, `b` nothing and frequent.

    The plan of the lowest corner, where `a` has rate 0, would be worth nothing in all boxes there.
    """
    network = Network(
        nodes={"N": Node(capacity=1.0)},
        operators={
            "oa": Operator(node="N", inputs=("a",), cost=1.0),
            "ob": Operator(node="N", inputs=("b",), cost=1.0),
        },
        queries={"q": Query(output="oa")},
    )
    index = make_index(network, "solver", {"a": 1.0, "b": 10.0}, 0.1)
    assert index.report()["error"] <= 0.1
    assert index.report()["regions"] < 200
    for rate in (1e-9, 1e-4, 0.03, 0.9):
        plan = index.select({"a": rate, "b": 9.0})
        assert plan.objective >= 0.9 * min(rate, 1.0)


def test_plans_are_scaled_to_rates_above_the_greatest() -> None:
    index = make_index(figure_1(), "solver", MAX, 0.1)
    inside, above = index.select(MAX), index.select({"in1": 4.0, "in2": 1.0})
    assert above.throughput == pytest.approx(inside.throughput)
    assert above.keep["in1"] == pytest.approx(inside.keep["in1"] / 4)


def test_the_worst_region_is_divided_first_so_that_it_can_end_at_any_time() -> None:
    errors = []
    for most in (1, 20, 100, 400):
        network = figure_1()
        index = SolverMethod().plan(network, MAX, 1e-6, Workload(), most_boxes=most)
        errors.append(index.report()["error"])
        assert index.report()["regions"] <= most
        assert worst_missed(network, index, some_rates(["in1", "in2"], 50)) <= errors[-1]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.2


@pytest.mark.parametrize("seed", [1, 2, 10, 15, 19])
def test_the_bound_holds_in_random_networks(seed: int) -> None:
    data = random_network(seed)
    network, load = network_from_data(data), Oracle(data).fullest
    names = list(network.inputs)
    corner = {name: 2.0 / max(load(dict.fromkeys(names, 1.0)), 1e-9) for name in names}
    index = make_index(network, "solver", corner, 0.2)
    rates = [random_rates(i, load, names) for i in range(40)]
    inside = [{n: min(r[n], corner[n]) for n in names} for r in rates]
    assert worst_missed(network, index, inside) <= 0.2 + 1e-9


def test_expected_error_follows_the_workload() -> None:
    """As section 8.2.1 compares them: `solver-w` for the expected error that `solver` has."""
    network = figure_1()
    strict = make_index(network, "solver", MAX, 0.05)
    (part,) = strict.parts
    assert isinstance(part, RegionIndex)
    regions = []
    for mean in (0.05, 0.5):
        workload = Workload({name: Exponential(mean) for name in MAX})
        expected = sum(
            box.error
            * workload.probability(["in1", "in2"], box.low.tolist(), box.high.tolist(), [1.0, 1.0])
            for box in leaves_of(part.root)
        )
        index = make_index(network, "solver-w", MAX, expected, workload)
        assert index.report()["expected_error"] <= expected
        regions.append(index.report()["regions"])
    assert regions[0] < regions[1] < strict.report()["regions"]


def test_expected_errors_of_fragments_add_up() -> None:
    one = figure_1()
    two = Network(
        nodes={**one.nodes, "N": Node(capacity=1.0)},
        operators={**one.operators, "c": Operator(node="N", inputs=("in3",), cost=2.0)},
        queries={**one.queries, "q3": Query(output="c")},
    )
    index = make_index(two, "solver-w", {**MAX, "in3": 1.0}, 0.05)
    assert index.report()["expected_error"] <= 0.05
    assert all(part.report()["expected_error"] <= 0.025 for part in index.parts)


def test_expected_error_is_kept_on_average() -> None:
    network = figure_1()
    workload = Workload({"in1": Histogram(((0.0, 0.2), (0.3, 0.8))), "in2": Exponential(0.4)})
    index = make_index(network, "solver-w", MAX, 0.05, workload)
    draw = random.Random(5)
    lp, total = Lp(network), 0.0
    for _ in range(400):
        one = draw.uniform(0, 0.3) if draw.random() < 0.2 else draw.uniform(0.3, 1.0)
        rates = {"in1": one, "in2": min(1.0, draw.expovariate(1 / 0.4))}
        optimum = lp.plan(rates).objective
        total += 1 - index.select(rates).objective / optimum
    assert total / 400 <= 0.05


@pytest.mark.parametrize("method", ["solver", "solver-w", "exact"])
def test_an_index_survives_being_written_as_data(method: str) -> None:
    network = figure_7()
    index = make_index(network, method, {"in": 1.0}, 0.1)
    again = index_from_data(json.loads(json.dumps(index.data())))
    for rates in some_rates(["in"], 50, 1.5):
        assert again.select(rates) == index.select(rates)
    assert again.report()["plans"] == index.report()["plans"]


@pytest.mark.parametrize(
    "changed", [{"queries": {"q1": Query(output="top", floor=0.1)}}, {"never": True}]
)
def test_what_regions_cannot_keep_is_refused(changed: dict[str, object]) -> None:
    network = figure_7()
    top = Operator(node="N", inputs=("o",), cost=2.0, never="never" in changed)
    queries = {**network.queries, **changed.get("queries", {})}  # type: ignore[dict-item]
    network = Network(
        nodes=network.nodes, operators={**network.operators, "top": top}, queries=queries
    )
    with pytest.raises(NetworkError) as caught:
        make_index(network, "solver", {"in": 1.0}, 0.1)
    assert caught.value.code == "method.unsupported"
    assert make_index(network, "exact", {"in": 0.3}, 0.1).select({"in": 0.2}).objective > 0


@pytest.mark.parametrize(
    ("method", "rates", "epsilon", "code"),
    [
        ("guess", MAX, 0.1, "method.unknown"),
        ("solver", {"in1": 1.0}, 0.1, "rate.missing"),
        ("solver", {"in1": 1.0, "in2": -1.0}, 0.1, "number.invalid"),
        ("solver", MAX, 0.0, "number.invalid"),
        ("solver", MAX, 1.0, "number.invalid"),
        ("solver", MAX, float("nan"), "number.invalid"),
    ],
)
def test_wrong_questions_are_told(
    method: str, rates: dict[str, float], epsilon: float, code: str
) -> None:
    with pytest.raises(NetworkError) as caught:
        make_index(figure_1(), method, rates, epsilon)
    assert caught.value.code == code


def test_data_that_are_no_plans_are_told() -> None:
    good = make_index(figure_1(), "solver", MAX, 0.3).data()
    for bad in ({}, {**good, "parts": []}, {**good, "network": {}}, {**good, "parts": [{}]}):
        with pytest.raises(NetworkError):
            index_from_data(bad)


def test_least_ratio_is_that_of_the_worst_corner() -> None:
    draw = random.Random(3)
    for _ in range(200):
        start = (draw.random(), draw.random() + 1.0)
        gains = [draw.random() for _ in range(4)]
        bounds = [gain + draw.random() for gain in gains]
        corners = [
            (start[0] + sum(g for g, t in zip(gains, taken, strict=True) if t))
            / (start[1] + sum(b for b, t in zip(bounds, taken, strict=True) if t))
            for taken in itertools.product((0, 1), repeat=4)
        ]
        assert least_ratio(start, gains, bounds) == pytest.approx(min(corners))
    assert least_ratio((0.0, 0.0), [1.0, 1.0], [2.0, 1.0]) == 0.5
    assert least_ratio((0.0, 0.0), [], []) == 1.0


def test_regions_cover_the_space_once() -> None:
    index = make_index(figure_1(), "solver", MAX, 0.2)
    (part,) = index.parts
    assert isinstance(part, RegionIndex)
    areas = [float((box.high - box.low).prod()) for box in leaves_of(part.root)]
    assert sum(areas) == pytest.approx(1.0)


@pytest.mark.parametrize("method", [SolverMethod(), WeightedSolverMethod()])
def test_rates_far_below_the_greatest_keep_what_is_promised(
    method: SolverMethod | WeightedSolverMethod,
) -> None:
    network, far = figure_1(), {"in1": 1e12, "in2": 1e12}
    index = method.plan(network, far, 0.2, Workload(), most_boxes=2000)
    promised = index.report()["error"]
    assert promised > 0.0
    for rates in ({"in1": 1.0, "in2": 1.0}, far, {"in1": 1e6, "in2": 3.0}):
        best = Lp(network).plan(rates).objective
        assert index.select(rates).objective >= (1 - promised) * best * (1 - 1e-9)
    assert index.select(far).objective > 0.4
