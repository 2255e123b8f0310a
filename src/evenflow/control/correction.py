"""What the items of one unit cost, and what every batch takes anyway, as its batches tell it.

A batch is expected to take `fixed + sum(cost * tuples)` machine-seconds, where tuples are those
that came to each item at the gates it ran with. All of it is followed by one Kalman filter that
begins with the calibrated costs. They are taken to be wrong together first (the machine is slower,
sinks and state are not in the calibration) and one against the other second: while all gates are
open, batches tell what the items cost together; when gates shut some of them, batches tell them
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
OWN_SPREAD, MEAN_SPREAD = 0.4, 0.2
"""How wrong that of one item may be beside the others: for itself, and for what items cost on
average, or one that seems to cost nothing would for ever."""
NOISE_SHARE = 0.1
NOISE_SECONDS = 0.03
"""How much a batch differs from the one before for no reason of the model's."""
FIXED_DRIFT = 0.005
FACTOR_DRIFT = 0.04
OWN_DRIFT = 0.01
"""How much all of it changes per batch; relative for costs."""
LEAST_DRIFTING = 0.1
"""A item drifts at least as one that costs so much of what items do on average."""
OUTLIER = 3.0
"""A batch counts as at most so many standard deviations off."""
LEAST_FACTOR = 1e-3
"""No item is taken to cost less, for what the calibration says."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Correction:
    """What is known of one unit: the fixed seconds first, then the costs of its items."""

    known: NDArray[np.float64]
    spread: NDArray[np.float64]
    """Covariances."""
    calibrated: NDArray[np.float64]
    """What is known but for the batches."""
    at: Mapping[str, int]
    """Where the items stand."""
    first_factor: float
    """Of the items, before there are any."""
    first_spread: float
    """How wrong that may be, for itself."""

    @property
    def fixed(self) -> float:
        """Machine-seconds that a batch takes without rows."""
        return float(self.known[0])

    @property
    def factor(self) -> float:
        """What all items together cost, for what the calibration says."""
        total = float(self.calibrated[1:].sum())
        return float(self.known[1:].sum()) / total if total > 0 else self.first_factor

    def of(self, item: str, calibrated: float) -> float:
        """Return what a item costs; as wrong as the others if it is not known."""
        return float(self.known[self.at[item]]) if item in self.at else self.factor * calibrated

    def expected(self, costs: Mapping[str, float], tuples: Mapping[str, float]) -> float:
        """Return how long a batch should take, in machine-seconds.

        Args:
            costs: As calibrated, in machine-seconds, by item.
            tuples: That come to the items.
        """
        return self.fixed + sum(self.of(item, costs[item]) * n for item, n in tuples.items())

    def seen(
        self, costs: Mapping[str, float], tuples: Mapping[str, float], seconds: float
    ) -> Correction:
        """Return what is known after a batch.

        Args:
            costs: As calibrated, in machine-seconds, by item.
            tuples: That came to the items.
            seconds: Machine-seconds that it took.
        """
        if set(self.at) - set(costs):
            return self._without(costs).seen(costs, tuples, seconds)
        if set(costs) - set(self.at):
            return self._with(costs).seen(costs, tuples, seconds)
        weight = np.zeros_like(self.known)
        weight[0] = 1.0
        for item, number in tuples.items():
            weight[self.at[item]] = number
        noise = (NOISE_SHARE * seconds) ** 2 + NOISE_SECONDS**2
        shared = self.spread @ weight
        total = float(weight @ shared) + noise
        limit = OUTLIER * total**0.5
        off = max(-limit, min(limit, seconds - float(weight @ self.known)))
        known = np.maximum(self.known + shared * (off / total), LEAST_FACTOR * self.calibrated)
        return replace(
            self,
            known=known,
            spread=self.spread - np.outer(shared, shared) / total + _drift(known),
        )

    def _without(self, costs: Mapping[str, float]) -> Correction:
        """Return it without items that are gone."""
        left = [item for item in self.at if item in costs]
        if not left:
            return known_correction(self.fixed, self.factor, CERTAIN_SPREAD)
        at = [0, *(self.at[item] for item in left)]
        return replace(
            self,
            known=self.known[at],
            spread=self.spread[np.ix_(at, at)],
            calibrated=self.calibrated[at],
            at={item: number for number, item in enumerate(left, 1)},
        )

    def _with(self, costs: Mapping[str, float]) -> Correction:
        """Return it with items that were not known: what is known of the others holds for them."""
        new = [item for item in costs if item not in self.at]
        added = np.array([costs[item] for item in new])
        size, factor = len(self.known), self.factor
        total = float(self.calibrated[1:].sum())
        if total > 0:
            # What the factor of those that are known shares with each of them, and its variance.
            beside = self.spread[:, 1:].sum(axis=1) / total
            common = float(beside[1:].sum()) / total
        else:
            beside = np.zeros(size)
            common = (self.first_spread * self.first_factor) ** 2
        calibrated = np.concatenate([self.calibrated, added])
        own = factor * (OWN_SPREAD * added + MEAN_SPREAD * float(calibrated[1:].mean()))
        spread = np.zeros((size + len(new), size + len(new)))
        spread[:size, :size] = self.spread
        spread[:size, size:] = np.outer(beside, added)
        spread[size:, :size] = spread[:size, size:].T
        spread[size:, size:] = common * np.outer(added, added) + np.diag(own**2)
        return replace(
            self,
            known=np.concatenate([self.known, factor * added]),
            spread=spread,
            calibrated=calibrated,
            at={**self.at, **{item: size + number for number, item in enumerate(new)}},
        )


def first_correction(certainty: float) -> Correction:
    """Return what is known of a unit before its first batch.

    Args:
        certainty: Of its costs, 0 to 1; 0 lets the first batch set their factor.
    """
    return known_correction(
        FIXED_SECONDS, 1.0, GUESSED_SPREAD if certainty <= 0 else CERTAIN_SPREAD
    )


def known_correction(fixed: float, factor: float, spread: float) -> Correction:
    """Return what is known of a unit whose batches were seen by somebody else.

    Args:
        fixed: Machine-seconds that a batch takes without rows.
        factor: Of the calibrated costs.
        spread: How wrong that may be, for itself, as a standard deviation.
    """
    return Correction(
        known=np.array([fixed]),
        spread=np.array([[FIXED_SPREAD**2]]),
        calibrated=np.zeros(1),
        at={},
        first_factor=factor,
        first_spread=spread,
    )


def _drift(known: NDArray[np.float64]) -> NDArray[np.float64]:
    costs = known[1:]
    # What seems to cost nothing may cost something again.
    relative = np.concatenate([[0.0], np.maximum(costs, LEAST_DRIFTING * costs.mean())])
    drift = FACTOR_DRIFT**2 * np.outer(relative, relative) + np.diag((OWN_DRIFT * relative) ** 2)
    drift[0, 0] = FIXED_DRIFT**2
    return drift
