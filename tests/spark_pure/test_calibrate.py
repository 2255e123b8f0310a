"""Costs out of timings."""

from __future__ import annotations

import pytest

from evenflow.spark.calibrate import LEAST_CERTAINTY, Timing, beyond, certainty, slope


def test_what_a_job_costs_is_no_cost_of_tuples() -> None:
    rows, job, tuple_ = 1_000, 0.4, 50e-6
    half = Timing((job / (2 * rows) + tuple_,) * 3)
    many = Timing(tuple((job + off) / (4 * rows) + tuple_ for off in (0.0, 0.02, 0.03)))
    found = slope(half, many, 4)
    assert found.least == pytest.approx(tuple_)
    assert found.error > 0


def test_costs_are_beyond_reading_and_not_below_nothing() -> None:
    assert beyond(Timing((3e-6, 4e-6)), 2e-6) == pytest.approx(1e-6)
    assert beyond(Timing((3e-6, 1e-6)), 2e-6) == 0.0


def test_a_query_that_costs_nothing_beyond_reading_is_known_as_well_as_others() -> None:
    assert certainty(0.0, 2e-6) == 1.0
    assert certainty(1e-6, 2e-6) == pytest.approx(2 / 3)
    # One that is only noise was measured all the same: 0 would make its whole unit a guess.
    assert certainty(1.0, 0.0) == LEAST_CERTAINTY
