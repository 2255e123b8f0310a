"""What each request means, one by one; `test_life_explore` goes through their combinations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.schedule.sample import graph_of, window

from evenflow.schedule.cut import begin, build_units
from evenflow.schedule.layout import (
    Fate,
    UnitLayout,
    WrittenOff,
    layout_from_json,
    layout_to_json,
)
from evenflow.schedule.life import Facts, Life, Outcome, change, parts_to_write_off
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
    from evenflow.model.query import Query

SECOND = 1_000_000
COUNT = window("count(*) AS c")
ALONE = window("count(*) AS c", where="kwh > 1", keys="n")
"""Is a family of its own."""
FILTERED = window("count(*) AS c", where="kwh > 1")
REQUESTS = (Subscribe, Unsubscribe, Keep, Pause, Resume, Quarantine)


def graph(**texts: str) -> dict[str, Query]:
    return graph_of(**texts).queries


def facts(life: Life, seconds: int, bound: int = 0) -> Facts:
    ids = [unit.id for unit in life.units]
    return Facts(
        read_us=dict.fromkeys(ids, seconds * SECOND),
        bound_ms=dict.fromkeys(ids, bound * 1000),
        batch=dict.fromkeys(ids, seconds),
    )


def apply(life: Life, queries: dict[str, Query], known: Facts, *requests: Request) -> Life:
    outcome = change(life, requests, queries, known)
    assert not outcome.refusals
    return outcome.life


def only(life: Life) -> UnitLayout:
    (unit,) = life.units
    return unit


@pytest.mark.parametrize("state", [None, *QueryState])
@pytest.mark.parametrize("kind", REQUESTS)
def test_every_request_moves_a_query_or_is_refused(
    state: QueryState | None, kind: type[Request]
) -> None:
    queries = graph(q=COUNT)
    life = Life() if state is None else in_state(queries, state)
    request = request_of(kind, queries["q"])
    outcome = change(life, [request], queries, facts(life, 20))
    if (state, kind) in TRANSITIONS:
        assert not outcome.refusals
        after = outcome.life.queries.get("q")
        assert (None if after is None else after.state) == TRANSITIONS[state, kind]
    else:
        assert [r.request for r in outcome.refusals] == [request]
        assert outcome.life == life


def request_of(kind: type[Request], query: Query) -> Request:
    if kind is Subscribe:
        return Subscribe(query=query)
    if kind is Quarantine:
        return Quarantine(name=query.name, reason="broken")
    return kind(name=query.name)  # type: ignore[call-arg]


def in_state(queries: dict[str, Query], state: QueryState) -> Life:
    life = begin(tuple(queries.values()))
    way: dict[QueryState, list[Request]] = {
        QueryState.RUNNING: [],
        QueryState.PAUSED: [Pause(name="q")],
        QueryState.QUARANTINED: [Quarantine(name="q", reason="broken")],
        QueryState.KEPT: [Keep(name="q")],
    }
    return apply(life, queries, facts(life, 10), *way[state])


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS.values()) == {None, *QueryState}
    assert {state for state, _ in TRANSITIONS} == {None, *QueryState}


def test_a_query_owns_the_windows_that_start_after_what_was_read() -> None:
    queries = graph(a=COUNT, b=window("sum(kwh) AS s"))
    life = begin((queries["a"],))
    after = apply(life, queries, facts(life, 25), Subscribe(query=queries["b"]))
    first, second = only(after).families
    assert (first.since_us, second.since_us) == (None, 25 * SECOND)
    assert first == only(life).families[0]


def test_a_query_that_needs_other_slots_gets_a_unit_that_begins_behind_the_first() -> None:
    queries = graph(a=COUNT, b=window("max(n) AS m, min(n) AS l"))
    life = begin((queries["a"],))
    after = apply(life, queries, facts(life, 25), Subscribe(query=queries["b"]))
    first, second = after.units
    assert first == only(life)
    assert second.donors == (first.id,)
    assert second.families[0].since_us == 25 * SECOND


def test_pausing_ends_a_lease_and_resuming_begins_another() -> None:
    queries = graph(a=ALONE, b=window("sum(kwh) AS s"))
    life = begin(tuple(queries.values()))
    paused = apply(life, queries, facts(life, 25), Pause(name="a"))
    (number,) = paused.queries["a"].numbers
    assert [x.ended_us for x in only(paused).leases if x.number == number] == [25 * SECOND]
    assert only(paused).era.fates[number] is Fate.PAUSED
    resumed = apply(paused, queries, facts(paused, 40), Resume(name="a"))
    old, new = (x for x in only(resumed).leases if x.number == number)
    assert (old.ended_us, new.ended_us) == (25 * SECOND, None)
    assert old.family != new.family
    assert only(resumed).era.fates[number] is Fate.TAKEN


@pytest.mark.parametrize("sql", [COUNT, FILTERED], ids=["same slot", "own slot"])
def test_a_lease_whose_family_goes_on_is_written_off_at_once(sql: str) -> None:
    """Rows of a family put something into slots that they do not use, too."""
    queries = graph(a=sql, b=window("sum(kwh) AS s"), c=ALONE)
    life = begin(tuple(queries.values()))
    (a,), (b,) = (life.queries[name].numbers for name in "ab")
    (unit,) = life.units
    known = facts(life, 25)
    draft = apply(life, queries, known, Pause(name="a"), Pause(name="c"))
    assert parts_to_write_off(life, draft) == {unit.id: {a}}
    told = replace(known, in_state={unit.id: {a: WrittenOff(late=2, cut=3)}})
    paused = apply(life, queries, told, Pause(name="a"), Pause(name="c"))
    assert [x.number for x in only(paused).leases if x.ended_us is None] == [b]
    assert a not in {x.number for x in only(paused).leases}
    assert only(paused).written_off == {a: WrittenOff(2, 3)}
    resumed = apply(paused, queries, facts(paused, 40), Resume(name="a"))
    # It is alone in its family now; what was written off stays so.
    again = apply(resumed, queries, facts(resumed, 60), Pause(name="a"))
    assert parts_to_write_off(resumed, again) == {}
    assert only(again).written_off == {a: WrittenOff(2, 3)}
    gone = apply(again, queries, facts(again, 70), Unsubscribe(name="a"))
    assert only(gone).written_off == {}
    # If all of a family end at once it counts no further.
    both = apply(life, queries, known, Pause(name="a"), Pause(name="b"))
    assert parts_to_write_off(life, both) == {}
    assert {x.ended_us for x in only(both).leases if x.number in (a, b)} == {25 * SECOND}


def test_what_has_left_the_state_is_forgotten() -> None:
    queries = graph(a=ALONE, b=window("sum(kwh) AS s"))
    life = begin(tuple(queries.values()))
    paused = apply(life, queries, facts(life, 25), Pause(name="a"))
    resumed = apply(paused, queries, facts(paused, 90, bound=80), Resume(name="a"))
    (number,) = resumed.queries["a"].numbers
    assert [x.ended_us for x in only(resumed).leases if x.number == number] == [None]
    # The era of the pause is still in the state; the one before it is not.
    assert [era.number for era in only(resumed).eras] == [1, 2]


def test_a_pause_that_is_over_before_a_batch_leaves_nothing() -> None:
    queries = graph(a=COUNT)
    life = begin(tuple(queries.values()))
    after = apply(life, queries, facts(life, 25), Pause(name="a"), Resume(name="a"))
    assert after == life


def test_an_equal_query_takes_over_a_kept_one() -> None:
    queries = graph(a=COUNT, b=COUNT)
    life = begin((queries["a"],))
    kept = apply(life, queries, facts(life, 25), Keep(name="a"))
    after = apply(kept, queries, facts(kept, 40), Subscribe(query=queries["b"]))
    assert set(after.queries) == {"b"}
    assert after.queries["b"].numbers == life.queries["a"].numbers
    assert only(after).leases == only(life).leases


def test_an_equal_query_does_not_take_over_a_running_one() -> None:
    queries = graph(a=COUNT, b=COUNT)
    life = begin((queries["a"],))
    after = apply(life, queries, facts(life, 25), Subscribe(query=queries["b"]))
    assert [f.since_us for f in only(after).families] == [None, 25 * SECOND]


def test_a_name_is_taken_once() -> None:
    queries = graph(a=COUNT)
    life = begin(tuple(queries.values()))
    outcome = change(life, [Subscribe(query=queries["a"])], queries, facts(life, 5))
    assert [r.reason for r in outcome.refusals] == ["the name a is taken"]


def test_a_kept_query_gives_its_name_to_an_equal_one_only() -> None:
    queries = graph(a=COUNT)
    life = begin(tuple(queries.values()))
    kept = apply(life, queries, facts(life, 5), Keep(name="a"))
    other = graph(a=window("count(*) AS c", "ok"))["a"]
    outcome: Outcome = change(kept, [Subscribe(query=other)], queries, facts(kept, 9))
    assert outcome.life == kept
    assert len(outcome.refusals) == 1


def test_a_unit_without_queries_is_closed_and_remembers_how_far_it_read() -> None:
    queries = graph(a=COUNT, b=window("max(n) AS m"))
    life = begin((queries["a"],))
    empty = apply(life, queries, facts(life, 25), Unsubscribe(name="a"))
    assert build_units(empty, queries) == ()
    assert [unit.id for unit in empty.units] == ["u1"]
    after = apply(empty, queries, facts(empty, 25), Subscribe(query=queries["b"]))
    made = next(unit for unit in after.units if unit.numbers)
    assert made.families[0].since_us == 25 * SECOND
    # The new one has not read anything yet. When it has, the old one is not needed any more.
    later = apply(after, queries, facts(after, 30), Pause(name="b"))
    assert [unit.id for unit in later.units] == [made.id]


def test_nothing_is_read_before_a_flow_begins() -> None:
    queries = graph(a=COUNT, b=window("max(n) AS m"))
    life = begin((queries["a"],))
    after = apply(life, queries, Facts(), Subscribe(query=queries["b"]))
    assert all(f.since_us is None for unit in after.units for f in unit.families)
    assert not any(donor for unit in after.units for donor in unit.donors)


def test_units_that_a_change_does_not_concern_stay_as_they_are() -> None:
    queries = graph(a=COUNT, s="SELECT id FROM readings", o="SELECT id FROM others")
    life = begin(tuple(queries.values()))
    after = apply(life, queries, facts(life, 10), Pause(name="s"))
    changed = [a.id for a, b in zip(life.units, after.units, strict=True) if a != b]
    assert len(changed) == 1


def test_a_narrow_unit_is_narrow_until_its_first_change() -> None:
    queries = graph(a=COUNT)
    life = begin(tuple(queries.values()))
    assert only(life).narrow
    paused = apply(life, queries, facts(life, 10), Pause(name="a"))
    assert not only(paused).narrow
    assert not only(apply(paused, queries, facts(paused, 12), Resume(name="a"))).narrow


def test_all_parts_of_a_union_move_together() -> None:
    queries = graph(u="SELECT id FROM readings UNION ALL SELECT id FROM others")
    life = begin(tuple(queries.values()))
    assert life.queries["u"].numbers == (1, 2)
    paused = apply(life, queries, facts(life, 10), Pause(name="u"))
    assert [list(unit.era.fates.values()) for unit in paused.units] == [[Fate.PAUSED]] * 2
    assert not any(unit.leases for unit in paused.units)


def test_what_reads_several_sources_begins_behind_whoever_reads_each() -> None:
    both = "SELECT ts, n FROM readings UNION ALL SELECT ts, n FROM others"
    text = "SELECT count(*) AS c FROM both GROUP BY window(ts, '10 seconds')"
    queries = graph(both=both, q=text, o="SELECT id FROM others")
    assert set(begin((queries["q"],)).queries) == {"q"}
    life = begin((queries["both"], queries["o"]))
    units = {unit.sources: unit.id for unit in life.units}
    after = apply(life, queries, facts(life, 5), Subscribe(query=queries["q"]))
    made = next(unit for unit in after.units if unit.families)
    assert made.sources == ("readings", "others")
    assert made.donors[0] == units["readings",]
    assert made.donors[1] in units.values()
    assert made.families[0].since_us == 5 * SECOND
    # What nobody has read yet is read from its beginning.
    first = begin((graph(o="SELECT id FROM others")["o"],))
    later = apply(first, queries, facts(first, 5), Subscribe(query=queries["q"]))
    assert next(u for u in later.units if u.families).donors == (None, only(first).id)


def test_layouts_are_read_back() -> None:
    texts = {
        "a": COUNT,
        "b": window("sum(price) AS s, avg(kwh) AS v", "n > 3"),
        "c": window("max(meter) AS m", keys="n % 3, ok"),
        "d": "SELECT count(*) AS n FROM readings GROUP BY window(ts, '10 seconds', '4 seconds')",
        "e": "SELECT id FROM readings",
    }
    queries = graph(**texts)
    life = begin(tuple(queries.values()))
    life = apply(life, queries, facts(life, 25), Pause(name="a"), Keep(name="b"))
    for unit in life.units:
        assert layout_from_json(layout_to_json(unit)) == unit
