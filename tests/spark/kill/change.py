"""A change that may be killed, and what has come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spark.kill.points import POINTS

if TYPE_CHECKING:
    from evenflow.schedule.request import QueryState
    from tests.spark.kill.case import KilledSet
    from tests.spark.kill.process import Kill
    from tests.spark.lives import Life


class PendingChange:
    """Asked for until it has happened, or once if it is given up when it has not."""

    def __init__(
        self, set_: KilledSet, before: Life, after: Life, request: dict[str, Any], again: bool
    ) -> None:
        self._set = set_
        self._before, self._after = before, after
        self._request = request
        self._again = again
        self._kept = set_.kept()
        self._asking = False
        self._given_up = False
        self.happened = False

    def make(self) -> None:
        """Ask for it, unless it has happened or is given up."""
        if not self.happened and not self._given_up:
            self._asking = True
            self._set.process.ask(self._request)
            self._asking = False
            self.happened = True
        assert self._states() == (self._after if self.happened else self._before).states

    def killed(self, kill: Kill) -> None:
        """See in the manifest what has come of it."""
        found, asking = self._states(), self._asking
        self._asking = False
        if self.happened or not asking:
            assert found == (self._after if self.happened else self._before).states
            return
        assert found in (self._before.states, self._after.states)
        self.happened = found == self._after.states
        must = POINTS[kill.point].changed if kill.point is not None else None
        assert must in (None, self.happened), f"{kill}: {self._request}"
        if not self.happened:
            assert self._set.kept() == self._kept
            self._given_up = not self._again

    def _states(self) -> dict[str, QueryState]:
        return {name: query.state for name, query in self._set.kept().queries.items()}
