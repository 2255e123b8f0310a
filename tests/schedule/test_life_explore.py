"""Every life of two equal queries and a third over one stream, until nothing new can happen.

The stack is played by a dictionary of groups, one tuple arrives per second, and each answer is
checked as it is given: it holds exactly the tuples of its window, it is given once, and no window
that a query has seen whole is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.explorer import visit_all
from tests.schedule.sample import graph_of

from evenflow.schedule import life as life_module
from evenflow.schedule import place as place_module
from evenflow.schedule.family import lay_out_family
from evenflow.schedule.layout import UnitLayout
from evenflow.schedule.life import Facts, Life, change
from evenflow.schedule.request import (
    TRANSITIONS,
    Keep,
    Pause,
    Quarantine,
    QueryState,
    Request,
    Resume,
    Subscribe,
    Unsubscribe,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

SECOND = 1_000_000
SIZES = {"a": 2, "b": 2, "c": 1}
_TEXT = "SELECT count(*) AS n FROM readings GROUP BY window(ts, '{} seconds')"
QUERIES = graph_of(**{name: _TEXT.format(size) for name, size in SIZES.items()}).queries
GIVEN_UP = (QueryState.PAUSED, QueryState.QUARANTINED)

Groups = frozenset[tuple[int, int, str, frozenset[int]]]
"""Family, start of the window, slot, and the seconds of the tuples in it."""


@dataclass(frozen=True)
class World:
    """A flow between two batches."""

    life: Life = field(default_factory=Life)
    now: int = 0
    """The second of the tuple that arrives next."""
    groups: Groups = frozenset()
    owned: Mapping[str, int] = field(default_factory=dict)
    """By query that is answered or kept, the newest second read when it began."""
    given: frozenset[tuple[str, int]] = frozenset()
    """Answers to windows that are still near: query and start."""


def shape(world: World) -> Hashable:
    """Return what decides about the future: everything but the names of numbers and the time."""
    zero = world.now - world.now % 2
    units = world.life.units
    families = {f.number: i for i, f in enumerate(f for u in units for f in u.families)}
    parts = {n: i for i, n in enumerate(sorted(n for u in units for n in u.numbers))}

    def unit_shape(unit: UnitLayout) -> Hashable:
        leases = [
            (parts.get(x.number), families.get(x.family or 0), _ago(x.ended_us, zero))
            for x in unit.leases
        ]
        slots = [(families[f.number], _ago(f.since_us, zero)) for f in unit.families]
        return tuple(leases), tuple(slots), len(unit.eras), unit.site

    return (
        world.now - zero,
        tuple(unit_shape(u) for u in units),
        tuple(
            sorted(
                (n, q.state.value, tuple(parts.get(i) for i in q.numbers))
                for n, q in world.life.queries.items()
            )
        ),
        frozenset(
            (families[f], start - zero, slot, frozenset(t - zero for t in seconds))
            for f, start, slot, seconds in world.groups
            if f in families
        ),
        tuple(sorted((n, max(at - zero, -4)) for n, at in world.owned.items())),
        frozenset((n, start - zero) for n, start in world.given),
    )


def _ago(us: int | None, zero: int) -> int | None:
    return None if us is None else max(us // SECOND - zero, -4)


# What can happen.


def batch(world: World) -> World:
    """A tuple arrives; windows that end by the one before it are answered."""
    assert_ended_families_rest(world.life)
    groups = arrived(world)
    closing = {key for key in groups if key[1] + _size(world.life, key[0]) <= world.now}
    answered = answers(world, {key: groups[key] for key in closing})
    for name, began in world.owned.items():
        start = world.now - SIZES[name]
        if start % SIZES[name] == 0 and start > began:
            assert (name, start) in answered, f"{name} does not answer {start}"
    left = {key: frozenset(seen) for key, seen in groups.items() if key not in closing}
    return replace(
        world,
        now=world.now + 1,
        groups=frozenset((*key, seen) for key, seen in left.items()),
        given=frozenset((n, s) for n, s in world.given | answered if s > world.now - 4),
    )


def assert_ended_families_rest(life: Life) -> None:
    """What the family of an ended lease holds is cut: nothing may be added to it any more."""
    for unit in life.units:
        going_on = {x.family for x in unit.leases if x.ended_us is None}
        ended = {x.family for x in unit.leases if x.ended_us is not None}
        assert not going_on & ended, f"a family of {unit.id} counts on"


def arrived(world: World) -> dict[tuple[int, int, str], set[int]]:
    """Return the groups with the next tuple in them."""
    groups = {(f, s, slot): set(seen) for f, s, slot, seen in world.groups}
    for unit in world.life.units:
        for lease in unit.leases:
            family = unit.family(_some(lease.family))
            size = family.size_us // SECOND
            start = world.now - world.now % size
            own = family.since_us is None or start * SECOND > family.since_us
            if lease.ended_us is None and own:
                key = (family.number, start, _some(lease.count).name)
                groups.setdefault(key, set()).add(world.now)
    return groups


def answers(world: World, closing: Mapping[tuple[int, int, str], set[int]]) -> set[tuple[str, int]]:
    """Return what is answered when groups close, each answer checked."""
    answered: set[tuple[str, int]] = set()
    for unit in world.life.units:
        for lease in unit.leases:
            name = world.life.names[lease.number]
            for (family, start, slot), seconds in closing.items():
                own = (family, slot) == (lease.family, _some(lease.count).name)
                if not own or lease.ended_us is not None:
                    continue
                whole = set(range(start, start + SIZES[name]))
                assert seconds == whole, f"{name} answers {start} with {sorted(seconds)}"
                assert (name, start) not in world.given, f"{name} answers {start} twice"
                answered.add((name, start))
    return answered


def _size(life: Life, family: int) -> int:
    for unit in life.units:
        for each in unit.families:
            if each.number == family:
                return each.size_us // SECOND
    return 2


def _some(value: Any) -> Any:
    assert value is not None
    return value


def ask(world: World, *requests: Request) -> World:
    """A change of one request, or of several at once."""
    before = world.life
    read = {u.id: (world.now - 1) * SECOND for u in before.units} if world.now else {}
    # The watermark of the last batch is the newest event time of the one before it.
    bound = {u.id: max(0, world.now - 2) * 1000 for u in before.units}
    batch = dict.fromkeys(read, world.now - 1)
    outcome = change(before, requests, QUERIES, Facts(read_us=read, bound_ms=bound, batch=batch))
    assert not outcome.refusals
    after = outcome.life
    check(before, after)
    owned = {n: at for n, at in world.owned.items() if n in after.queries}
    for name, query in after.queries.items():
        if query.state in GIVEN_UP:
            owned.pop(name, None)
        elif name not in owned:
            heirs = [n for n in world.owned if n not in after.queries]
            kept = [n for n in heirs if before.queries[n].numbers == query.numbers]
            owned[name] = world.owned[kept[0]] if kept else world.now - 1
    gone = set(before.queries) - set(after.queries)
    given = frozenset(
        (name, start)
        for name, start in world.given
        if name not in gone and after.queries[name].numbers == before.queries[name].numbers
    )
    return replace(world, life=after, owned=owned, given=given)


def check(before: Life, after: Life) -> None:
    """What holds of every change."""
    families = [f.number for u in after.units for f in u.families]
    assert len(families) == len(set(families)), "a family's number is used twice"
    old = {f.number for u in before.units for f in u.families}
    assert all(n in old or n >= before.numbers.family for n in families), "a family comes back"
    numbers = [n for q in after.queries.values() for n in q.numbers]
    assert len(numbers) == len(set(numbers)), "a part's number is used twice"
    known = {n for q in before.queries.values() for n in q.numbers}
    assert all(n in known or n >= before.numbers.part for n in numbers), "a number comes back"
    for name, query in after.queries.items():
        live = [x for u in after.units for x in u.leases if x.number in query.numbers]
        live = [x for x in live if x.ended_us is None]
        running = query.state not in GIVEN_UP
        assert len(live) == running * len(query.numbers), f"{name} has {len(live)} leases"
        for number in query.numbers:
            assert sum(number in u.numbers for u in after.units) == 1, f"{name} is nowhere"


def steps(world: World) -> Iterator[tuple[str, Any]]:
    """Yield what can happen next."""
    if any(unit.numbers for unit in world.life.units):
        yield "batch", batch
    for name in SIZES:
        known = world.life.queries.get(name)
        state = None if known is None else known.state
        for kind in (Subscribe, Unsubscribe, Keep, Pause, Resume, Quarantine):
            if (state, kind) not in TRANSITIONS or TRANSITIONS[state, kind] is state:
                continue
            request = _request(kind, name)
            yield f"{kind.__name__.lower()} {name}", lambda w, r=request: ask(w, r)
    if not world.life.queries:
        # Only those that come together are put into one family.
        together = [_request(Subscribe, name) for name in SIZES]
        yield "subscribe all", lambda w: ask(w, *together)


def _request(kind: type[Request], name: str) -> Request:
    if kind is Subscribe:
        return Subscribe(query=QUERIES[name])
    if kind is Quarantine:
        return Quarantine(name=name, reason="fails")
    return kind(name=name)  # type: ignore[call-arg]


def explore(most: int) -> int:
    visited, _ = visit_all(World(), steps, shape, most)
    return visited


def test_no_life_gives_a_wrong_answer_or_none() -> None:
    assert explore(6_000) >= 6_000


# Faults, planted.


def test_a_window_that_was_not_seen_whole_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = lay_out_family
    monkeypatch.setattr(
        place_module, "lay_out_family", lambda n, shapes, since: plain(n, shapes, None)
    )
    with pytest.raises(AssertionError, match="answers 0 with"):
        explore(6_000)


def test_a_slot_handed_over_with_old_state_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        life_module, "place", lambda u, p, n, f: place_module.place(u, p, replace(n, family=0), f)
    )
    with pytest.raises(AssertionError):
        explore(6_000)


def test_a_number_used_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        place_module.Numbers, "parts", lambda self, count: (tuple(range(count)), self)
    )
    with pytest.raises(AssertionError, match="number"):
        explore(6_000)
