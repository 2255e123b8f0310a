"""Units: what runs together, and how families and slots are laid out."""

from __future__ import annotations

import random

import pytest
from tests.schedule.sample import graph_of, member, unit_of, units_of, window

from evenflow.model import types as t
from evenflow.model.expression import TRUE
from evenflow.model.operator import Union
from evenflow.model.unit import KeySlot, Kind, Slot
from evenflow.schedule.cut import cut
from evenflow.schedule.group import MOST_CONDITIONS

# Units.


def test_stateless_queries_of_one_source_share_a_unit() -> None:
    unit = unit_of(a="SELECT id FROM readings WHERE ok", b="SELECT n + 1 AS m FROM readings")
    assert unit.kind is Kind.STATELESS
    assert unit.sources == ("readings",)
    assert [(b.query, b.number) for b in unit.branches] == [("a", 1), ("b", 2)]


def test_kinds_of_work_are_kept_apart() -> None:
    units = units_of(
        plain="SELECT id FROM readings",
        hashed=window("count(*) AS c"),
        longest=window("max(meter) AS m, count(*) AS c"),
        distinct=window("approx_count_distinct(n) AS d"),
        both=window("min(meter) AS m, approx_count_distinct(n) AS d"),
    )
    assert {unit.kind: unit.queries for unit in units} == {
        Kind.STATELESS: ("plain",),
        Kind.HASH: ("hashed",),
        Kind.SORT: ("both", "longest"),
        Kind.SKETCH: ("distinct",),
    }
    assert len({unit.id for unit in units}) == 4


def test_sources_and_joins_are_kept_apart() -> None:
    units = units_of(
        a="SELECT id FROM readings",
        b="SELECT id FROM others",
        c="SELECT region FROM readings JOIN sites USING (meter)",
        d="SELECT region, n FROM readings JOIN sites ON readings.meter = sites.meter",
    )
    assert [unit.queries for unit in units] == [("a",), ("b",), ("c", "d")]


def test_a_unit_runs_as_often_as_its_most_urgent_query() -> None:
    graph = graph_of(a="SELECT id FROM readings")
    graph.add_sql("b", "SELECT n FROM readings", every=0.25)
    (unit,) = cut(tuple(graph.queries.values()))
    assert unit.every == 0.25


def test_parts_of_a_union_run_where_their_sources_are() -> None:
    units = units_of(
        all="SELECT id FROM readings UNION ALL SELECT id FROM others",
        some="SELECT n FROM others",
    )
    assert [(u.sources, u.queries) for u in units] == [
        (("readings",), ("all",)),
        (("others",), ("all", "some")),
    ]
    numbers = [b.number for u in units for b in u.branches]
    assert len(set(numbers)) == 3


def test_a_union_of_windowed_queries_has_a_member_per_part() -> None:
    text = window("count(*) AS c") + " UNION ALL " + window("sum(n) AS s", "ok")
    unit = unit_of(q=text)
    members = [m for f in unit.families for m in f.members]
    assert [m.query for m in members] == ["q", "q"]
    assert len({m.number for m in members}) == 2


def test_an_aggregate_over_a_union_reads_both_sources_in_one_unit() -> None:
    units = units_of(
        both="SELECT ts, n FROM readings UNION ALL SELECT ts, n FROM others",
        q="SELECT sum(n) AS s FROM both GROUP BY window(ts, '1 minute')",
        r="SELECT count(*) AS c FROM both GROUP BY window(ts, '1 minute')",
    )
    (unit,) = (u for u in units if u.kind is Kind.HASH)
    assert isinstance(unit.trunk, Union)
    assert unit.sources == ("readings", "others")
    assert unit.queries == ("q", "r")


# Families.


def test_equal_keys_and_windows_make_a_family() -> None:
    unit = unit_of(
        a=window("count(*) AS c"),
        b=window("sum(kwh) AS s", "ok"),
        c=window("max(n) AS m", keys="upper(meter)"),
        d=window("max(n) AS m", size="20 seconds"),
    )
    families = {tuple(m.query for m in f.members) for f in unit.families}
    assert families == {("a", "b"), ("c",), ("d",)}
    assert len({f.number for f in unit.families}) == 3


def test_keys_are_the_same_in_any_order_and_through_other_queries() -> None:
    unit = unit_of(
        a=window("meter, n % 5 AS k, count(*) AS c", keys="meter, n % 5"),
        b=window("count(*) AS c", keys="n % 5, meter"),
    )
    assert [[m.query for m in f.members] for f in unit.families] == [["a", "b"]]
    through = next(
        u
        for u in units_of(
            base="SELECT ts, upper(meter) AS name, n FROM readings WHERE ok",
            a="SELECT count(*) AS c FROM base GROUP BY name, window(ts, '10 seconds')",
            b=window("count(*) AS c", "ok", "upper(meter)"),
        )
        if u.kind is Kind.HASH
    )
    (family,) = through.families
    assert [m.query for m in family.members] == ["a", "b"]
    assert family.members[0].condition == family.members[1].condition
    assert family.members[0].count == family.members[1].count


def test_equal_aggregates_share_a_slot() -> None:
    unit = unit_of(
        a=window("sum(kwh) AS s, count(kwh) AS c"),
        b=window("avg(kwh) AS a, sum(kwh) AS s"),
        c=window("sum(kwh) AS s", "ok"),
    )
    (family,) = unit.families
    a, b, c = family.members
    assert a.results[1].slots == b.results[1].slots
    assert b.results[0].slots[0] == b.results[1].slots[0]
    assert c.results[0].slots[0] != a.results[1].slots[0]
    assert len({use.slot for use in family.uses}) == len(family.uses)


def test_an_aggregate_with_a_filter_equals_one_with_the_same_predicate() -> None:
    unit = unit_of(a=window("sum(kwh) FILTER (WHERE ok) AS s"), b=window("sum(kwh) AS s", "ok"))
    (family,) = unit.families
    a, b = family.members
    assert a.results[0].slots == b.results[0].slots
    assert a.count != b.count
    assert len(family.conditions) == 2


def test_slots_are_reused_by_other_families() -> None:
    unit = unit_of(
        a=window("sum(kwh) AS s"),
        b=window("sum(kwh * 2) AS s", keys="n"),
    )
    (sum_a,) = {u.slot for u in unit.families[0].uses if u.slot.function == "sum"}
    (sum_b,) = {u.slot for u in unit.families[1].uses if u.slot.function == "sum"}
    assert sum_a == sum_b == Slot("sum", t.DOUBLE, 0)


def test_hash_stacks_have_a_count_a_sum_and_a_number_for_a_key_and_others_do_not() -> None:
    unit = unit_of(a=window("count(*) AS c", keys="meter"))
    assert unit.slots == (Slot("count", t.BIGINT, 0), Slot("sum", t.DOUBLE, 0))
    assert unit.key_slots == (KeySlot("long", 0), KeySlot("string", 0))
    assert unit_of(a=window("count(*) AS c", keys="n")).key_slots == (KeySlot("long", 0),)
    sketch = unit_of(a=window("approx_count_distinct(n) AS d"))
    assert [s.function for s in sketch.slots] == ["count", "distinct"]


def test_slots_hold_the_types_of_their_values() -> None:
    unit = unit_of(
        a=window(
            "sum(price) AS a, max(price) AS b, avg(price) AS c, min(ok) AS d, max(ts) AS e, "
            "sum(n) AS f, avg(n) AS g, stddev(n) AS h, min(kwh) AS i"
        )
    )
    found = {(s.function, str(s.type)) for s in unit.slots}
    assert found == {
        ("count", "BIGINT"),
        ("sum", "DECIMAL(10,2)"),
        ("max", "DECIMAL(10,2)"),
        ("avg", "DECIMAL(10,2)"),
        ("min", "BIGINT"),
        ("max", "BIGINT"),
        ("sum", "BIGINT"),
        ("sum", "DOUBLE"),
        ("stddev", "DOUBLE"),
        ("min", "DOUBLE"),
    }
    assert [s.function for s in unit.slots][:2] == ["count", "count"]


def test_keys_travel_in_carriers() -> None:
    unit = unit_of(a=window("count(*) AS c", keys="meter, price, ok, n, kwh, cast(ts as date)"))
    (family,) = unit.families
    carried = {str(k): s for k, s in zip(family.keys, family.key_slots, strict=True)}
    assert carried["meter"].carrier == carried["price"].carrier == "string"
    assert carried["kwh"].carrier == "double"
    assert {carried["ok"].carrier, carried["n"].carrier} == {"long"}
    assert len(set(family.key_slots)) == 6
    assert set(family.key_slots) <= set(unit.key_slots)


def test_distinct_has_a_count_and_nothing_else() -> None:
    unit = unit_of(a="SELECT DISTINCT meter, window(ts, '1 minute') AS w FROM readings")
    _, part = member(unit, "a")
    assert part.results == ()
    assert part.count == Slot("count", t.BIGINT, 0)


# Conditions and guards.


def test_what_can_fail_guards_the_query_that_asks_for_it() -> None:
    unit = unit_of(
        safe=window("sum(kwh) AS s", keys="n % 5"),
        key=window("count(*) AS c", keys="100 / n"),
        argument=window("sum(n + n) AS s", keys="n % 5"),
    )
    family, safe = member(unit, "safe")
    assert family.conditions[safe.condition].guards == ()
    family, key = member(unit, "key")
    assert [str(g) for g in family.conditions[key.condition].guards] == [str(family.keys[0])]
    family, argument = member(unit, "argument")
    assert [str(g) for g in family.conditions[argument.condition].guards] == ["+(n, n)"]


def test_a_filter_guards_its_argument() -> None:
    unit = unit_of(a=window("sum(100 / n) FILTER (WHERE n <> 0) AS s"))
    family, part = member(unit, "a")
    (guard,) = family.conditions[part.condition].guards
    assert str(guard) == "CASE WHEN not(=(0, n)) THEN /(100.0, CAST(n AS DOUBLE)) END"


def test_predicate_and_filter_are_conditions_of_their_own() -> None:
    unit = unit_of(a=window("count(*) AS c, count(*) FILTER (WHERE ok) AS d", "n > 1"))
    (family,) = unit.families
    assert [str(c.predicate) for c in family.conditions] == ["<(1, n)", "and(<(1, n), ok)"]


def test_having_and_outputs_are_over_the_aggregate() -> None:
    unit = unit_of(a=window("meter AS m, count(*) + 1 AS c", tail="HAVING count(*) > 2"))
    _, part = member(unit, "a")
    assert str(part.having) == "<(2, a0)"
    assert [name for name, _ in part.outputs] == ["m", "c"]
    _, plain = member(unit_of(a=window("count(*) AS c")), "a")
    assert plain.having is None


def test_no_family_has_more_conditions_than_bits() -> None:
    filters = {
        f"q{i}": window(f"count(*) FILTER (WHERE n > {i}) AS a, count(*) AS b", "ok")
        for i in range(90)
    }
    guards = {f"g{i}": window(f"sum(n * {i + 2}) AS s", "ok") for i in range(90)}
    for queries in (filters, guards):
        unit = unit_of(**queries)
        assert max(len(f.conditions) for f in unit.families) <= MOST_CONDITIONS
        assert sum(len(f.members) for f in unit.families) == 90


def test_a_query_with_more_filters_than_bits_puts_them_into_arguments() -> None:
    items = ", ".join(f"sum(kwh) FILTER (WHERE n = {i}) AS a{i}" for i in range(80))
    unit = unit_of(a=window(items + ", count(*) FILTER (WHERE n = 99) AS c"))
    (family,) = unit.families
    assert [c.predicate for c in family.conditions] == [TRUE]
    assert len({use.slot for use in family.uses if use.slot.function == "sum"}) == 80
    assert any(str(u.argument) == "CASE WHEN =(99, n) THEN True END" for u in family.uses)


# Numbers and order.


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_queries_changes_nothing(seed: int) -> None:
    texts = {
        "a": window("count(*) AS c"),
        "b": window("sum(kwh) AS s", "ok"),
        "c": window("max(n) AS m", keys="n % 7"),
        "d": window("max(meter) AS m"),
        "e": "SELECT id FROM readings",
        "f": "SELECT id FROM others UNION ALL SELECT n FROM readings",
        "g": window("avg(kwh) AS a", "n > 3"),
    }
    names = list(texts)
    random.Random(seed).shuffle(names)
    assert units_of(**{name: texts[name] for name in names}) == units_of(**texts)


def test_windows_that_slide_finely_are_a_unit_of_their_own() -> None:
    units = units_of(
        fine="SELECT count(*) AS n FROM readings GROUP BY window(ts, '60 seconds', '1 second')",
        coarse="SELECT count(*) AS n FROM readings GROUP BY window(ts, '60 seconds', '5 seconds')",
    )
    assert [(unit.queries, unit.fine) for unit in units] == [
        (("coarse",), False),
        (("fine",), True),
    ]
