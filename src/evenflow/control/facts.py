"""What one look at a running flow saw: frozen data that says itself whether it is complete.

The shell makes them, the core reads them. A missing number is None, never a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NEVER = "never"
"""The shed contract of a query before which nothing may be dropped."""
NOBODY = 1e-6
"""The weight of a query that is kept for nobody. Planners refuse 0."""
STANDS = 10.0
"""Seconds after its last batch from which on a unit that does not run is reckoned with as one that
gets nothing: it is held. Changes, and most failures that are tried again, take less."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One batch of a unit, done or under way."""

    number: int
    began: float
    """Wall-clock seconds."""
    seconds: float | None
    """How long it took; None while it is under way."""
    spacing: float | None
    """Seconds since the batch before began: the time in which its rows came."""
    rows: int | None
    """Rows that it read, all sources together; None if the sources do not tell before its end."""
    behind: int | None = None
    """Rows that its sources had and it did not read, if they tell."""
    share: float = 1.0
    """Of the machine that it had, beside batches of other units."""
    gates: Mapping[str, float] | None = None
    """Fractions that it ran with, by query; None if only the time tells."""

    @property
    def machine_seconds(self) -> float | None:
        """How long it would have taken alone."""
        return None if self.seconds is None else self.seconds * self.share


@dataclass(frozen=True, kw_only=True)
class UnitFacts:
    """One unit."""

    id: str
    sources: tuple[str, ...]
    every: float
    families: tuple[tuple[str, ...], ...]
    """Queries that share a row, by name; a query of a stateless unit is a family of its own."""
    active: bool
    windowed: bool = True
    """Its answers come one batch after the tuples that complete them: Spark closes windows by the
    watermark of the batch before."""
    source_shares: Mapping[str, float] = field(default_factory=dict)
    """Of the rows that its batches read lately, by source."""
    shared: tuple[tuple[str, ...], ...] = ()
    """Queries with one gate, which keeps the largest of their fractions, by name."""
    batches: tuple[Batch, ...] = ()
    """Those that are done, the newest last; only the latest few."""
    under_way: Batch | None = None
    waiting: int | None = None
    """Rows that its sources have now and no batch has taken, if they tell at any time."""
    idle: bool = False
    """It has begun no batch yet because there is nothing to read: Spark says so."""
    started: float | None = None
    """When it was started last, in wall-clock seconds; None if that is not known."""
    gated_trunk: bool = False
    """Tuples that no query keeps are dropped before the trunk, not behind it."""
    draws: tuple[tuple[int, int], ...] = ()
    """By family, which draw of the input gate it is in, and in how many windows a tuple is there.
    What families of one draw keep of the tuples is nested, draws keep each their own. If empty, all
    are nested, as in a stateless unit."""

    @property
    def last(self) -> Batch | None:
        """The newest batch that is done."""
        return self.batches[-1] if self.batches else None

    @property
    def ended_at(self) -> float:
        """When that was, in wall-clock seconds: the next one takes the gates that are set then."""
        last = self.last
        return float("-inf") if last is None else last.began + (last.seconds or 0.0)

    @property
    def newest(self) -> Batch | None:
        """The newest batch whose rows are known."""
        if self.under_way is not None and self.under_way.rows is not None:
            return self.under_way
        return self.last

    @property
    def batches_before(self) -> int:
        """How many batches before the one that answers its tuples may have come, at the most."""
        return 2 if self.windowed else 1

    @property
    def queries(self) -> tuple[str, ...]:
        """Names of its queries, each once."""
        return tuple(dict.fromkeys(name for family in self.families for name in family))


@dataclass(frozen=True, kw_only=True)
class QueryFacts:
    """One query: what its owner asks, and how it fares."""

    weight: float = 1.0
    floor: float = 0.0
    deadline: float | None = None
    delay: float | None = None
    """Of the newest answer, in seconds."""
    answered_at: float | None = None
    """When that became visible, in wall-clock seconds."""
    contract: str = "window"
    """How tuples before it may be dropped."""
    running: bool = True
    """It is worked on: it is answered, or kept for nobody."""

    @property
    def sheddable(self) -> bool:
        """Whether a gate may stand before it."""
        return self.running and self.contract != NEVER


@dataclass(frozen=True, kw_only=True)
class FlowFacts:
    """A whole flow at one moment."""

    at: float
    """Wall-clock seconds of the look."""
    units: tuple[UnitFacts, ...]
    queries: Mapping[str, QueryFacts]
    gates: Mapping[str, float] = field(default_factory=dict)
    """Fractions in force, by query; those not named keep everything."""

    def tightest(self, names: Iterable[str]) -> float | None:
        """Return the tightest deadline of some queries, if they have one."""
        known = (self.queries[name].deadline for name in names)
        return min((each for each in known if each is not None), default=None)

    def gaps(self) -> tuple[str, ...]:
        """Return what is missing, or makes no sense, for a decision; nothing if it is complete."""
        return tuple(self._gaps())

    def _gaps(self) -> Iterator[str]:
        if not any(unit.active for unit in self.units):
            # Gates stay as they are: what the flow will find when it goes on is not known.
            yield "no unit runs"
        else:
            yield from (f"unit {u.id} does not run" for u in self.units if _stopped(u, self.at))
        for unit in self.units:
            yield from _unit_gaps(unit)
            for name in unit.queries:
                if name not in self.queries:
                    yield f"query {name} is not known"
        for name, query in self.queries.items():
            if any(_odd(x) for x in (query.weight, query.floor, query.deadline, query.delay)):
                yield f"query {name}: a number makes no sense"
        for name, kept in self.gates.items():
            if not 0.0 <= kept <= 1.0:
                yield f"the gate of {name} makes no sense"


def _stopped(unit: UnitFacts, at: float) -> bool:
    """Whether a unit does not run and may soon again; then nobody knows what it will need."""
    if unit.active:
        return False
    ended = unit.started if unit.last is None else unit.ended_at
    return unit.under_way is not None or (ended is not None and at - ended < STANDS)


def _unit_gaps(unit: UnitFacts) -> Iterator[str]:
    if unit.last is None and unit.active and not unit.idle:
        yield f"unit {unit.id} has not finished a batch"
    if _odd(unit.started):
        yield f"unit {unit.id}: its start makes no sense"
    told = unit.batches if unit.under_way is None else (*unit.batches, unit.under_way)
    for batch in told:
        if batch.seconds is not None and batch.rows is None:
            yield f"unit {unit.id}: the rows of batch {batch.number} are not known"
        numbers = (batch.began, batch.seconds, batch.spacing, batch.rows, batch.behind)
        if any(map(_odd, numbers)) or not 0.0 < batch.share <= 1.0:
            yield f"unit {unit.id}: a number of batch {batch.number} makes no sense"


def _odd(value: float | None) -> bool:
    return value is not None and (not math.isfinite(value) or value < 0)
