"""Bases of the linear program, as functions of the rates.

Rates stand on right-hand sides only. A basis that is optimal for some rates is therefore optimal
for all rates at which its solution is feasible, and its dual solution bounds the optimum at any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evenflow.shed.linear.standard import StandardForm
    from evenflow.shed.program import Numbers

    Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

ZERO = 1e-9
"""Reduced costs and slacks below this are 0; everything is scaled to 1."""


class Basis:
    """A basis with the values of all columns, and their reduced costs for every objective."""

    def __init__(
        self, form: StandardForm, basic: Flags, at_upper: Flags, unsure: Flags | None = None
    ) -> None:
        """Compute it.

        Args:
            form: The program.
            basic: By column; as many as there are rows.
            at_upper: By column that is not basic: it is at its upper bound.
            unsure: Columns for which that is not known, because both bounds are the same number at
                the rates of now; reduced costs say which it is when they are not.

        Raises:
            numpy.linalg.LinAlgError: The columns are no basis.
        """
        self.form = form
        self.basic = basic
        self._inverse = np.linalg.inv(form.matrix[:, basic])
        self.reduced = self.reduced_costs(form.objectives)
        self.at_upper = at_upper & form.bounded & ~basic
        if unsure is not None:
            self.at_upper = np.where(unsure & ~basic, self._first_changes() > 0, self.at_upper)
        self.constant, self.by_rate = self._values()

    def reduced_costs(self, objectives: Numbers) -> Numbers:
        """Return objective by column what a unit more of a column would bring."""
        prices = objectives[:, self.basic] @ self._inverse
        found: Numbers = objectives - prices @ self.form.matrix
        found[:, self.basic] = 0.0
        return found

    def values(self, rates: Numbers) -> Numbers:
        """Return the values of all columns at given rates."""
        found: Numbers = self.constant + self.by_rate @ rates
        return found

    def feasible(self, rates: Numbers, tolerance: float = ZERO) -> bool:
        """Whether the values keep all bounds."""
        values, form = self.values(rates), self.form
        above = values - form.lower @ rates
        below = np.where(form.bounded, form.upper @ rates - values, 0.0)
        return bool(np.all(above >= -tolerance) and np.all(below >= -tolerance))

    def tied_slacks(self) -> tuple[int, ...]:
        """Return the slacks of splits that must be 0 for ties to be broken rightly.

        A gate of a split should keep as large a share as can be of what comes to it. Its objective
        says so only where the share is 1, or where what comes is the same for all optima that are
        left when its turn comes. Those count that stand before a column is decided.
        """
        movable = ~self.basic & ~self.form.fixed
        changes = np.abs(self.reduced[:, movable]) > ZERO
        deciding = np.where(changes.any(axis=0), changes.argmax(axis=0), len(changes) - 1)
        last = int(deciding.max(initial=0))
        return tuple(
            slack
            for turn, slack in enumerate(self.form.split_row[: last + 1])
            if slack is not None and self._arrival_varies(slack, turn)
        )

    def _arrival_varies(self, slack: int, turn: int) -> bool:
        """Whether what comes to a gate differs among the optima of the objectives before a turn."""
        row = self.form.matrix[slack - self.form.flows].copy()
        row[self.form.flows :] = 0.0
        change = self.reduced_costs(np.maximum(-row, 0.0)[None])[0]
        decided = np.any(np.abs(self.reduced[:turn]) > ZERO, axis=0)
        free = ~decided & ~self.basic & ~self.form.fixed
        return bool(np.any(np.abs(change[free]) > ZERO))

    def bound(self) -> tuple[float, Numbers]:
        """Return what bounds the value at any rates: a constant and a price for each input.

        Weak duality, in units of the program's value. It holds whatever the basis if prices of rows
        are not negative and no unbounded column brings anything, which is made sure of here.
        """
        form, worth = self.form, self.form.program.value * self.form.scale
        whole = np.concatenate([worth, np.zeros(form.rows)])
        prices = np.maximum(whole[self.basic] @ self._inverse, 0.0)
        left = whole - prices @ form.matrix
        flows = left[: form.flows]
        tight = form.bounded[: form.flows]
        if np.any(flows[~tight] > ZERO * max(1.0, float(np.max(np.abs(worth), initial=0.0)))):
            return np.inf, np.zeros(len(form.program.inputs))
        gained = np.where(form.fixed[: form.flows], flows, np.maximum(flows, 0.0))
        by_rate = prices @ form.by_rate + (gained * tight) @ form.upper[: form.flows]
        return float(prices @ form.constant), by_rate

    def _first_changes(self) -> Numbers:
        """Return by column its first reduced cost that is not 0, or 0."""
        changes = np.abs(self.reduced) > ZERO
        columns = np.arange(self.reduced.shape[1])
        first: Numbers = np.where(
            changes.any(axis=0), self.reduced[changes.argmax(axis=0), columns], 0.0
        )
        return first

    def _values(self) -> tuple[Numbers, Numbers]:
        form = self.form
        outside = ~self.basic
        by_rate = np.where(self.at_upper[:, None], form.upper, form.lower)
        by_rate[self.basic] = 0.0
        constant = np.zeros(len(by_rate))
        constant[self.basic] = self._inverse @ form.constant
        by_rate[self.basic] = self._inverse @ (
            form.by_rate - form.matrix[:, outside] @ by_rate[outside]
        )
        return constant, by_rate
