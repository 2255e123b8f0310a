"""What was learned of a unit and outlives the process. Pure data; `stored` keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.control.correction import Correction, known_correction

FACTOR_SPREAD = 0.5
"""How wrong a factor may be in another process, relative to it, as a standard deviation."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One unit's."""

    queries: tuple[str, ...]
    """Those it had. With others it is another unit, of which nothing is known."""
    fixed: float
    factor: float

    def correction(self) -> Correction:
        """Return it to go on with, less certain than it was: the machine may have changed."""
        return known_correction(self.fixed, self.factor, FACTOR_SPREAD)
