"""Units that work off what waited while they stood still: a pause, a change, a restart.

That is not a surge, and nothing is dropped for it: until a unit has caught up it is planned for
what arrives, and only if that does not fit is something shed. Answers are late meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenflow.control.decision import Outcome
from evenflow.control.demand import arrival_rate, backlog, gets_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenflow.control.config import LoopConfig
    from evenflow.control.facts import FlowFacts, UnitFacts
    from evenflow.control.view import View

NEXT_TO_NOTHING = 0.1
"""Share of what arrives in a span that may wait when a unit has caught up."""


@dataclass(kw_only=True)
class _Start:
    """One start of a unit."""

    at: float | None
    """None if that is not known: the unit then never catches up."""
    behind: bool
    """It has not caught up yet; taken for granted until batches show otherwise."""
    decision: int | None = None
    """Which one told of it, if something would have been dropped."""
    told: float = 0.0
    """When it did."""


class CatchingUp:
    """Which units do.

    One that starts again in the middle of a surge works off what piled up before, too: nobody can
    tell the two apart any more.
    """

    def __init__(self, config: LoopConfig) -> None:
        """Begin with no unit.

        Args:
            config: Says which batches after a start may be slow for being cold: they do not show
                whether a unit has caught up.
        """
        self._config = config
        self._starts: dict[str, _Start] = {}
        """By unit, its latest start."""

    def excused(self, facts: FlowFacts, view: View) -> View:
        """Return the view with units that catch up planned for what arrives."""
        known = self._starts
        self._starts = {unit.id: _start_of(unit, known.get(unit.id)) for unit in facts.units}
        spans = {unit.id: unit.span for unit in view.model.units}
        arriving = {unit.id: arrival_rate(unit) for unit in facts.units}
        waiting = {unit.id: backlog(unit, spans[unit.id]) for unit in facts.units}
        whole = {id_: arriving[id_] + rows / spans[id_] for id_, rows in waiting.items()}
        fits = view.model.load(whole, {}) <= view.capacity
        for unit in facts.units:
            least = NEXT_TO_NOTHING * arriving[unit.id] * spans[unit.id]
            if (fits or waiting[unit.id] <= least) and self._tells(unit):
                self._starts[unit.id].behind = False
        return view.excused(
            {u.id: arriving[u.id] for u in facts.units if self._is_behind(u, facts)}
        )

    def _is_behind(self, unit: UnitFacts, facts: FlowFacts) -> bool:
        """Whether it works off what waited. One that gets nothing has nothing to work off."""
        return self._starts[unit.id].behind and not gets_nothing(unit, facts.at)

    def _tells(self, unit: UnitFacts) -> bool:
        """Whether batches since the start show what waits, and what arrives: it takes two.

        If they come rarely, what the first leaves behind has to do.
        """
        if unit.started is None:
            return False
        since = sum(1 for batch in unit.batches if batch.began >= unit.started)
        return since >= (1 if self._config.is_rare(unit.every) else max(2, self._config.warm_up))

    def untold(self, facts: FlowFacts, view: View) -> Iterator[tuple[str, float]]:
        """Yield units that catch up and of which no decision has told, and how many rows wait."""
        for unit, own in zip(facts.units, view.model.units, strict=True):
            if self._is_behind(unit, facts) and self._starts[unit.id].decision is None:
                yield unit.id, _waited(unit, own.span)

    def tell(self, unit: str, decision: int, now: float) -> None:
        """Note which decision told of a unit."""
        self._starts[unit].decision, self._starts[unit].told = decision, now

    def caught_up(self, now: float) -> Iterator[Outcome]:
        """Yield, once, the outcomes of decisions that told of units which have caught up since."""
        for start in self._starts.values():
            if not start.behind and start.decision is not None:
                yield Outcome(
                    number=start.decision,
                    at=now,
                    applied=True,
                    reason="it has caught up",
                    measured={"seconds": round(now - start.told, 1)},
                )
                start.decision = None


def _start_of(unit: UnitFacts, known: _Start | None) -> _Start:
    if known is not None and known.at == unit.started:
        return known
    if known is None or not known.behind:
        return _Start(at=unit.started, behind=unit.started is not None)
    # What told of the start before holds on: the unit has not caught up in between.
    return replace(known, at=unit.started, behind=unit.started is not None)


def _waited(unit: UnitFacts, span: float) -> float:
    """Return rows that the newest batch found, beyond those that arrive in a span."""
    newest = unit.newest
    found = 0 if newest is None else (newest.rows or 0) + (newest.behind or 0)
    return max(found - arrival_rate(unit) * max(unit.every, span), backlog(unit, span))
