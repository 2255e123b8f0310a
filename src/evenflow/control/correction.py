"""One unit's batches against the calibrated costs: a factor for each part, and what is fixed.

A batch is expected to take `fixed + sum(factor * work)` machine-seconds, where the works are what
its rows should take in each part by the calibrated costs, at the gates it ran with. All of it is
followed by one Kalman filter. Parts are taken to be wrong together first (the machine is slower,
sinks and state are not in the calibration) and one against the other second: while all gates are
open, batches tell what the parts cost together; when gates shut some of them, batches tell them
apart, and what was learned of all together still holds when the gates open again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FIXED_SECONDS = 0.15
"""What a batch of Spark takes without rows, before one was seen."""
FIXED_SPREAD = 0.15
CERTAIN_SPREAD = 1.5
GUESSED_SPREAD = 20.0
"""How wrong the calibrated costs may be all together, as a standard deviation of their factor."""
OWN_SPREAD = 0.4
"""How wrong those of one part may be beside the others, for the factor of all."""
NOISE_SHARE = 0.1
NOISE_SECONDS = 0.03
"""How much a batch differs from the one before for no reason of the model's."""
FIXED_DRIFT = 0.005
FACTOR_DRIFT = 0.04
OWN_DRIFT = 0.01
"""How much all of it changes per batch; relative for factors."""
OUTLIER = 3.0
"""A batch counts as at most so many standard deviations off."""
LEAST_FACTOR, MOST_FACTOR = 1e-3, 1e4
LEAST_OWN = 0.2
"""No part is taken to cost less than this, for the factor of all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Correction:
    """What is known of one unit. The fixed seconds come first, then the factors of its parts."""

    known: NDArray[np.float64]
    spread: NDArray[np.float64]
    """Covariances."""
    at: Mapping[str, int]
    """Where the parts stand."""
    certainty: float
    batches: int = 0
    """How many have been seen."""

    @property
    def fixed(self) -> float:
        """Machine-seconds that a batch takes without rows."""
        return float(self.known[0])

    def of(self, part: str) -> float:
        """Return what the costs of a part are to be multiplied by."""
        if part in self.at:
            return float(self.known[self.at[part]])
        return float(np.mean(self.known[1:])) if self.at else 1.0

    def expected(self, works: Mapping[str, float]) -> float:
        """Return how long a batch with some work should take, in machine-seconds."""
        return self.fixed + sum(self.of(part) * work for part, work in works.items())

    def seen(self, works: Mapping[str, float], seconds: float) -> Correction:
        """Return what is known after a batch.

        Args:
            works: Machine-seconds by the calibrated costs, by part.
            seconds: Machine-seconds that it took.
        """
        if any(part not in self.at for part in works):
            return self._with(works).seen(works, seconds)
        weight = np.zeros_like(self.known)
        weight[0] = 1.0
        for part, work in works.items():
            weight[self.at[part]] = work
        noise = (NOISE_SHARE * seconds) ** 2 + NOISE_SECONDS**2
        shared = self.spread @ weight
        total = float(weight @ shared) + noise
        limit = OUTLIER * total**0.5
        off = max(-limit, min(limit, seconds - float(weight @ self.known)))
        known = self.known + shared * (off / total)
        known[0] = max(0.0, known[0])
        if self.at:
            all_ = min(MOST_FACTOR, max(LEAST_FACTOR, _of_all(known[1:], weight[1:])))
            known[1:] = np.clip(known[1:], LEAST_OWN * all_, None)
        return replace(
            self,
            known=known,
            spread=self.spread - np.outer(shared, shared) / total + _drift(known),
            batches=self.batches + 1,
        )

    def _with(self, parts: Mapping[str, float]) -> Correction:
        """Return it with parts that were not known: what is known of the others holds for them."""
        new = [part for part in parts if part not in self.at]
        size, more = len(self.known), len(new)
        if self.at:
            factor = float(np.mean(self.known[1:]))
            beside = self.spread[:, 1:].mean(axis=1)
            common = float(beside[1:].mean())
        else:
            factor = 1.0
            beside = np.zeros(size)
            common = (GUESSED_SPREAD if self.certainty <= 0 else CERTAIN_SPREAD) ** 2
        known = np.concatenate([self.known, np.full(more, factor)])
        spread = np.full((size + more, size + more), common)
        spread[:size, :size] = self.spread
        spread[size:, :size], spread[:size, size:] = beside, beside[:, np.newaxis]
        spread[range(size, size + more), range(size, size + more)] += (OWN_SPREAD * factor) ** 2
        at = {**self.at, **{part: size + number for number, part in enumerate(new)}}
        return replace(self, known=known, spread=spread, at=at)


def first_correction(certainty: float) -> Correction:
    """Return what is known of a unit before its first batch.

    Args:
        certainty: Of its costs, 0 to 1; 0 lets the first batch set the factors.
    """
    return Correction(
        known=np.array([FIXED_SECONDS]),
        spread=np.array([[FIXED_SPREAD**2]]),
        at={},
        certainty=certainty,
    )


def _of_all(factors: NDArray[np.float64], works: NDArray[np.float64]) -> float:
    """Return the factor of all parts together, by what they work."""
    total = float(works.sum())
    return float(factors @ works) / total if total > 0 else float(factors.mean())


def _drift(known: NDArray[np.float64]) -> NDArray[np.float64]:
    drift = np.empty((len(known), len(known)))
    drift[0, :] = drift[:, 0] = 0.0
    drift[0, 0] = FIXED_DRIFT**2
    factors = known[1:]
    drift[1:, 1:] = FACTOR_DRIFT**2 * np.outer(factors, factors)
    drift[1:, 1:] += np.diag((OWN_DRIFT * factors) ** 2)
    return drift
