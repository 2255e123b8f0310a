"""What the loop has learned by watching: how to correct costs, and how much to hold back."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from evenflow.control.correction import Correction, first_correction
from evenflow.control.demand import gets_nothing
from evenflow.control.kept import Kept
from evenflow.control.model import calibrated_unit, flow_model, turn_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from evenflow.control.config import LoopConfig
    from evenflow.control.facts import Batch, FlowFacts, QueryFacts, UnitFacts
    from evenflow.control.model import FlowModel
    from evenflow.model.costs import Costs

SQUEEZED, RELAXED, PROBED = 0.85, 0.05, 0.01
"""The squeeze once per batch: times this while answers are late, plus this while there is no worry,
plus this while they are just in time, or there are none."""
IN_TIME = 0.7
"""Share of its deadline within which a delay is no worry."""
HEAVY = 1.5
"""How many times longer than without rows a batch must be for lateness to come of load."""
ATTAINABLE = 1.2
"""By how much what a batch of each unit takes without rows must fit into what a deadline leaves:
they run side by side, and no gate makes them shorter."""
LONG = 3.0
"""How many times its span a batch must take to be acted on although it may be cold."""
MOST_HISTORY = 64


class GateHistory:
    """Which gates were in force when."""

    def __init__(self) -> None:
        self._since: list[float] = []
        self._gates: list[Mapping[str, float]] = []

    @property
    def now(self) -> Mapping[str, float]:
        """The newest ones."""
        return self._gates[-1] if self._gates else {}

    @property
    def changed_at(self) -> float:
        """When they came into force."""
        return self._since[-1] if self._since else float("-inf")

    def put(self, gates: Mapping[str, float], at: float) -> None:
        """Note gates that are in force from a time on."""
        self._since.append(max(at, self.changed_at))
        self._gates.append(dict(gates))
        del self._since[:-MOST_HISTORY], self._gates[:-MOST_HISTORY]

    def begin_anew(self, at: float) -> None:
        """Keep the newest ones only, as if they had come into force now: the clock was set back."""
        self._since, self._gates = [at], [self.now]

    def of(self, batch: Batch) -> Mapping[str, float]:
        """Return the gates that a batch ran with."""
        if batch.gates is not None:
            return batch.gates
        found = bisect_left(self._since, batch.began)
        return self._gates[found - 1] if found > 0 else {}


class Learned:
    """Corrections of all units, and the squeeze."""

    def __init__(
        self, config: LoopConfig, costs: Costs, kept: Mapping[str, Kept] | None = None
    ) -> None:
        self._config = config
        self._kept = dict(kept or {})
        """What an earlier process learned, by unit."""
        self._queries: dict[str, tuple[str, ...]] = {}
        """Of each unit."""
        self.costs = costs
        self.corrections: dict[str, Correction] = {}
        self.model: FlowModel | None = None
        """What the last look came to."""
        self.squeeze = 1.0
        """Share of the capacity that is used, at least `least_squeeze`. Below 1 while answers are
        late although the load should fit: something costs more than the model knows."""
        self._batches: dict[str, int] = {}
        """How many batches of each unit were seen."""
        self._seen: dict[str, int] = {}
        """The number of the newest of them."""
        self._judged_at = float("-inf")
        self._excused_at = float("-inf")
        """When a unit was seen last that caught up: the answers after that are late as well."""

    def begin_anew(self, now: float) -> None:
        """Judge answers from now on only: the clock was set back."""
        self._judged_at = self._excused_at = now

    def warming(self, facts: FlowFacts, model: FlowModel) -> Iterator[str]:
        """Yield what is missing because units have only begun.

        Not of units that an earlier process knew, as soon as it shows what arrives; nor of those
        whose batches are far too long, or come so rarely that others would wait too long, if costs
        were calibrated: then these decide. Those that get nothing do not keep the others waiting.
        """
        cold = [
            unit
            for unit, own in zip(facts.units, model.units, strict=True)
            if not self._knows(unit) and not self._is_urgent(unit, facts.at, own.span)
            if not self._is_rare(unit, facts.at)
        ]
        others_wait = len(cold) < len(facts.units)
        for unit in cold:
            if not (others_wait and gets_nothing(unit, facts.at)):
                yield f"unit {unit.id} warms up"

    def _knows(self, unit: UnitFacts) -> bool:
        if self._batches.get(unit.id, 0) >= self._config.warm_up:
            return True
        known = self._kept.get(unit.id)
        if known is None or known.queries != unit.queries:
            return False
        newest = unit.under_way
        told = newest is not None and newest.rows is not None
        return told or any(batch.spacing for batch in unit.batches)

    def _is_urgent(self, unit: UnitFacts, now: float, span: float) -> bool:
        return _lasts(unit, now) > LONG * span and self.costs.certainty(unit.queries) > 0

    def _is_rare(self, unit: UnitFacts, now: float) -> bool:
        if unit.started is None or unit.last is None or not self._config.is_rare(unit.every):
            return False
        old = now - unit.started > self._config.longest_warm_up
        return old and self.costs.certainty(unit.queries) > 0

    def kept(self) -> dict[str, Kept]:
        """Return what another process can go on with, by unit."""
        return {
            unit: Kept(queries=self._queries[unit], fixed=known.fixed, factor=known.factor)
            for unit, known in self.corrections.items()
            if self._batches.get(unit, 0) >= self._config.warm_up
        }

    def learn(self, facts: FlowFacts, history: GateHistory) -> FlowModel:
        """Take what batches took since the last look; return the model corrected by it."""
        for unit in facts.units:
            self._queries[unit.id] = unit.queries
            self.corrections.setdefault(unit.id, self._first(unit))
        for unit in facts.units:
            self._learn_unit(unit, facts, history)
        for gone in set(self.corrections) - {unit.id for unit in facts.units}:
            for known in (self.corrections, self._batches, self._seen, self._queries, self._kept):
                known.pop(gone, None)
        self.model = flow_model(facts, self.costs, self.corrections, self._config.cores)
        return self.model

    def _first(self, unit: UnitFacts) -> Correction:
        """Return what is known of a unit before its first batch."""
        known = self._kept.get(unit.id)
        if known is not None and known.queries == unit.queries:
            return known.correction()
        return first_correction(self.costs.certainty(unit.queries))

    def _learn_unit(self, unit: UnitFacts, facts: FlowFacts, history: GateHistory) -> None:
        own = calibrated_unit(unit, facts, self.costs, self.corrections[unit.id].fixed)
        costs = {item: cost / self._config.cores for item, cost in own.costs().items()}
        seen = self._seen.get(unit.id, -1)
        if unit.last is not None and unit.last.number < seen:
            seen = -1  # another unit under the same name
        for batch in unit.batches:
            if batch.number <= seen or batch.machine_seconds is None or batch.rows is None:
                continue
            self._seen[unit.id] = batch.number
            self._batches[unit.id] = self._batches.get(unit.id, 0) + 1
            kept = own.kept(history.of(batch))
            tuples = {item: batch.rows * kept[item] for item in costs}
            known = self.corrections[unit.id]
            cold = self._batches[unit.id] <= self._config.warm_up
            if cold and batch.machine_seconds > known.expected(costs, tuples):
                continue  # slow because it is cold; one that is fast says that costs are lower
            self.corrections[unit.id] = known.seen(costs, tuples, batch.machine_seconds)

    def judge(
        self,
        facts: FlowFacts,
        model: FlowModel,
        history: GateHistory,
        *,
        fits: bool,
        catching_up: Container[str] = (),
    ) -> tuple[str, ...]:
        """Hold back more while answers are late, less while they are not; return who is late.

        Only answers count that the gates in force can have changed, of units whose batches take
        long because of rows: a deadline that is missed for other reasons is not met by dropping.

        Args:
            facts: The look.
            model: The flow.
            history: Gates.
            fits: By the model nothing needs to be dropped.
            catching_up: Units whose answers are late because they stood still.
        """
        if any(unit.id in catching_up for unit in facts.units):
            self._excused_at = facts.at
        settled_at = max(history.changed_at, self._excused_at)
        late: dict[str, None] = {}
        worst = 0.0
        stays_late = False
        running = [own for u, own in zip(facts.units, model.units, strict=True) if _runs(u, facts)]
        for unit, own in zip(facts.units, model.units, strict=True):
            settled = settled_at + 2 * own.span
            since = max(self._judged_at, settled)
            # The next answers of units whose batches come less often are not there to judge by.
            recent = max(settled, facts.at - 2 * max(own.span, unit.every))
            seconds = 0.0 if unit.last is None else unit.last.machine_seconds or 0.0
            turn = turn_of(own, running)
            least = unit.batches_before * max(unit.every, turn) + ATTAINABLE * turn
            heavy = seconds > HEAVY * own.fixed
            for name in unit.queries:
                used = _deadline_used(facts.queries[name], since, least)
                worst = max(worst, used)
                if used > 1.0 and heavy:
                    late[name] = None
                known = _deadline_used(facts.queries[name], recent, least)
                stays_late = stays_late or (known > 1.0 and heavy)
        if facts.at - self._judged_at >= min((unit.span for unit in model.units), default=0.0):
            self._judged_at = facts.at
            if late:
                self.squeeze = max(self._config.least_squeeze, self.squeeze * SQUEEZED)
            elif stays_late:
                pass
            elif fits or 0.0 < worst <= IN_TIME:
                self.squeeze = min(1.0, self.squeeze + RELAXED)
            else:
                # Also if nothing is answered at all, perhaps because of what is held back.
                self.squeeze = min(1.0, self.squeeze + PROBED)
        return tuple(late)


def _runs(unit: UnitFacts, facts: FlowFacts) -> bool:
    return not gets_nothing(unit, facts.at)


def _lasts(unit: UnitFacts, now: float) -> float:
    """Return how long the longest batch took that is known, or takes."""
    done = max((batch.seconds or 0.0 for batch in unit.batches), default=0.0)
    return done if unit.under_way is None else max(done, now - unit.under_way.began)


def _deadline_used(query: QueryFacts, since: float, least: float) -> float:
    """Return what share of its deadline the newest answer took, 0 if it says nothing new.

    Args:
        query: The query.
        since: Answers that became visible before do not count.
        least: Deadlines below this cannot be met, whatever is dropped.
    """
    if query.deadline is None or query.delay is None or query.answered_at is None:
        return 0.0
    if query.answered_at <= since or query.deadline < least:
        return 0.0
    return query.delay / query.deadline
