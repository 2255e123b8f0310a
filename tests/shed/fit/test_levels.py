"""Levels: where they end, and what rounding down to them loses."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.shed.fit.levels import Spread, choose_spread, levels, next_levels

shares = st.floats(min_value=0.0, max_value=0.9)
sizes = st.floats(min_value=0.01, max_value=100.0)


@given(top=sizes, value=sizes, thinning=shares, step=st.floats(min_value=0.05, max_value=10.0))
def test_rounding_down_loses_no_more_than_promised(
    top: float, value: float, thinning: float, step: float
) -> None:
    spread = Spread(thinning=thinning, step=step)
    ladder = levels(top, value, spread)
    assert ladder[-1] == 0.0
    if len(ladder) == 1:
        assert top * value <= step
        return
    assert ladder[0] == top
    assert np.all(np.diff(ladder) < 0.0)
    lost = next_levels(ladder) - ladder
    assert np.all(lost * value <= np.maximum(thinning * next_levels(ladder) * value, step) * 1.001)


def test_levels_of_what_has_no_value_are_0_alone() -> None:
    assert levels(5.0, 0.0, Spread(thinning=0.1, step=0.1)).tolist() == [0.0]
    assert levels(0.0, 1.0, Spread(thinning=0.1, step=0.1)).tolist() == [0.0]


def test_levels_are_thinned_at_the_top_and_even_at_the_bottom() -> None:
    ladder = levels(8.0, 1.0, Spread(thinning=0.5, step=0.5))
    assert ladder.tolist() == [8.0, 4.0, 2.0, 1.0, 0.5, 0.0]


@given(
    epsilon=st.floats(min_value=0.01, max_value=0.7),
    least=sizes,
    taps=st.integers(1, 8),
    tops=st.lists(sizes, min_size=1, max_size=4),
)
def test_a_spread_keeps_epsilon(epsilon: float, least: float, taps: int, tops: list[float]) -> None:
    spread = choose_spread(epsilon, least, taps, tops)
    assert spread.step > 0.0
    assert spread.thinning + taps * spread.step / least <= epsilon * (1 + 1e-12)


def test_wide_ranges_are_thinned() -> None:
    assert choose_spread(0.1, 1.0, 2, [1.0, 1.0]).thinning == 0.0
    assert choose_spread(0.1, 1.0, 2, [1000.0, 1000.0]).thinning > 0.0
