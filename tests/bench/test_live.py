"""The schedule of the live stream, against the generator that makes its tuples."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from evenflow.bench.live import Arrivals, FilterQuery, WindowQuery
from evenflow.spark.source.generators import TICK_US, ConstantArrivals

RATES = (1, 7, 999, 1_000, 200_000)
START_US = 1_770_000_000_300_000


def made(rate: int, ticks: int = 20) -> tuple[list[int], list[int]]:
    first = START_US // TICK_US
    ids, times = ConstantArrivals(rate * 1000).rows(first, first + ticks)
    return ids.tolist(), times.tolist()


@pytest.mark.parametrize("rate", RATES)
def test_tuples_arrive_when_the_generator_makes_them(rate: int) -> None:
    ids, times = made(rate)
    arrivals = Arrivals(rate, 0)
    assert [arrivals.at_us(id_) for id_ in ids] == times
    assert list(arrivals.ids(START_US, START_US + 20 * TICK_US)) == ids


@pytest.mark.parametrize("rate", RATES)
def test_the_closing_tuple_is_the_first_that_moves_the_watermark_to_the_end(rate: int) -> None:
    arrivals = Arrivals(rate, delay_us=500_000)
    end_us = START_US + 370_000
    # Watermarks are whole milliseconds.
    _, times = made(rate, 10_000_000 // TICK_US)
    closing = next(t for t in times if t // 1000 - 500 >= end_us // 1000)
    assert arrivals.closing_us(end_us) == closing


@pytest.mark.parametrize("number", [0, 1, 48])
def test_right_answers_of_a_window_are_counts_by_key(number: int) -> None:
    rate, query = 1_000, WindowQuery(number, 370_000)
    start_us = START_US // 370_000 * 370_000 + 370_000
    ids, times = (np.array(each) for each in made(rate))
    own = ids[(times >= start_us) & (times < start_us + 370_000) & (ids % (number + 2) == 0)]
    assert len(own) > 0
    counts = Counter((own % (number + 100)).tolist())
    right = Counter((start_us, key, n) for key, n in counts.items())
    assert query.right(Arrivals(rate, 0), start_us, start_us + 1) == right
    assert query.total(Arrivals(rate, 0), start_us) == len(own)


def test_fifty_filters_share_all_tuples_among_them() -> None:
    arrivals = Arrivals(1_000, 0)
    span = START_US, START_US + 500_000
    passed = [id_ for n in range(50) for (id_,) in FilterQuery(n).right(arrivals, *span)]
    assert sorted(passed) == list(arrivals.ids(*span))
    assert len(passed) == 500
