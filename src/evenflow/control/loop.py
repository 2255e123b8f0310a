"""The core of the control loop: facts in, effects out. Does no I/O and reads no clock.

Drive it like this::

    effects = core.observe(facts, now)          # at every look
    perform(effects)                            # in order; each SetGates is answered by
    effects = core.applied(number, now, error)  # what became of it, failure included
    look_again_by(core.next_deadline())         # if it is before the next look

Facts that are incomplete, older than `stale`, or older than the last change move nothing. A second
answer to one change, or one that comes after it was given up, is ignored: the next look tells.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenflow.control.budget import Budget
from evenflow.control.catching_up import CatchingUp
from evenflow.control.decision import Act, Decision, Effect, Outcome, Record, SetGates
from evenflow.control.fractions import LEAST_CHANGE, alike, dropping
from evenflow.control.learned import GateHistory, Learned
from evenflow.control.limits import Limits
from evenflow.control.plans import Choice, Plans
from evenflow.control.state import CHANGING, Input, State, next_state
from evenflow.control.view import View, view_of
from evenflow.control.wording import why_catching_up, why_drops, why_floors, why_wider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.control.config import LoopConfig
    from evenflow.control.facts import Batch, FlowFacts
    from evenflow.control.kept import Kept
    from evenflow.model.costs import Costs

MEASURING = 10.0
"""After so many spans the effect of a decision is what was seen until then."""
_STORY_LENGTH = 32


@dataclass(frozen=True, kw_only=True)
class _Change:
    """A change that was asked for, or made, and is not settled yet."""

    decision: Decision
    at: float
    """When it was asked for; later, when it was made."""


@dataclass(frozen=True, kw_only=True)
class LoopSnapshot:
    """How the loop stands. Everything that decides what it does next, and why it does nothing."""

    state: State
    gates: tuple[tuple[str, float], ...]
    """Those that drop something."""
    gaps: tuple[str, ...]
    """Why it does nothing: what is missing of the facts."""
    pending: int | None
    """The decision whose change is under way."""
    decisions: int
    changes: tuple[float, ...]
    """When gates were changed that a batch has had, or may still get, in the last minute."""
    squeeze: float
    corrections: tuple[tuple[str, float, float], ...]
    """By unit: seconds of a batch without rows, factor of the costs."""
    view: View | None


class ControlLoop:
    """Sheds when load does not fit, and no longer than that.

    Guarantees, if the shell performs effects in order: batches get at most `most_changes` different
    gates in a minute; no query below its floor; all gates at exactly 1 once load fits again;
    nothing is changed on facts with gaps, nor in a dry run.
    """

    def __init__(
        self,
        config: LoopConfig,
        costs: Costs,
        last_number: int = 0,
        *,
        plans: Plans | None = None,
        kept: Mapping[str, Kept] | None = None,
    ) -> None:
        """Begin with all gates taken to be open; the first facts say how they are.

        Args:
            config: Settings.
            costs: As calibrated, or none.
            last_number: Of the decisions of earlier loops of the flow.
            plans: Chooses gates; the best ones if not given.
            kept: What an earlier loop of the flow has learned, by unit.
        """
        self._config = config
        self._learned = Learned(config, costs, kept)
        self._plans = plans or Plans()
        self._limits = Limits()
        self._catching_up = CatchingUp(config)
        self._history = GateHistory()
        """Gates in force; its newest ones drop something if and only if the state is neither
        OPEN nor CLOSING. In a dry run: as if decisions had been made."""
        self._real = GateHistory()
        """Gates really in force, by which batches are judged."""
        self._state = State.OPEN
        self._pending: _Change | None = None
        """Set if and only if the state is one of CHANGING."""
        self._measured: _Change | None = None
        """The last change, until its effect is known."""
        self._budget = Budget(config.most_changes)
        self._recent: deque[tuple[float, Mapping[str, float]]] = deque()
        """Pressure of the looks since load last exceeded the capacity, or gates changed."""
        self._piled = False
        """The gates in force were chosen for rows that had piled up, and no batch has had them."""
        self._number = last_number
        self._gaps: tuple[str, ...] = ("nothing was seen yet",)
        self._seen_at = float("-inf")
        """When it looked last."""
        self._view: View | None = None
        self._story: deque[tuple[str, str]] = deque(maxlen=_STORY_LENGTH)

    # For the shell.

    def observe(self, facts: FlowFacts, now: float) -> list[Effect]:
        """Take one look."""
        if now < self._seen_at - self._config.answer_within:
            self._begin_anew(now)
        self._seen_at = now
        effects = self._give_up(now)
        self._gaps = self._missing(facts, now)
        if self._gaps:
            return effects
        self._believe(facts)
        model = self._learned.learn(facts, self._real)
        self._gaps = tuple(self._learned.warming(facts, model))
        if self._gaps:
            return effects
        view = view_of(
            facts,
            model,
            self._real,
            self._history.now,
            self._config.utilisation,
            self._limits.adaptive(facts),
        )
        whole = view.pressure
        view = self._catching_up.excused(facts, view)
        fits = view.open_load <= view.capacity
        late = self._learned.judge(
            facts, model, self._real, fits=fits, catching_up=view.catching_up
        )
        self._view = view = view.squeezed(self._learned.squeeze, late)
        effects += self._tell_catching_up(facts, view, whole, now)
        effects += self._measure(facts, view)
        if self._state not in CHANGING:
            effects += self._decide(facts, view, now)
        if not self._config.dry_run:
            effects += self._limits.wanted(facts, view, self._real.now)
        return effects

    def limited(self, source: str, *, done: bool) -> None:
        """Take whether a source could be limited."""
        self._limits.limited(source, done=done)

    def applied(self, number: int, now: float, error: str | None = None) -> list[Effect]:
        """Take what became of a change."""
        if self._pending is None or self._pending.decision.number != number:
            return []
        if error is not None:
            self._budget.give_back()
        return self._settle(now, error)

    def next_deadline(self) -> float | None:
        """When a change that nothing is heard of is given up, if there is one."""
        return None if self._pending is None else self._pending.at + self._config.answer_within

    def snapshot(self) -> LoopSnapshot:
        """Return how it stands."""
        model = self._learned.model
        return LoopSnapshot(
            state=self._state,
            gates=tuple(sorted(self._history.now.items())),
            gaps=self._gaps,
            pending=None if self._pending is None else self._pending.decision.number,
            decisions=self._number,
            changes=self._budget.since(self._seen_at),
            squeeze=self._learned.squeeze,
            corrections=tuple(
                (unit.id, unit.fixed, unit.factor) for unit in (model.units if model else ())
            ),
            view=self._view,
        )

    def kept(self) -> dict[str, Kept]:
        """Return what the next loop of the flow can go on with, by unit."""
        return self._learned.kept()

    def check_invariants(self) -> None:
        """Assert what the docstrings of the attributes promise. Tests call it after every step."""
        assert (self._pending is not None) == (self._state in CHANGING)
        shut = self._state not in (State.OPEN, State.CLOSING)
        assert bool(self._history.now) == shut, (self._state, self._history.now)
        assert all(0.0 <= kept < 1.0 for kept in self._history.now.values())
        assert len(self.snapshot().changes) <= self._config.most_changes
        assert self._config.least_squeeze <= self._learned.squeeze <= 1.0
        assert not (self._config.dry_run and self._pending is not None)

    def _begin_anew(self, now: float) -> None:
        """The clock was set back: no time from before says anything."""
        for history in (self._history, self._real):
            history.begin_anew(now)
        self._learned.begin_anew(now)
        self._budget.begin_anew()
        self._recent.clear()
        self._measured = None
        if self._pending is not None:
            self._pending = replace(self._pending, at=now)

    # Facts.

    def _missing(self, facts: FlowFacts, now: float) -> tuple[str, ...]:
        if self._state in CHANGING or facts.at <= self._real.changed_at:
            return ("gates are being changed",)
        if now - facts.at > self._config.stale:
            return (f"the facts are {now - facts.at:.1f} s old",)
        return facts.gaps()

    def _believe(self, facts: FlowFacts) -> None:
        """Take over the gates that are in force, if they are not those that were set."""
        found = dropping(facts.gates)
        if found == self._real.now:
            return
        self._real.put(found, facts.at)
        if self._config.dry_run:
            return
        self._history.put(found, facts.at)
        if found and self._state is State.OPEN:
            self._move(Input.FOUND_SHUT)
        elif not found and self._state is State.SHEDDING:
            self._move(Input.FOUND_OPEN)

    def _tell_catching_up(
        self, facts: FlowFacts, view: View, whole: Mapping[str, float], now: float
    ) -> list[Effect]:
        """Record which units work off what waited, if it would have been shed, and their ends.

        Args:
            facts: The look.
            view: What it comes to.
            whole: Tuples per second to plan for, were that a surge.
            now: Wall-clock seconds.
        """
        effects: list[Effect] = [Record(entry=o) for o in self._catching_up.caught_up(now)]
        if view.model.load(whole, view.gates) <= view.capacity * (1 + self._config.tolerance):
            return effects
        gates = dict(self._history.now)
        for unit, rows in self._catching_up.untold(facts, view):
            self._number += 1
            self._catching_up.tell(unit, self._number, now)
            decision = Decision(
                number=self._number,
                at=now,
                act=Act.CATCH_UP,
                keep=gates,
                before=gates,
                facts=view.facts(facts),
                why=why_catching_up(unit, rows),
                expected={
                    "load": round(view.load, 4),
                    "value": round(view.model.value(gates), 4),
                    "seconds": view.seconds_to_work_off(unit, rows),
                },
                dry_run=self._config.dry_run,
            )
            effects.append(Record(entry=decision))
        return effects

    # Deciding.

    def _decide(self, facts: FlowFacts, view: View, now: float) -> list[Effect]:
        config = self._config
        if self._is_below_floors(view):
            choice = self._plans.choose(view.model, view.pressure, view.capacity)
            return self._change(facts, view, choice, why_floors(view, choice), now, spare=1)
        if view.load > view.capacity * (1 + config.tolerance):
            self._recent.clear()
            choice = self._plans.choose(view.model, view.pressure, view.capacity)
            choice = self._steady(view, choice)
            if view.model.load(view.pressure, choice.keep) >= view.load * (1 - LEAST_CHANGE):
                return []  # as low as may be already
            return self._change(facts, view, choice, why_drops(view, choice), now, spare=1)
        self._recent.append((view.at, view.pressure))
        if not self._history.now:
            self._plans.prepare(view.model, view.pressure, view.capacity)
            return []
        wider = self._wider(view)
        if wider is None:
            return []
        spare = 0 if wider.is_open else self._config.reserve
        return self._change(facts, view, wider, why_wider(view, wider), now, spare=spare)

    def _steady(self, view: View, choice: Choice) -> Choice:
        """Return the gates in force, narrower, unless others bring clearly more.

        Batches of several units begin at different times, so that it changes from look to look
        which of them has the most rows, and with it whose queries are the cheapest to shut. Every
        query would be shut now and then, and lose windows that nobody gains.
        """
        if not self._history.now or not view.is_of_several:
            return choice
        narrower = self._plans.narrower(view.model, view.pressure, view.capacity, self._history.now)
        least = (1 - self._config.steadiness) * view.model.value(choice.keep)
        if narrower is None or view.model.value(narrower.keep) < least:
            return choice
        return narrower

    def _is_below_floors(self, view: View) -> bool:
        """Whether somebody keeps less than its floor: a floor that is new, or gates set by hand."""
        kept = self._history.now
        return any(
            kept.get(name, 1.0) < floor - LEAST_CHANGE
            for name, floor in view.model.floors().items()
        )

    def _wider(self, view: View) -> Choice | None:
        """Return wider gates if load has been low for long enough."""
        config = self._config
        patience = 0.0 if self._piled and not view.piled else config.patience * view.shortest_span
        while len(self._recent) > 1 and view.at - self._recent[1][0] >= 2 * patience:
            self._recent.popleft()
        since = self._recent[0][0]
        if view.at - since < patience:
            return None
        room = view.capacity * (1 - config.margin)
        choice = self._at_most(view, patience, room)
        if choice.is_open:
            return choice
        if view.open_load <= room:
            return None  # all gates can open soon, in one change instead of two
        value, known = view.model.value(choice.keep), view.model.value(self._history.now)
        least = config.steadiness * (1 - known) if view.is_of_several else config.gain * known
        if value - known >= least:
            return choice
        if view.at - since >= 2 * patience:
            choice = self._at_most(view, 2 * patience, view.capacity)
            return choice if choice.is_open else None
        return None

    def _at_most(self, view: View, seconds: float, capacity: float) -> Choice:
        """Return gates for the highest pressure of the last seconds."""
        highest: dict[str, float] = {}
        for at, pressure in self._recent:
            if view.at - at <= seconds:
                for unit, rate in pressure.items():
                    highest[unit] = max(highest.get(unit, 0.0), rate)
        return self._plans.choose(view.model, highest, capacity)

    def _change(
        self, facts: FlowFacts, view: View, choice: Choice, why: str, now: float, *, spare: int
    ) -> list[Effect]:
        """Ask for gates, unless they are in force already.

        Args:
            facts: The look.
            view: What it comes to.
            choice: The gates.
            why: For the record.
            now: Wall-clock seconds.
            spare: Changes of this minute that must be left. Drops leave one, with which all gates
                can be opened; they could stay shut for a minute otherwise.
        """
        keep, before = dropping(choice.keep), dict(self._history.now)
        if alike(keep, before) or not self._budget.allows(facts, now, spare=spare):
            return []
        effects = self._replace_measured(now)
        self._number += 1
        act = Act.OPEN if not keep else Act.ADJUST if before else Act.SHED
        decision = Decision(
            number=self._number,
            at=now,
            act=act,
            keep=keep,
            before=before,
            facts=view.facts(facts),
            why=why,
            expected=self._expected(view, choice),
            dry_run=self._config.dry_run,
        )
        self._budget.take(facts, now)
        self._recent.clear()
        self._piled = view.piled
        self._pending = _Change(decision=decision, at=now)
        self._move(Input.DROPS_ASKED if keep else Input.OPEN_ASKED)
        effects.append(Record(entry=decision))
        if self._config.dry_run:
            return [*effects, *self._settle(now, None)]
        return [*effects, SetGates(number=self._number, keep=keep)]

    def _expected(self, view: View, choice: Choice) -> dict[str, Any]:
        load = view.model.load(view.pressure, choice.keep)
        return {
            "load": round(load, 4),
            "value": round(view.model.value(choice.keep), 4),
            "batch_seconds": view.batch_seconds(choice.keep),
            "fits": choice.fits,
            "method": choice.method,
            "fallback": choice.reason,
        }

    # What became of changes.

    def _give_up(self, now: float) -> list[Effect]:
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return []
        return self._settle(now, f"nothing was heard for {self._config.answer_within:g} s")

    def _settle(self, now: float, error: str | None) -> list[Effect]:
        """End the change that is under way."""
        assert self._pending is not None
        decision, self._pending = self._pending.decision, None
        dry = decision.dry_run
        if error is None:
            self._history.put(decision.keep, now)
            if not dry:
                self._real.put(decision.keep, now)
            self._measured = _Change(decision=decision, at=now)
        self._move(Input.SET if error is None else Input.REFUSED)
        outcome = Outcome(
            number=decision.number,
            at=now,
            applied=error is None and not dry,
            reason="dry run" if dry else error,
        )
        return [Record(entry=outcome)]

    def _measure(self, facts: FlowFacts, view: View) -> list[Effect]:
        """Tell what the last change did, once batches that began after it are done."""
        change = self._measured
        if change is None or change.decision.dry_run:
            return []
        after = {
            unit.id: [b for b in unit.batches if _shows(b, change)]
            for unit in facts.units
            if view.rates[unit.id] > 0
        }
        if not all(after.values()) and view.at - change.at < MEASURING * view.longest_span:
            return []
        self._measured = None
        measured = {
            "batch_seconds": {
                unit: max((b.seconds or 0.0 for b in batches), default=None)
                for unit, batches in after.items()
            },
            "rows_per_second": {unit: round(rate, 1) for unit, rate in view.rates.items()},
            "delay_seconds": {
                name: query.delay
                for name, query in facts.queries.items()
                if query.deadline is not None
            },
            "late": list(view.late),
        }
        return [self._outcome(change, view.at, measured=measured)]

    def _replace_measured(self, now: float) -> list[Effect]:
        change, self._measured = self._measured, None
        if change is None or change.decision.dry_run:
            return []
        return [self._outcome(change, now, reason=f"replaced by decision {self._number + 1}")]

    def _outcome(
        self,
        change: _Change,
        at: float,
        *,
        reason: str | None = None,
        measured: Mapping[str, Any] | None = None,
    ) -> Record:
        number = change.decision.number
        return Record(
            entry=Outcome(number=number, at=at, applied=True, reason=reason, measured=measured)
        )

    def _move(self, input_: Input) -> None:
        self._state, before = next_state(self._state, input_, tuple(self._story)), self._state
        self._story.append((before.value, input_.value))


def _shows(batch: Batch, change: _Change) -> bool:
    """Whether a batch shows what a change did."""
    if batch.seconds is None or batch.began <= change.at:
        return False
    return batch.gates is None or alike(dropping(batch.gates), change.decision.keep)
