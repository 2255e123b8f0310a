"""Levels: where they end, and what rounding down to them loses."""

from __future__ import annotations

import numpy as np
import pytest
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
    taps=st.lists(st.tuples(sizes, st.floats(0.0, 1.0)), min_size=1, max_size=8),
)
def test_a_spread_keeps_epsilon(
    epsilon: float, least: float, taps: list[tuple[float, float]]
) -> None:
    """Flows lie right below a level, where rounding loses most; they are worth `least` or more."""
    spread = choose_spread(epsilon, least, len(taps), [top for top, _ in taps])
    assert spread.step > 0.0
    flows, lost = [], []
    for top, place in taps:
        ladder = levels(top, 1.0, spread)
        # Low levels as often as high ones.
        chosen = int(place * (len(ladder) - 1))
        flows.append(next_levels(ladder)[chosen])
        lost.append(flows[-1] - ladder[chosen])
    if sum(flows) >= least:
        assert sum(lost) <= epsilon * sum(flows) * (1 + 1e-9)


def test_a_spread_is_no_closer_than_epsilon_asks_for() -> None:
    """One tap far above the others, which all lose a step: the bound is reached."""
    spread = choose_spread(0.1, 1.0, 3, [1.0, 1.0, 1.0])
    worst = spread.thinning + (1 - spread.thinning) * 2 * spread.step
    assert max(worst, 3 * spread.step) == pytest.approx(0.1)


def test_wide_ranges_are_thinned() -> None:
    """The wider, the more: where levels at a ratio save most, steps may be smaller for it."""
    narrow, wide = (choose_spread(0.1, 1.0, 2, [top, top]) for top in (1.0, 1000.0))
    assert narrow.thinning < wide.thinning
    assert narrow.step > wide.step
