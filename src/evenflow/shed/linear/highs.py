"""HiGHS. A model is kept, so that a solve starts at the last basis. No other module imports it.

It is the one place of a decision package that looks at a clock, because a solve has a time limit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np

from evenflow.shed.linear.solver import Solved, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenflow.shed.linear.solver import Bounds
    from evenflow.shed.program import Numbers

TOLERANCE = 1e-10
"""Of primal and dual feasibility, the least that HiGHS takes. Programs come scaled."""

_TROUBLES = {
    highspy.HighsModelStatus.kInfeasible: Trouble.INFEASIBLE,
    highspy.HighsModelStatus.kUnboundedOrInfeasible: Trouble.INFEASIBLE,
    highspy.HighsModelStatus.kTimeLimit: Trouble.SLOW,
    highspy.HighsModelStatus.kIterationLimit: Trouble.SLOW,
}


class HighsSolver:
    """A `Solver`: one model, whose bounds and objective change."""

    def __init__(
        self, rows: Numbers, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._deadline = clock() + seconds
        self._rows, self._columns = rows.shape
        self._row_index = np.arange(self._rows, dtype=np.int32)
        self._column_index = np.arange(self._columns, dtype=np.int32)
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.silent()
        for name, value in (
            ("presolve", "off"),  # it would lose the basis that is started from
            ("solver", "simplex"),
            ("threads", 1),
            ("primal_feasibility_tolerance", TOLERANCE),
            ("dual_feasibility_tolerance", TOLERANCE),
        ):
            self._highs.setOptionValue(name, value)
        self._highs.passModel(self._model(rows))

    def begin(self) -> None:
        """Begin a plan: all solves until the next call share one time limit."""
        self._deadline = self._clock() + self._seconds

    def maximise(self, objective: Numbers, bounds: Bounds) -> Solved | Trouble:
        """Return an optimal basis, or why there is none."""
        highs = self._highs
        highs.changeColsCost(self._columns, self._column_index, -objective)
        highs.changeColsBounds(
            self._columns, self._column_index, bounds.column_lower, bounds.column_upper
        )
        highs.changeRowsBounds(self._rows, self._row_index, bounds.row_lower, bounds.row_upper)
        left = self._deadline - self._clock()
        if left <= 0.0:
            return Trouble.SLOW
        # Its own clock runs on from solve to solve.
        highs.setOptionValue("time_limit", highs.getRunTime() + left)
        highs.run()
        status = highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            # The basis of a solve that went wrong is no place to start the next one from.
            highs.clearSolver()
            return _TROUBLES.get(status, Trouble.FAILED)
        basis = highs.getBasis()
        states = np.array([int(each) for each in (*basis.col_status, *basis.row_status)])
        return Solved(
            basic=states == int(highspy.HighsBasisStatus.kBasic),
            at_upper=states == int(highspy.HighsBasisStatus.kUpper),
        )

    def _model(self, rows: Numbers) -> highspy.HighsLp:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self._columns, self._rows
        model.col_cost_ = np.zeros(self._columns)
        model.col_lower_, model.col_upper_ = np.zeros(self._columns), np.zeros(self._columns)
        model.row_lower_ = np.full(self._rows, -np.inf)
        model.row_upper_ = np.zeros(self._rows)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.arange(self._rows + 1) * self._columns
        model.a_matrix_.index_ = np.tile(self._column_index, self._rows)
        model.a_matrix_.value_ = rows.ravel()
        return model
