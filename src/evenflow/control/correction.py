"""One unit's batches against the calibrated costs: a factor, and what every batch takes anyway.

A batch is expected to take `fixed + factor * work` machine-seconds, where work is what its rows
should take by the calibrated costs, at the gates it ran with. Both numbers are followed by a Kalman
filter with two states: a batch with little work tells about the fixed part, one with much about the
factor, and neither is thrown about by one slow batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIXED_SECONDS = 0.15
"""What a batch of Spark takes without rows, before one was seen."""
FIXED_SPREAD = 0.15
CERTAIN_SPREAD = 1.5
GUESSED_SPREAD = 20.0
"""How wrong the calibrated costs may be, as a standard deviation of the factor."""
NOISE_SHARE = 0.1
NOISE_SECONDS = 0.03
"""How much a batch differs from the one before for no reason of the model's."""
FIXED_DRIFT = 0.005
FACTOR_DRIFT = 0.04
"""How much the two change per batch; relative for the factor."""
OUTLIER = 3.0
"""A batch counts as at most so many standard deviations off."""
LEAST_FACTOR, MOST_FACTOR = 1e-3, 1e4


@dataclass(frozen=True, kw_only=True)
class Correction:
    """What is known of one unit."""

    fixed: float
    """Machine-seconds that a batch takes without rows."""
    factor: float
    """What costs are to be multiplied by."""
    var_fixed: float
    var_factor: float
    covariance: float = 0.0
    batches: int = 0
    """How many have been seen."""

    def expected(self, work: float) -> float:
        """Return how long a batch with some work should take, in machine-seconds."""
        return self.fixed + self.factor * work

    def seen(self, work: float, seconds: float) -> Correction:
        """Return what is known after a batch.

        Args:
            work: Machine-seconds by the calibrated costs.
            seconds: Machine-seconds that it took.
        """
        noise = (NOISE_SHARE * seconds) ** 2 + NOISE_SECONDS**2
        to_fixed = self.var_fixed + self.covariance * work
        to_factor = self.covariance + self.var_factor * work
        spread = to_fixed + to_factor * work + noise
        off = seconds - self.expected(work)
        limit = OUTLIER * spread**0.5
        off = max(-limit, min(limit, off))
        gain_fixed, gain_factor = to_fixed / spread, to_factor / spread
        factor = self.factor + gain_factor * off
        return replace(
            self,
            fixed=max(0.0, self.fixed + gain_fixed * off),
            factor=max(LEAST_FACTOR, min(MOST_FACTOR, factor)),
            var_fixed=self.var_fixed - gain_fixed * to_fixed + FIXED_DRIFT**2,
            var_factor=self.var_factor
            - gain_factor * to_factor
            + (FACTOR_DRIFT * max(factor, LEAST_FACTOR)) ** 2,
            covariance=self.covariance - gain_fixed * to_factor,
            batches=self.batches + 1,
        )


def first_correction(certainty: float) -> Correction:
    """Return what is known of a unit before its first batch.

    Args:
        certainty: Of its costs, 0 to 1; 0 lets the first batch set the factor.
    """
    spread = GUESSED_SPREAD if certainty <= 0 else CERTAIN_SPREAD
    return Correction(
        fixed=FIXED_SECONDS, factor=1.0, var_fixed=FIXED_SPREAD**2, var_factor=spread**2
    )
