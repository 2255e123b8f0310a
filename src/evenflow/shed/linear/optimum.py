"""The optimal basis for given rates, ties broken.

Among equal optima the one with the least sum of node loads, then the lexicographically largest
`keep` by gate name. Objectives are maximised one after the other; after each, columns whose reduced
cost is not 0 are held where they are, which leaves exactly the optima found so far. Most often
nothing is free after the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.linear.basis import ZERO, Basis
from evenflow.shed.linear.solver import Bounds, Solved, Trouble

if TYPE_CHECKING:
    from evenflow.shed.linear.basis import Flags
    from evenflow.shed.linear.solver import Solver
    from evenflow.shed.linear.standard import StandardForm
    from evenflow.shed.program import Numbers

MOST_RATIOS = 50
"""Steps of the search for the largest ratio; each is an optimum of its own, few are needed."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The optimal flows for given rates, in tuples per second, and the basis they come from."""

    flows: Numbers
    basis: Basis


class OptimumSearch:
    """Finds optima of one program, with one solver that keeps its model."""

    def __init__(self, form: StandardForm, solver: Solver) -> None:
        self._form = form
        self._solver = solver

    def find(self, rates: Numbers) -> Optimum | Trouble:
        """Return the optimum at given rates."""
        self._solver.begin()
        return _Search(self._form, self._solver, rates).run()


def first_bounds(form: StandardForm, rates: Numbers) -> Bounds:
    """Return the bounds of columns and rows at given rates, before any tie is broken."""
    lower, upper = form.lower @ rates, np.where(form.bounded, form.upper @ rates, np.inf)
    sides = form.constant + form.by_rate @ rates
    free = np.full(form.rows, -np.inf)
    return Bounds(lower[: form.flows], upper[: form.flows], free, sides)


class _Search:
    """One search: the basis so far, and the objectives that are held at their optima."""

    def __init__(self, form: StandardForm, solver: Solver, rates: Numbers) -> None:
        self._form = form
        self._solver = solver
        self._rates = rates
        self._lower = form.lower @ rates
        self._upper = np.where(form.bounded, form.upper @ rates, np.inf)
        self._held = np.zeros(form.flows + form.rows, dtype=bool)
        """Columns that no further objective may move."""
        self._at: Numbers = np.zeros(form.flows + form.rows)
        self._basis: Basis | None = None

    def run(self) -> Optimum | Trouble:
        form = self._form
        for objective, slack in zip(form.objectives, form.split_row, strict=True):
            if self._basis is not None and not np.any(self._free()):
                break
            trouble = self._move(objective)
            if trouble is None and slack is not None and self._values()[slack] > ZERO:
                trouble = self._largest_share(slack)
            elif trouble is None:
                self._hold(objective)
            if trouble is not None:
                return trouble
        flows = np.maximum(self._values()[: form.flows], 0.0) * form.scale
        return Optimum(flows, self._known())

    def _known(self) -> Basis:
        assert self._basis is not None
        return self._basis

    def _values(self) -> Numbers:
        return self._known().values(self._rates)

    def _free(self) -> Flags:
        # A column whose bounds are the same number at these rates cannot move either.
        free: Flags = ~self._held & ~self._known().basic & (self._upper > self._lower)
        return free

    def _move(self, objective: Numbers) -> Trouble | None:
        """Go to an optimum of an objective among those that are left."""
        if self._basis is not None and not self._can_gain(objective):
            return None
        found = self._solver.maximise(objective[: self._form.flows], self._bounds())
        return found if isinstance(found, Trouble) else self._take(found)

    def _hold(self, objective: Numbers) -> None:
        """Leave only the optima of an objective: hold the columns that would make it worse."""
        changes = np.abs(self._known().reduced_costs(objective[None])[0]) > ZERO
        newly = changes & self._free()
        self._held |= newly
        self._at = np.where(newly, self._values(), self._at)

    def _can_gain(self, objective: Numbers) -> bool:
        basis = self._known()
        gains = basis.reduced_costs(objective[None])[0]
        better = np.where(basis.at_upper, -gains, gains)
        return bool(np.any(better[self._free()] > ZERO))

    def _bounds(self) -> Bounds:
        flows = self._form.flows
        lower = np.where(self._held, self._at, self._lower)
        upper = np.where(self._held, self._at, self._upper)
        sides = self._form.constant + self._form.by_rate @ self._rates
        # A slack is what a row lacks to its right-hand side.
        return Bounds(lower[:flows], upper[:flows], sides - upper[flows:], sides - lower[flows:])

    def _take(self, found: Solved) -> Trouble | None:
        at_upper = found.at_upper.copy()
        at_upper[self._form.flows :] = False
        if self._basis is not None:
            # Of a column that is held the solver cannot know at which of its bounds it is.
            at_upper = np.where(self._held, self._basis.at_upper, at_upper)
        unsure = self._form.bounded & (self._upper <= self._lower)
        try:
            basis = Basis(self._form, found.basic, at_upper, unsure)
        except np.linalg.LinAlgError:
            return Trouble.FAILED
        if not basis.feasible(self._rates):
            return Trouble.FAILED
        self._basis = basis
        return None

    def _largest_share(self, slack: int) -> Trouble | None:
        """Keep as large a share as can be of what comes to a gate: Dinkelbach's method."""
        flows = self._form.flows
        row = self._form.matrix[slack - flows]
        # Of a row of a split only the gate's own coefficient is positive.
        own = np.concatenate([np.maximum(row[:flows], 0.0), np.zeros(len(row) - flows)])
        come = np.concatenate([np.maximum(-row[:flows], 0.0), np.zeros(len(row) - flows)])
        share = -1.0
        for _ in range(MOST_RATIOS):
            values = self._values()
            now = float(own @ values) / float(come @ values)
            if now <= share + ZERO:
                break
            share = now
            trouble = self._move(own - share * come)
            if trouble is not None:
                return trouble
        self._hold(own - share * come)
        return None
