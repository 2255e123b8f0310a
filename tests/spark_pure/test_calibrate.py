"""Costs out of timings."""

from __future__ import annotations

import pytest

from evenflow.spark.calibrate import Timing, _less, slope


def test_what_a_job_costs_is_no_cost_of_tuples() -> None:
    rows, job, tuple_ = 1_000, 0.4, 50e-6
    half = Timing((job / (2 * rows) + tuple_,) * 3)
    many = Timing(tuple((job + off) / (4 * rows) + tuple_ for off in (0.0, 0.02, 0.03)))
    found = slope(half, many, 4)
    assert found.least == pytest.approx(tuple_)
    assert found.spread > 0


def test_costs_are_beyond_reading_and_not_below_nothing() -> None:
    assert _less(Timing((3e-6, 1e-6)), 2e-6).rounds == pytest.approx((1e-6, 0.0))
