"""How coarse tables must be to stay small: a search for the least loss at which all of them fit."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.errors import NetworkError

_GROWTH = 1.5
"""By which the loss grows until tables fit."""

_LEAP = 3.0
"""By which it grows where it is so large that nothing is certain any more."""

_HALVINGS = 4
"""Of the way between the last loss that does not fit and the first that does."""

SMALLEST = 1e-4
"""Where no loss at all is asked for. Levels cannot lie that close together, whatever the limit."""

_LARGEST = 1e4
"""Beyond which no level but 0 is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Tables that were made."""

    loss: float
    fits: bool
    """Whether all tables of the tree stayed within their limit."""


def next_trial(epsilon: float, trials: tuple[Trial, ...]) -> float:
    """Return the loss to make tables for.

    A loss that fits and was tried already ends the search: its tables are the ones to use. The
    coarser levels are, the fewer there are, until only 0 is left.

    Args:
        epsilon: What may be lost, if tables fit.
        trials: So far, the first for `epsilon`.

    Raises:
        NetworkError: Streams merge in so many places that no table is small enough.
    """
    if not trials:
        return max(epsilon, SMALLEST)
    fitting = [trial.loss for trial in trials if trial.fits]
    failing = [trial.loss for trial in trials if not trial.fits]
    if not fitting:
        if failing[-1] > _LARGEST:
            raise NetworkError(
                "method.unsupported", "no table is small enough: too many streams merge", ("nodes",)
            )
        return failing[-1] * (_GROWTH if failing[-1] < 1.0 else _LEAP)
    best = min(fitting)
    worst = max((loss for loss in failing if loss < best), default=best)
    halved = len(trials) - next(i for i, trial in enumerate(trials) if trial.fits) - 1
    if worst == best or halved >= _HALVINGS:
        return best
    return float((worst * best) ** 0.5)
