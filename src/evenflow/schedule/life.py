"""The life of queries: what each request means, and what it leaves of leases, families and units.

Rule: whatever decides about leases, numbers and eras lives here and in `place`. The shell says what
has been read so far, gets the life that follows, keeps it in the manifest and runs its units.
"""
# Theory of operation
# ===================
# A change happens between two batches. The shell has stopped the units concerned and says, as
# `Facts`, the newest event time that each has read, and the watermark of its last batch.
#
#   nothing ── subscribe ──> RUNNING ── pause ──> PAUSED ── resume ──> RUNNING
#                               │ └── quarantine ──> QUARANTINED ── resume ──> RUNNING
#                               └── keep ──> KEPT ── an equal query subscribes ──> RUNNING
#   any of them ── unsubscribe ──> nothing
#
# A query that begins or resumes gets a lease on a family that has never been, for the windows that
# start later than all that was read: it sees them whole, and nobody was ever in their groups. A
# query that pauses, is quarantined or leaves loses its lease at once; what its windows hold is cut:
# at once if its family goes on for others, otherwise as they close and come out of the state. A
# lease ends with its family's groups, so nothing that is in the state is ever read under two names.
#
# A unit without queries is closed. It is not forgotten while it is the last to know how far a
# source has been read: nobody reads the source meanwhile, and who comes next goes on from there.
#
# Requests that come at once are one change. What counts is what is true after the last of them: a
# query that is paused and resumed in one change has lost nothing.

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from evenflow.schedule.layout import Era, Fate, Lease, UnitLayout, WrittenOff
from evenflow.schedule.place import Numbers, place
from evenflow.schedule.request import (
    TRANSITIONS,
    Origin,
    Quarantine,
    QueryState,
    Request,
    Subscribe,
)
from evenflow.schedule.shape import Shape, count_parts, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenflow.model.operator import Window
    from evenflow.model.query import Query


_FATES: Final = {
    QueryState.RUNNING: Fate.TAKEN,
    QueryState.KEPT: Fate.TAKEN,
    QueryState.PAUSED: Fate.PAUSED,
    QueryState.QUARANTINED: Fate.QUARANTINED,
}


# What there is.


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLife:
    """One query, as far as its life goes."""

    operator: str
    """Hash of what it computes."""
    numbers: tuple[int, ...]
    """Of its parts. They stay its own through pauses; an equal query takes over a kept one's."""
    state: QueryState
    origin: Origin
    reason: str | None = None
    """Why it is quarantined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """All queries of a flow and the units that carry them."""

    queries: Mapping[str, QueryLife] = field(default_factory=dict)
    units: tuple[UnitLayout, ...] = ()
    numbers: Numbers = field(default_factory=Numbers)

    @property
    def names(self) -> dict[int, str]:
        """The queries of all parts, by number."""
        return {number: name for name, q in self.queries.items() for number in q.numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the shell knows of each unit when a change is made. A unit without is not begun."""

    read_us: Mapping[str, int] = field(default_factory=dict)
    """Newest event time read, by unit."""
    bound_ms: Mapping[str, int] = field(default_factory=dict)
    """Watermark of the last batch, by unit."""
    batch: Mapping[str, int] = field(default_factory=dict)
    """The last batch that was finished, by unit."""
    in_state: Mapping[str, Mapping[int, WrittenOff]] = field(default_factory=dict)
    """What the state holds of parts that have to be written off, by unit and part."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that means nothing for the query as it is."""

    request: Request
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change leads to."""

    life: Life
    refusals: tuple[Refusal, ...] = ()


def change(
    life: Life, requests: Sequence[Request], definitions: Mapping[str, Query], facts: Facts
) -> Outcome:
    """Return the life after some requests, which are made as one change.

    Args:
        life: The life before.
        requests: In the order in which they came.
        definitions: The queries that `life` knows, by name.
        facts: What has been read.
    """
    known = dict(definitions)
    queries = dict(life.queries)
    refusals: list[Refusal] = []
    following = life.numbers
    for request in requests:
        reason = _refused(request, queries)
        if reason is not None:
            refusals.append(Refusal(request, reason))
            continue
        if isinstance(request, Subscribe):
            known[request.name] = request.query
            following = _subscribe(request, queries, following)
        else:
            _move(request, queries)
    after = _settle(replace(life, numbers=following), queries, known, facts)
    return Outcome(after, tuple(refusals))


# Requests, one by one.


def _refused(request: Request, queries: Mapping[str, QueryLife]) -> str | None:
    """Return why a request cannot be met, if it cannot."""
    known = queries.get(request.name)
    if known is None:
        if (None, type(request)) in TRANSITIONS:
            return None
        return f"query {request.name[:64]} is not known"
    if (known.state, type(request)) not in TRANSITIONS:
        if isinstance(request, Subscribe):
            return f"the name {request.name} is taken"
        return f"query {request.name} is {known.state.value}"
    if isinstance(request, Subscribe) and known.operator != request.query.operator.hash:
        return f"the name {request.name} is taken by a kept query that differs"
    return None


def _subscribe(request: Subscribe, queries: dict[str, QueryLife], numbers: Numbers) -> Numbers:
    operator = request.query.operator.hash
    kept = [n for n, q in queries.items() if q.state is QueryState.KEPT and q.operator == operator]
    adopted = request.name if request.name in kept else min(kept, default=None)
    if adopted is not None:
        own = queries.pop(adopted).numbers
    else:
        own, numbers = numbers.parts(count_parts(request.query))
    queries[request.name] = QueryLife(
        operator=operator, numbers=own, state=QueryState.RUNNING, origin=request.origin
    )
    return numbers


def _move(request: Request, queries: dict[str, QueryLife]) -> None:
    known = queries[request.name]
    state = TRANSITIONS[known.state, type(request)]
    if state is None:
        del queries[request.name]
    elif state is not known.state:
        reason = request.reason if isinstance(request, Quarantine) else None
        queries[request.name] = replace(known, state=state, reason=reason)


# What they leave.


def _settle(
    life: Life, queries: Mapping[str, QueryLife], definitions: Mapping[str, Query], facts: Facts
) -> Life:
    units = {unit.id: unit for unit in life.units}
    touched = _touched(life, queries)
    states = {number: q.state for q in queries.values() for number in q.numbers}
    for unit in life.units:
        units[unit.id] = _without_ended(unit, states, facts)
    leased = {x.number for u in units.values() for x in u.leases if x.ended_us is None}
    wanting = [
        part
        for name, query in sorted(queries.items())
        if query.state in (QueryState.RUNNING, QueryState.KEPT)
        for part in parts_of(definitions[name], query.numbers)
        if part.number not in leased
    ]
    placed, numbers = place(tuple(units.values()), wanting, life.numbers, facts)
    touched |= {part.number for part in wanting}
    windows = _windows(queries, definitions)
    made = [_turned(unit, states, touched, windows, facts) for unit in placed]
    return Life(queries=queries, units=_needed(made, facts), numbers=numbers)


def _needed(units: Sequence[UnitLayout], facts: Facts) -> tuple[UnitLayout, ...]:
    """Return the units that carry a part, or are the last to know how far a source was read."""
    needed: list[UnitLayout] = []
    known: set[str] = set()
    for unit in sorted(units, key=lambda u: not u.numbers):
        begun = unit.id in facts.batch
        if unit.numbers or (begun and not known.issuperset(unit.source_hashes)):
            needed.append(unit)
        if begun:
            known.update(unit.source_hashes)
    return tuple(u for u in units if u in needed)


def _touched(life: Life, queries: Mapping[str, QueryLife]) -> set[int]:
    """Return the numbers of parts for which something changes."""
    before = {(n, name, q.state) for name, q in life.queries.items() for n in q.numbers}
    after = {(n, name, q.state) for name, q in queries.items() for n in q.numbers}
    return {number for number, _, _ in before ^ after}


def parts_to_write_off(before: Life, after: Life) -> dict[str, set[int]]:
    """Return, by unit, the parts whose leases a change ends while their families go on.

    Rows of the others may count in their slots then: what the state holds of them cannot be told
    later. `Facts.in_state` has to.
    """
    states = {number: q.state for q in after.queries.values() for number in q.numbers}
    found: dict[str, set[int]] = {}
    for unit in before.units:
        ending = {x.number for x in unit.leases if _ends(x, states) and _goes_on(x, unit, states)}
        if ending:
            found[unit.id] = ending
    return found


def _ends(lease: Lease, states: Mapping[int, QueryState]) -> bool:
    """Whether a change ends a lease of a query that stays."""
    if lease.ended_us is not None or lease.number not in states:
        return False
    return _FATES[states[lease.number]] is not Fate.TAKEN


def _goes_on(lease: Lease, unit: UnitLayout, states: Mapping[int, QueryState]) -> bool:
    """Whether the family of a lease goes on for another one."""
    return any(
        each.family == lease.family
        and each.ended_us is None
        and each.number in states
        and _FATES[states[each.number]] is Fate.TAKEN
        for each in unit.leases
        if lease.family is not None
    )


def _without_ended(unit: UnitLayout, states: Mapping[int, QueryState], facts: Facts) -> UnitLayout:
    """Return a unit with what remains of its leases."""
    leases: list[Lease] = []
    written_off = {n: each for n, each in unit.written_off.items() if n in states}
    in_state = facts.in_state.get(unit.id, {})
    for lease in unit.leases:
        if _ends(lease, states) and _goes_on(lease, unit, states):
            known = written_off.get(lease.number, WrittenOff())
            written_off[lease.number] = known + in_state.get(lease.number, WrittenOff())
            continue
        after = _after(lease, unit, states, facts.read_us.get(unit.id))
        if after is not None:
            leases.append(after)
    return replace(unit, leases=tuple(leases), written_off=written_off)


def _after(
    lease: Lease, unit: UnitLayout, states: Mapping[int, QueryState], read_us: int | None
) -> Lease | None:
    """Return what remains of a lease; None if nothing."""
    if lease.number not in states:
        return None
    state = states[lease.number]
    if lease.ended_us is not None or state in (QueryState.RUNNING, QueryState.KEPT):
        return lease
    if lease.family is None or read_us in (None, unit.family(lease.family).since_us):
        # Nothing was read while it lasted.
        return None
    return replace(lease, ended_us=read_us)


def _windows(
    queries: Mapping[str, QueryLife], definitions: Mapping[str, Query]
) -> dict[int, Window]:
    return {
        part.number: part.window
        for name, query in queries.items()
        for part in parts_of(definitions[name], query.numbers)
        if isinstance(part, Shape)
    }


def _turned(
    unit: UnitLayout,
    states: Mapping[int, QueryState],
    touched: set[int],
    windows: Mapping[int, Window],
    facts: Facts,
) -> UnitLayout:
    """Return a unit in a new era if the change concerns it, without what is over."""
    carried = unit.numbers if unit.eras else frozenset()
    carried |= {lease.number for lease in unit.leases}
    if unit.eras and not carried & touched:
        return unit
    bound = facts.bound_ms.get(unit.id, 0)
    fates = {n: _FATES[states[n]] for n in sorted(carried) if n in states}
    batch = facts.batch.get(unit.id, -1)
    past = unit.eras
    number = past[-1].number + 1 if past else 0
    if past:
        # An era without a batch has counted nothing.
        ended = replace(past[-1], bound_ms=bound)
        past = (*past[:-1], ended) if ended.after < batch else past[:-1]
    eras = [each for each in past if each.bound_ms is not None and each.bound_ms >= bound]
    leases = tuple(x for x in unit.leases if not _is_over(x, unit, bound))
    used = {lease.family for lease in leases}
    own = {n: windows[n] for n in fates if n in windows}
    era = Era(number=number, fates=fates, after=batch, irregular=_irregular(own.values()))
    return replace(
        unit,
        narrow=unit.narrow and not unit.eras,
        leases=leases,
        families=tuple(f for f in unit.families if f.number in used),
        windows=own,
        eras=(*_without_gone(eras, states), era),
    )


def _irregular(windows: Iterable[Window]) -> tuple[tuple[int, int], ...]:
    found = {(w.size_us, w.slide_us) for w in windows if w.size_us % w.slide_us}
    return tuple(sorted(found))


def _without_gone(eras: Iterable[Era], states: Mapping[int, QueryState]) -> list[Era]:
    """Return eras without the parts that are gone, whose counts nobody asks for."""
    return [replace(e, fates={n: f for n, f in e.fates.items() if n in states}) for e in eras]


def _is_over(lease: Lease, unit: UnitLayout, bound_ms: int) -> bool:
    """Whether all windows of an ended lease have left the state."""
    if lease.ended_us is None or lease.family is None:
        return False
    return bound_ms * 1000 > lease.ended_us + unit.family(lease.family).size_us
