"""Percentiles, gaps and slopes."""

from __future__ import annotations

import pytest

from evenflow.bench.change import Change, gap_of, verdict
from evenflow.bench.figures import longest_gap, percentile, slope


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)]
)
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value


def test_of_one_value_every_percentile_is_it() -> None:
    assert percentile([3.5], 0.5) == percentile([3.5], 0.99) == 3.5


def test_a_gap_begins_before_a_change_and_ends_after_it() -> None:
    times = [0.0, 10.0, 11.0, 14.0, 15.0, 30.0]
    assert longest_gap(times, 11.5, 12.0) == 3.0
    # The pauses long before and after are none of its making.
    assert longest_gap(times, 10.5, 14.5) == 3.0
    assert longest_gap(times, 10.5, 15.5) == 15.0
    assert longest_gap(times, 9.0, 10.5) == 10.0


def test_the_gap_of_a_change_is_that_of_the_query_that_waits_longest() -> None:
    times = [[1.0, 2.0, 3.0], [1.0, 2.9, 3.0]]
    assert gap_of(Change(asked=1.5, settled=3.0), times) == pytest.approx(1.9)


def test_the_slope_does_not_follow_single_points() -> None:
    line = [(float(x), 2.0 * x) for x in range(20)]
    assert slope(line) == 2.0
    assert slope([*line, (7.5, 1e9)]) == pytest.approx(2.0)
    assert slope([(1.0, 5.0)]) == 0.0


@pytest.mark.parametrize(
    ("median", "worst", "said"),
    [
        (2.0, 3.0, "bar 3.00 s: met"),
        (2.0, 3.1, "bar 3.00 s: missed by the worst, met by the median"),
        (3.1, 3.1, "bar 3.00 s: missed"),
    ],
)
def test_the_bar_of_changes_is_two_and_a_half_batches_and_a_second(
    median: float, worst: float, said: str
) -> None:
    case = {
        "steady_batch_seconds": 0.8,
        "gap_seconds_median": median,
        "gap_seconds_worst": worst,
        "first_answer_seconds": 3.0,
    }
    (line,) = verdict({"cases": [{**case, "queries": 10}, {**case, "queries": 50}]})
    assert line.endswith(said)
