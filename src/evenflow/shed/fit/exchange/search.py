"""The root's search for terms under which all tables of its tree fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.shed.fit.coarseness import Trial, next_trial
from evenflow.shed.fit.survey import stands_for

if TYPE_CHECKING:
    from evenflow.shed.fit.exchange.messages import Number
    from evenflow.shed.fit.survey import Survey

NONE: Number = (0, 0)
"""Where there are no terms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Where a search stands. Immutable: every step makes another one."""

    number: Number = NONE
    basis: Survey | None = None
    """The survey that terms are made for. None if and only if no search has begun."""
    trials: tuple[Trial, ...] = ()
    """Whose tables have been seen."""
    loss: float = 0.0
    """Of the terms that hold."""

    def begun(self, survey: Survey, epsilon: float, *, seen: int = 0, trial: int = 1) -> Search:
        """Return a new search, with a number above all that were seen.

        Args:
            survey: Of the root.
            epsilon: What may be lost, if tables fit.
            seen: Largest search of other roots.
            trial: More than 1 where parents shall not keep what they have of tables.
        """
        return Search(
            number=(max(self.number[0], seen) + 1, trial),
            basis=survey,
            loss=next_trial(epsilon, ()),
        )

    @property
    def has_failed(self) -> bool:
        """Whether terms are coarser because some tables, of what was then, did not fit."""
        return not all(trial.fits for trial in self.trials)

    def stands_for(self, survey: Survey, tolerance: float) -> bool:
        """Whether the terms that were found will do for a survey."""
        if self.basis is None or self.basis == survey:
            return self.basis == survey
        return tolerance > 0.0 and stands_for(self.basis, survey)

    def judged(self, survey: Survey, epsilon: float, *, fits: bool, exact: bool) -> Search:
        """Return what follows from tables that were made: itself if they are the ones to use.

        What does not fit and once did, or may be what parents have kept of other tables, is tried
        anew with whole tables for what is now, before terms become coarser than need be.

        Args:
            survey: Of the root, as it is now.
            epsilon: What may be lost, if tables fit.
            fits: Whether all tables stayed within their limit.
            exact: Whether parents have nothing but the tables of their children.
        """
        fitted = Trial(loss=self.loss, fits=True) in self.trials
        mixed = not exact and (self.basis != survey or 1 == self.number[1] < self.number[0])
        if not fits and (fitted or mixed):
            return self.begun(survey, epsilon, trial=2)
        trials = self.trials
        if not fitted:
            trials = (*trials, Trial(loss=self.loss, fits=fits))
        loss = next_trial(epsilon, trials)
        if fits and loss == self.loss:
            return Search(number=self.number, basis=self.basis, trials=trials, loss=loss)
        number = (self.number[0], self.number[1] + 1)
        return Search(number=number, basis=self.basis, trials=trials, loss=loss)
