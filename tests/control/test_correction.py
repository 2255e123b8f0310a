"""The factor of a unit follows what its batches take."""

from __future__ import annotations

import random

import pytest

from evenflow.control.correction import Correction, first_correction


def after(correction: Correction, works: list[float], fixed: float, factor: float) -> Correction:
    for work in works:
        correction = correction.seen(work, fixed + factor * work)
    return correction


@pytest.mark.parametrize("factor", [0.2, 1 / 3, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("fixed", [0.05, 0.3])
def test_a_surge_tells_the_factor_within_a_few_batches(factor: float, fixed: float) -> None:
    known = after(first_correction(0.9), [0.1] * 10 + [1.0] * 3, fixed, factor)
    assert known.factor == pytest.approx(factor, rel=0.2)


def test_one_slow_batch_does_not_throw_it_about() -> None:
    known = after(first_correction(0.9), [0.5] * 20, 0.1, 1.0)
    shaken = known.seen(0.5, 6.0)
    assert shaken.factor < 1.5 * known.factor


def test_costs_that_were_guessed_are_set_by_the_first_batches() -> None:
    known = after(first_correction(0.0), [0.01, 0.012, 0.011], 0.1, 40.0)
    assert known.expected(0.011) == pytest.approx(0.1 + 0.44, rel=0.3)


def test_noise_is_averaged_out_and_nothing_becomes_negative() -> None:
    source = random.Random(1)
    known = first_correction(0.9)
    for _ in range(200):
        work = source.uniform(0.0, 0.6)
        known = known.seen(work, (0.2 + 2.0 * work) * source.uniform(0.8, 1.2))
        assert known.fixed >= 0
        assert known.factor > 0
        assert known.var_fixed > 0
        assert known.var_factor > 0
    assert known.factor == pytest.approx(2.0, rel=0.25)
    assert known.fixed == pytest.approx(0.2, abs=0.1)


def test_it_follows_costs_that_change() -> None:
    known = after(first_correction(0.9), [0.3] * 50, 0.1, 1.0)
    known = after(known, [0.3] * 25, 0.1, 2.0)
    assert known.expected(0.3) == pytest.approx(0.7, rel=0.15)
