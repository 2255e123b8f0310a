"""The factor of a unit follows what its batches take."""

from __future__ import annotations

import random

import numpy as np
import pytest

from evenflow.control.correction import Correction, first_correction


def after(correction: Correction, works: list[float], fixed: float, factor: float) -> Correction:
    for work in works:
        correction = correction.seen({"all": 1.0}, {"all": work}, fixed + factor * work)
    return correction


@pytest.mark.parametrize("factor", [0.2, 1 / 3, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("fixed", [0.05, 0.3])
def test_a_surge_tells_the_factor_within_a_few_batches(factor: float, fixed: float) -> None:
    known = after(first_correction(0.9), [0.1] * 10 + [1.0] * 3, fixed, factor)
    assert known.of("all", 1.0) == pytest.approx(factor, rel=0.2)


def test_one_slow_batch_does_not_throw_it_about() -> None:
    known = after(first_correction(0.9), [0.5] * 20, 0.1, 1.0)
    shaken = known.seen({"all": 1.0}, {"all": 0.5}, 6.0)
    assert shaken.of("all", 1.0) < 1.5 * known.of("all", 1.0)


def test_costs_that_were_guessed_are_set_by_the_first_batches() -> None:
    known = after(first_correction(0.0), [0.01, 0.012, 0.011], 0.1, 40.0)
    assert known.expected({"all": 1.0}, {"all": 0.011}) == pytest.approx(0.1 + 0.44, rel=0.3)


def test_noise_is_averaged_out_and_nothing_becomes_negative() -> None:
    source = random.Random(1)
    known = first_correction(0.9)
    for _ in range(200):
        work = source.uniform(0.0, 0.6)
        known = known.seen(
            {"all": 1.0}, {"all": work}, (0.2 + 2.0 * work) * source.uniform(0.8, 1.2)
        )
        assert known.fixed >= 0
        assert known.of("all", 1.0) > 0
        assert np.linalg.eigvalsh(known.spread).min() > 0
    assert known.of("all", 1.0) == pytest.approx(2.0, rel=0.25)
    assert known.fixed == pytest.approx(0.2, abs=0.1)


def test_it_follows_costs_that_change() -> None:
    known = after(first_correction(0.9), [0.3] * 50, 0.1, 1.0)
    known = after(known, [0.3] * 25, 0.1, 2.0)
    assert known.expected({"all": 1.0}, {"all": 0.3}) == pytest.approx(0.7, rel=0.15)


CALIBRATED = {"cheap": 1.0, "middle": 2.0, "dear": 4.0}
TRUE = {"cheap": 0.6, "middle": 2.0, "dear": 6.0}
"""What three parts cost: wrong one against the other."""
OPEN = dict.fromkeys(CALIBRATED, 1.0)


def batch(tuples: dict[str, float], times: float) -> tuple[dict[str, float], float]:
    scaled = {part: times * number for part, number in tuples.items()}
    return scaled, 0.2 + sum(TRUE[part] * number for part, number in scaled.items())


def test_gates_that_shut_tell_parts_apart_and_what_all_cost_is_not_forgotten() -> None:
    known = first_correction(0.9)
    for times in (0.03, 0.05, 0.04, 0.06, 0.05, 0.04, 0.03, 0.05) * 3:
        known = known.seen(CALIBRATED, *batch(OPEN, times))
    tuples, seconds = batch(OPEN, 0.1)
    assert known.expected(CALIBRATED, tuples) == pytest.approx(seconds, rel=0.05)
    assert known.of("cheap", 1.0) > 0.9  # wrong together is likelier than one against the other
    alone, alone_seconds = batch({"cheap": 1.0, "middle": 0.0, "dear": 0.0}, 1.0)
    for _ in range(2):
        known = known.seen(CALIBRATED, alone, alone_seconds)
    assert known.expected(CALIBRATED, alone) == pytest.approx(alone_seconds, rel=0.15)
    assert known.expected(CALIBRATED, tuples) == pytest.approx(seconds, rel=0.15)
    assert known.of("dear", 4.0) > 6 * known.of("cheap", 1.0)


def test_a_part_that_seems_to_cost_nothing_is_found_out() -> None:
    costs = {"free": 0.01, "other": 4.0}
    known = first_correction(0.9)
    for free, other in [(0.05, 0.05)] * 10 + [(0.2, 0.01), (0.1, 0.01)] * 8:
        known = known.seen(costs, {"free": free, "other": other}, 0.2 + 2 * free + 4 * other)
    assert 1.0 < known.of("free", 0.01) < 2.5
    assert known.of("other", 4.0) == pytest.approx(4.0, rel=0.4)


def test_a_part_that_is_new_is_taken_to_be_as_wrong_as_the_others() -> None:
    known = after(first_correction(0.9), [0.1, 0.3] * 10, 0.1, 3.0)
    assert known.of("new", 2.0) == 2 * known.of("all", 1.0)
    costs, tuples = {"all": 1.0, "new": 2.0}, {"all": 0.3, "new": 0.15}
    both = known.seen(costs, tuples, 0.1 + 3.0 * 0.6)
    assert both.of("new", 2.0) == pytest.approx(6.0, rel=0.1)
    dearer = known.seen(costs, tuples, 0.1 + 3.0 * 0.3 + 6.0 * 0.3)
    assert dearer.of("new", 2.0) > 1.2 * 2 * dearer.of("all", 1.0) > 6.0


def test_parts_that_are_gone_are_forgotten_and_others_are_not() -> None:
    known = first_correction(0.9)
    for times in (0.03, 0.05, 0.04) * 5:
        known = known.seen(CALIBRATED, *batch(OPEN, times))
    left = {"middle": 2.0, "dear": 4.0}
    after_ = known.seen(left, {"middle": 0.05, "dear": 0.05}, 0.2 + 0.05 * 8)
    assert set(after_.at) == set(left)
    assert after_.spread.shape == (3, 3)
    assert after_.of("dear", 4.0) == pytest.approx(known.of("dear", 4.0), rel=0.1)
    nobody = after_.seen({"new": 1.0}, {"new": 0.1}, 0.3)
    assert set(nobody.at) == {"new"}
    assert np.isfinite(nobody.known).all()
