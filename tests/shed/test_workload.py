"""How likely rates are."""

from __future__ import annotations

import math

import pytest

from evenflow.errors import NetworkError
from evenflow.shed.workload import Alike, Exponential, Histogram, Workload, exponential, histogram


def test_distributions_rise_from_0_to_1() -> None:
    for each in (Alike(), Exponential(2.0), Histogram(((0.0, 0.5), (5.0, 1.0), (8.0, 0.5)))):
        found = [each.below(rate, 10.0) for rate in (0.0, 1.0, 5.0, 8.0, 9.0, 10.0)]
        assert found == sorted(found)
        assert found[0] == 0.0
    assert Alike().below(2.5, 10.0) == 0.25
    assert Exponential(2.0).below(2.0, 10.0) == pytest.approx(1 - math.exp(-1))
    assert Histogram(((0.0, 0.5), (5.0, 1.0), (8.0, 0.5))).below(8.0, 10.0) == pytest.approx(0.75)


def test_boxes_of_a_space_sum_to_1() -> None:
    workload = Workload({"a": Exponential(0.7), "b": Histogram(((0.2, 1.0),))})
    halves = [(0.0, 0.5), (0.5, 1.0)]
    total = sum(
        workload.probability(["a", "b", "c"], [x[0], y[0], z[0]], [x[1], y[1], z[1]], [1.0] * 3)
        for x in halves
        for y in halves
        for z in halves
    )
    assert total == pytest.approx(1.0)


@pytest.mark.parametrize("mean", [0, -1, math.nan, math.inf, "5", True])
def test_a_mean_is_a_positive_number(mean: object) -> None:
    with pytest.raises(NetworkError):
        exponential(mean, ("rates",))


@pytest.mark.parametrize(
    "bins",
    [[], [[0.0]], [[0.0, -1.0]], [[0.0, 0.0]], [[1.0, 0.5], [0.5, 0.5]], [[0.0, math.nan]]],
)
def test_a_histogram_ascends_and_has_something(bins: list[list[float]]) -> None:
    with pytest.raises(NetworkError):
        histogram(bins, ("rates",))
    assert histogram([[0, 1], [2, 3]], ()) == Histogram(((0.0, 1.0), (2.0, 3.0)))
