"""Figures out of measurements: percentiles, gaps, slopes. Arithmetic only."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def longest_gap(times: Sequence[float], begin: float, end: float) -> float:
    """Return the longest time between two successive instants that touches a span.

    Instants before and after the span count: the gap that a change makes begins with the last
    answers before it and ends with the first after it.
    """
    ordered = sorted(times)
    gaps = [b - a for a, b in itertools.pairwise(ordered) if b > begin and a < end]
    return max(gaps, default=0.0)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points (Theil and Sen).

    Single points that lie far off, such as a heap just before it is cleaned, do not move it.
    """
    slopes = [
        (b[1] - a[1]) / (b[0] - a[0])
        for a, b in itertools.combinations(sorted(points), 2)
        if b[0] > a[0]
    ]
    return statistics.median(slopes) if slopes else 0.0
