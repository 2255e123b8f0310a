"""What planners ask of a solver of linear programs. HiGHS in `highs` is one; tests have others."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np

    from evenflow.shed.program import Numbers


class Trouble(enum.Enum):
    """Why there is no basis."""

    INFEASIBLE = "infeasible"
    """The bounds contradict one another."""
    SLOW = "slow"
    """The time limit was reached."""
    FAILED = "failed"


@dataclass(frozen=True, eq=False)
class Bounds:
    """Least and greatest values of columns and of rows."""

    column_lower: Numbers
    column_upper: Numbers
    row_lower: Numbers
    row_upper: Numbers


@dataclass(frozen=True, eq=False)
class Solved:
    """An optimal basis: columns, then rows."""

    basic: np.ndarray[tuple[int], np.dtype[np.bool_]]
    at_upper: np.ndarray[tuple[int], np.dtype[np.bool_]]


class Solver(Protocol):
    """Keeps one matrix of rows and columns."""

    def begin(self) -> None:
        """Begin a plan: all solves until the next call share one time limit."""
        ...

    def maximise(self, objective: Numbers, bounds: Bounds) -> Solved | Trouble:
        """Return an optimal basis, or why there is none."""
        ...
