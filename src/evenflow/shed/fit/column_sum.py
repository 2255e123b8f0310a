"""Weighted sums of many rows, without BLAS.

For arrays of this size BLAS divides its work among threads. On a machine whose cores are busy,
which is when loads are planned for, these wait for one another a hundred times as long as they
compute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers


def column_sum(rows: Numbers, weights: Numbers) -> Numbers:
    """Return rows @ weights, for one weight for each of a few columns."""
    total: Numbers = np.zeros(len(rows))
    for column, weight in zip(rows.T, weights.tolist(), strict=True):
        total += column * weight
    return total
