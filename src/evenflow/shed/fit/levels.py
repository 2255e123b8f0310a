"""Sample values along one dimension, and how much value is lost by rounding down to them.

Rule: whatever decides about spread and cut-offs lives here.
"""
# Why the bound holds
# ===================
# A plan that is optimal sends a flow f through each tap (see `part`). It is rounded down to the
# next level. Section 6.2.1 takes levels at a fixed ratio, so that at most a share of f is lost;
# such levels never reach 0. Here a level is never closer to the next one than a fixed step of
# value, so that the levels end at 0 after finitely many:
#
#     lost value of a tap of value w  <=  max(thinning * w, min(w, step))
#
# Of n taps, let those that lose more than a step be the large ones. If there is none, at most n
# steps are lost. Otherwise the others, n - 1 at most, lose no more than a step each, and what they
# lose is not of the large ones. So of an optimum V that is not below `least` no more is lost than
#
#     the larger of  n step / least  and  thinning + (1 - thinning) (n - 1) step / least
#
# Where there is something to shed, V is at least the least score on the boundary of what fits with
# all gates open (`least` in `survey`).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenflow.shed.program import Numbers

_CHOICES = 25
"""Ways to divide epsilon between thinning and step that are tried; the best is flat."""

_EXACT = 1e-9
"""Share of a step by which rounding may make it one step more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far levels lie apart."""

    thinning: float
    """Share of a level by which the next one is smaller at least: the paper's spread."""
    step: float
    """Value by which the next level is smaller at least. 0 only where nothing has value."""


def levels(top: float, value: float, spread: Spread) -> Numbers:
    """Return levels from `top` down to 0, which is always one of them.

    Args:
        top: No flow is larger.
        value: Most that a tuple per second of the flow can be worth; without worth, 0 is enough.
        spread: How far apart.
    """
    if value <= 0.0 or spread.step <= 0.0 or top * value <= spread.step:
        return np.zeros(1)
    found = []
    level, step = top, spread.step / value
    while spread.thinning * level > step:
        found.append(level)
        level *= 1.0 - spread.thinning
    # Equal steps to 0: a last one that is shorter than the others would be a level for nothing.
    steps = int(np.ceil(level / step * (1.0 - _EXACT)))
    return np.concatenate([found, np.linspace(level, 0.0, steps + 1)])


def next_levels(ladder: Numbers) -> Numbers:
    """Return what each level stands for at most: the next one up, and itself for the top."""
    return np.concatenate([ladder[:1], ladder[:-1]])


def choose_spread(epsilon: float, least: float, taps: int, tops: Sequence[float]) -> Spread:
    """Return the spread with the fewest combinations of levels that keeps epsilon.

    Args:
        epsilon: Share of the optimum that may be lost by rounding.
        least: A value that every optimum has where something must be shed.
        taps: How many flows are rounded.
        tops: Largest value along each input, to count levels by.
    """
    if least <= 0.0 or taps == 0:
        return Spread(thinning=0.0, step=0.0)
    spreads = [
        _widest(float(epsilon * share), epsilon, least, taps)
        for share in np.linspace(0.0, 1.0, _CHOICES, endpoint=False)
    ]
    return min(spreads, key=lambda spread: _combinations(tops, spread))


def _widest(thinning: float, epsilon: float, least: float, taps: int) -> Spread:
    """Return the spread with the largest step that keeps epsilon."""
    share = epsilon / taps
    if taps > 1:
        share = min(share, (epsilon - thinning) / ((1.0 - thinning) * (taps - 1)))
    return Spread(thinning=thinning, step=share * least)


def _combinations(tops: Sequence[float], spread: Spread) -> float:
    """Return the logarithm of about how many combinations of levels there are.

    Levels near the boundary of what fits count twice: with n inputs an average one has a share of
    1/n of its top there, and more entries are made of small levels than of large ones.
    """
    ranges = [*tops, *(top / len(tops) for top in tops)]
    return float(sum(np.log(_count(top, spread)) for top in ranges))


def _count(top: float, spread: Spread) -> float:
    """Return about how many levels a tap of this value has."""
    if spread.thinning == 0.0:
        return 1.0 + top / spread.step
    bend = spread.step / spread.thinning
    thinned = max(0.0, np.log(top / bend) / -np.log1p(-spread.thinning)) if top > 0.0 else 0.0
    return 1.0 + float(thinned) + min(top, bend) / spread.step
