"""A second solver: the two-phase simplex of textbooks on a dense tableau. Not a line of HiGHS.

What it returns is proved: the last basis is solved anew from the rows as they were given, and must
be feasible with prices that are, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Numbers = Any

ZERO = 1e-9
PROOF = 1e-7
"""How far a proof may be from the truth, relatively, for rounding."""
STEEP = 300
"""Steps by the steepest column; then Bland's rule, which cannot go round."""
MOST_STEPS = 20_000


class NotProvedError(AssertionError):
    """The solver is wrong, or its numbers are too far apart for it."""


def greatest(
    value: Numbers, most: Numbers, sides: Numbers, equal: Numbers, equal_sides: Numbers
) -> float | None:
    """Return the greatest value x of x >= 0 with most x <= sides and equal x = equal_sides.

    None if there is no such x.
    """
    rows, right = _with_slacks(most, sides, equal, equal_sides)
    count, columns = rows.shape
    # A row whose slack is no basis, because it is negative or missing, gets an artificial column.
    basis = [_slack_of(rows, row, len(value)) for row in range(count)]
    needed = [row for row in range(count) if basis[row] is None]
    table = np.hstack([rows, np.zeros((count, len(needed))), right[:, None]])
    for place, row in enumerate(needed):
        table[row, columns + place] = 1.0
        basis[row] = columns + place
    goal = np.zeros(table.shape[1] - 1)
    goal[columns:] = -1.0
    _climb(table, basis, goal, columns)
    missing = sum(table[row, -1] for row in range(count) if basis[row] >= columns)
    if missing > PROOF * max(1.0, float(np.max(np.abs(right), initial=0.0))):
        return None
    kept = _without_artificial(table, basis, columns)
    table, basis = table[kept], [basis[row] for row in kept]
    goal = np.concatenate([value, np.zeros(table.shape[1] - 1 - len(value))])
    _climb(table, basis, goal, columns)
    return _proved(rows[kept], right[kept], goal[:columns], basis)


def _with_slacks(
    most: Numbers, sides: Numbers, equal: Numbers, equal_sides: Numbers
) -> tuple[Numbers, Numbers]:
    """Return equations with right-hand sides that are not negative, each with 1 as its largest."""
    slacks = np.vstack([np.eye(len(most)), np.zeros((len(equal), len(most)))])
    rows = np.hstack([np.vstack([most, equal]), slacks])
    right = np.concatenate([sides, equal_sides])
    size = np.max(np.abs(rows[:, : most.shape[1]]), axis=1, initial=0.0)
    size = np.where(size > 0.0, size, 1.0) * np.where(right < 0.0, -1.0, 1.0)
    rows, right = rows / size[:, None], right / size
    own = np.arange(len(most))
    rows[own, most.shape[1] + own] = np.sign(rows[own, most.shape[1] + own])
    return rows, right


def _slack_of(rows: Numbers, row: int, flows: int) -> Any:
    slack = flows + row
    return slack if slack < rows.shape[1] and rows[row, slack] == 1.0 else None


def _climb(table: Numbers, basis: list[Any], goal: Numbers, columns: int) -> None:
    """Go to an optimum; columns from a number on do not come in."""
    for step in range(MOST_STEPS):
        gains = goal[:columns] - goal[basis] @ table[:, :columns]
        better = np.flatnonzero(gains > ZERO)
        if len(better) == 0:
            return
        column = int(better[0] if step > STEEP else better[np.argmax(gains[better])])
        rows = np.flatnonzero(table[:, column] > ZERO)
        if len(rows) == 0:
            raise NotProvedError("without bound")
        ratios = table[rows, -1] / table[rows, column]
        first = rows[ratios <= ratios.min() + 1e-12]
        if step > STEEP:
            row = int(min(first, key=basis.__getitem__))
        else:
            row = int(first[np.argmax(table[first, column])])
        _pivot(table, row, column)
        basis[row] = column
    raise NotProvedError("too many steps")


def _pivot(table: Numbers, row: int, column: int) -> None:
    table[row] /= table[row, column]
    factors = table[:, column].copy()
    factors[row] = 0.0
    table -= np.outer(factors, table[row])


def _without_artificial(table: Numbers, basis: list[Any], columns: int) -> list[int]:
    """Take artificial columns out of the basis; return the rows that say anything."""
    kept = []
    for row in range(len(table)):
        if basis[row] >= columns:
            column = int(np.argmax(np.abs(table[row, :columns])))
            if abs(table[row, column]) <= ZERO:
                continue
            _pivot(table, row, column)
            basis[row] = column
        kept.append(row)
    return kept


def _proved(rows: Numbers, right: Numbers, goal: Numbers, basis: list[Any]) -> float:
    square = rows[:, basis]
    found, prices = np.linalg.solve(square, right), np.linalg.solve(square.T, goal[basis])
    size = max(1.0, float(np.max(np.abs(right), initial=0.0)))
    worth = max(1.0, float(np.max(np.abs(goal), initial=0.0)))
    if np.any(found < -PROOF * size) or np.any(goal - prices @ rows > PROOF * worth):
        raise NotProvedError("its last basis is no optimum")
    best = float(goal[basis] @ found)
    if abs(best - float(prices @ right)) > PROOF * max(1.0, abs(best)):
        raise NotProvedError("its prices do not reach its value")
    return best
