"""Complementary local plans: which gates of a node drop first (section 6.2.2).

A node has one limit, its capacity, so that one price of load decides: a gate is closed as soon as
what a tuple behind it brings is worth less than the load it makes at that price. The price at which
a gate closes is its quality/load ratio, computed with the gates behind it that closed earlier.
Closing gates in ascending order of these ratios, the last one in part, is optimal by duality. It
does not matter whether gates form a tree: a gate behind a union has one ratio, whoever feeds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.column_sum import column_sum

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DropOrder:
    """What is left of load and value as more and more own gates close."""

    gates: tuple[int, ...]
    """Own gates in the order in which they close. Those that save no load never do."""
    ratios: tuple[float, ...]
    """Quality/load, one for each of them; ascending."""
    loads: Numbers
    """Number of closed gates by head: load of one tuple behind the head. Falls down the rows."""
    values: Numbers
    """Number of closed gates by head: what a tuple behind the head brings."""

    def settle(self, flows: Numbers, capacity: float) -> tuple[Numbers, Numbers]:
        """Return where the order has to stop for flows of heads, one row each, to fit.

        The first array is how many gates are closed, a fraction for the last one; -1 where the
        flows do not fit with all of them closed. The second is the value that is left.
        """
        loads = np.array([column_sum(flows, row) for row in self.loads])
        fits = loads <= capacity * (1.0 + 1e-12)
        closed = np.argmax(fits, axis=0)
        rows = np.arange(len(flows))
        before = np.maximum(closed - 1, 0)
        saved = loads[before, rows] - loads[closed, rows]
        excess = loads[before, rows] - capacity
        part = np.divide(excess, saved, out=np.zeros_like(saved), where=saved > 0.0)
        part = np.clip(part, 0.0, 1.0)
        values = np.array([column_sum(flows, row) for row in self.values])
        left = values[before, rows] + part * (values[closed, rows] - values[before, rows])
        fit = fits[closed, rows]
        return np.where(fit, before + part, -1.0), np.where(fit, left, 0.0)

    def fractions(self, closed: float, own_gates: int) -> Numbers:
        """Return what each own gate keeps where the order stops at `closed`."""
        keep = np.ones(own_gates)
        for position, gate in enumerate(self.gates):
            keep[gate] = min(1.0, max(0.0, 1.0 - (closed - position)))
        return keep


def drop_order(*, heads: int, arriving: Numbers, load: Numbers, value: Numbers) -> DropOrder:
    """Return the order for a node.

    Args:
        heads: How many flows come in; the rest of the columns are own gates.
        arriving: Own gate by (heads, own gates); gates stand after those that feed them.
        load: By (heads, own gates).
        value: By (heads, own gates).
    """
    own = len(arriving)
    keep = np.ones(own)
    order: list[int] = []
    ratios: list[float] = []
    loads, values = [], []
    while True:
        worth, weight = behind(arriving, value, keep), behind(arriving, load, keep)
        loads.append(weight[:heads])
        values.append(worth[:heads])
        saving = np.where((keep > 0.0) & (weight[heads:] > 0.0), weight[heads:], np.nan)
        ratio = worth[heads:] / saving
        if own == 0 or np.all(np.isnan(ratio)):
            break
        gate = int(np.nanargmin(ratio))
        order.append(gate)
        ratios.append(float(ratio[gate]))
        keep[gate] = 0.0
    return DropOrder(
        gates=tuple(order), ratios=tuple(ratios), loads=np.array(loads), values=np.array(values)
    )


def behind(arriving: Numbers, direct: Numbers, keep: Numbers) -> Numbers:
    """Return what a tuple leads to in all, by (heads, own gates), given what gates keep."""
    total = direct.copy()
    heads = len(direct) - len(arriving)
    for gate in reversed(range(len(arriving))):
        total += arriving[gate] * keep[gate] * total[heads + gate]
    return total
