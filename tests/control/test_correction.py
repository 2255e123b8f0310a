"""The factor of a unit follows what its batches take."""

from __future__ import annotations

import random

import numpy as np
import pytest

from evenflow.control.correction import Correction, first_correction


def after(correction: Correction, works: list[float], fixed: float, factor: float) -> Correction:
    for work in works:
        correction = correction.seen({"all": work}, fixed + factor * work)
    return correction


@pytest.mark.parametrize("factor", [0.2, 1 / 3, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("fixed", [0.05, 0.3])
def test_a_surge_tells_the_factor_within_a_few_batches(factor: float, fixed: float) -> None:
    known = after(first_correction(0.9), [0.1] * 10 + [1.0] * 3, fixed, factor)
    assert known.of("all") == pytest.approx(factor, rel=0.2)


def test_one_slow_batch_does_not_throw_it_about() -> None:
    known = after(first_correction(0.9), [0.5] * 20, 0.1, 1.0)
    shaken = known.seen({"all": 0.5}, 6.0)
    assert shaken.of("all") < 1.5 * known.of("all")


def test_costs_that_were_guessed_are_set_by_the_first_batches() -> None:
    known = after(first_correction(0.0), [0.01, 0.012, 0.011], 0.1, 40.0)
    assert known.expected({"all": 0.011}) == pytest.approx(0.1 + 0.44, rel=0.3)


def test_noise_is_averaged_out_and_nothing_becomes_negative() -> None:
    source = random.Random(1)
    known = first_correction(0.9)
    for _ in range(200):
        work = source.uniform(0.0, 0.6)
        known = known.seen({"all": work}, (0.2 + 2.0 * work) * source.uniform(0.8, 1.2))
        assert known.fixed >= 0
        assert known.of("all") > 0
        assert np.linalg.eigvalsh(known.spread).min() > 0
    assert known.of("all") == pytest.approx(2.0, rel=0.25)
    assert known.fixed == pytest.approx(0.2, abs=0.1)


def test_it_follows_costs_that_change() -> None:
    known = after(first_correction(0.9), [0.3] * 50, 0.1, 1.0)
    known = after(known, [0.3] * 25, 0.1, 2.0)
    assert known.expected({"all": 0.3}) == pytest.approx(0.7, rel=0.15)


TRUE = {"cheap": 0.6, "middle": 1.0, "dear": 1.5}
"""What the costs of three parts are wrong by, one against the other."""


def seconds(works: dict[str, float]) -> float:
    return 0.2 + sum(TRUE[part] * work for part, work in works.items())


def test_gates_that_shut_tell_parts_apart_and_what_all_cost_is_not_forgotten() -> None:
    whole = {"cheap": 0.1, "middle": 0.2, "dear": 0.4}
    known = first_correction(0.9)
    for scale in (0.3, 0.5, 0.4, 0.6, 0.5, 0.4, 0.3, 0.5) * 3:
        works = {part: scale * work for part, work in whole.items()}
        known = known.seen(works, seconds(works))
    assert known.expected(whole) == pytest.approx(seconds(whole), rel=0.05)
    assert known.of("cheap") > 1.1  # wrong together is more likely than one against the other
    alone = {"cheap": 1.0, "middle": 0.0, "dear": 0.0}
    for _ in range(2):
        known = known.seen(alone, seconds(alone))
    assert known.expected(alone) == pytest.approx(seconds(alone), rel=0.15)
    assert known.expected(whole) == pytest.approx(seconds(whole), rel=0.15)
    assert known.of("dear") > 1.3 * known.of("cheap")


def test_a_part_that_is_new_is_taken_to_be_as_wrong_as_the_others() -> None:
    known = after(first_correction(0.9), [0.1, 0.3] * 10, 0.1, 3.0)
    assert known.of("new") == known.of("all")
    both = known.seen({"all": 0.3, "new": 0.3}, 0.1 + 3.0 * 0.6)
    assert both.of("new") == pytest.approx(3.0, rel=0.1)
    dearer = known.seen({"all": 0.3, "new": 0.3}, 0.1 + 3.0 * 0.3 + 6.0 * 0.3)
    assert dearer.of("new") > 1.2 * dearer.of("all") > 3.0
