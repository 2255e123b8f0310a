"""Even drop: floors first, then all flows opened alike. The safe plan where no uniform drop fits.

Flows that keep floors and capacities are found without the solver, which is in trouble when this is
asked for: by the first phase of a dense simplex with Bland's rule, which cannot go round. From
there all flows go towards those without drops, by the largest share that fits: flows in between two
that are possible are possible, and so are floors that both keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.linear.basis import ZERO
from evenflow.shed.linear.solver import Trouble

if TYPE_CHECKING:
    from evenflow.shed.linear.standard import StandardForm
    from evenflow.shed.program import Numbers

MOST_PIVOTS = 10_000
"""Rounding could undo what Bland's rule promises; hundreds are enough for hundreds of gates."""


def even_flows(form: StandardForm, rates: Numbers) -> Numbers | Trouble:
    """Return flows by gate, in tuples per second; or that nothing fits."""
    least = _least_flows(form, rates)
    if isinstance(least, Trouble):
        return least
    program = form.program
    undropped = program.unit_flow @ rates
    used, grown = program.load @ least, program.load @ (undropped - least)
    room = np.maximum(program.capacity - used, 0.0)
    share = np.min(room[grown > 0.0] / grown[grown > 0.0], initial=1.0)
    flows: Numbers = least + share * (undropped - least)
    return flows


def _least_flows(form: StandardForm, rates: Numbers) -> Numbers | Trouble:
    """Return flows that keep floors and capacities, and are small where they can be."""
    lower = form.lower[: form.flows] @ rates
    bounded = form.bounded[: form.flows]
    above = np.eye(form.flows)[bounded]
    rows = np.vstack([form.matrix[:, : form.flows], above])
    sides = np.concatenate(
        [
            form.constant + form.by_rate @ rates,
            above @ (form.upper[: form.flows] @ rates),
        ]
    )
    found = point_below(rows, sides - rows @ lower)
    return found if isinstance(found, Trouble) else (found + lower) * form.scale


def point_below(rows: Numbers, sides: Numbers) -> Numbers | Trouble:
    """Return x >= 0 with rows x <= sides.

    Every row gives way by an artificial variable, which is then made as small as can be.
    """
    count, columns = rows.shape
    if np.all(sides >= 0.0):
        return np.zeros(columns)
    artificial = columns
    table = np.hstack([rows, -np.ones((count, 1)), sides[:, None]])
    outside = list(range(columns + 1))
    basic = list(range(columns + 1, columns + 1 + count))
    _pivot(table, basic, outside, int(np.argmin(sides)), artificial)
    for _ in range(MOST_PIVOTS):
        row = basic.index(artificial) if artificial in basic else None
        if row is None or table[row, -1] <= ZERO:
            found = np.zeros(columns + 1 + count)
            found[basic] = table[:, -1]
            return np.maximum(found[:columns], 0.0)
        helping = [place for place in range(columns + 1) if table[row, place] > ZERO]
        if not helping:
            return Trouble.INFEASIBLE
        place = min(helping, key=outside.__getitem__)
        _pivot(table, basic, outside, _leaving(table, basic, place, artificial), place)
    return Trouble.FAILED


def _leaving(table: Numbers, basic: list[int], place: int, artificial: int) -> int:
    """Return the row that is used up first; the artificial variable goes before others."""
    rows = np.flatnonzero(table[:, place] > ZERO)
    ratios = np.maximum(table[rows, -1], 0.0) / table[rows, place]
    first = rows[ratios <= ratios.min() + ZERO]
    return int(min(first, key=lambda row: (basic[row] != artificial, basic[row])))


def _pivot(table: Numbers, basic: list[int], outside: list[int], row: int, place: int) -> None:
    """Exchange the variable of a row with one that is not basic."""
    by = table[row, place]
    table[row] /= by
    table[row, place] = 1.0 / by
    column = table[:, place].copy()
    for other in range(len(table)):
        if other != row and column[other] != 0.0:
            table[other] -= column[other] * table[row]
            table[other, place] = -column[other] / by
    basic[row], outside[place] = outside[place], basic[row]
