"""Which queries share a gate: what a look tells, against what batches are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.control.watch import _families, _shared
from evenflow.flow import Flow
from evenflow.spark.compile.gates import GatePlan, threshold
from evenflow.spark.gate.history import GateRow

if TYPE_CHECKING:
    from evenflow.model.unit import Unit

BY_K = "FROM s {} GROUP BY k, window(ts, '10 seconds')"
QUERIES = {
    "counted": f"SELECT k, count(*) AS c {BY_K.format('')}",
    "summed": f"SELECT k, sum(n) AS c {BY_K.format('')}",
    "some": f"SELECT k, sum(n) AS c {BY_K.format('WHERE n > 3')}",
    "others": f"SELECT k, max(n) AS c {BY_K.format('WHERE n > 3')}",
    "alone": f"SELECT k, max(n) AS c {BY_K.format('WHERE n > 4')}",
    "filtered": f"SELECT k, max(n) FILTER (WHERE n > 5) AS c {BY_K.format('')}",
    "both": f"SELECT k, max(n) FILTER (WHERE n > 6) AS c {BY_K.format('WHERE n > 4')}",
    "inner": f"SELECT k, max(n) AS c {BY_K.format('WHERE n > 4 AND n > 6')}",
    "longer": "SELECT k, count(*) AS c FROM s GROUP BY k, window(ts, '20 seconds')",
    "plain": "SELECT k FROM s",
    "again": "SELECT k AS other FROM s",
}


def flow() -> Flow:
    made = Flow("test")
    schema = "ts TIMESTAMP, k STRING, n INT"
    made.source("s", "json", {"path": "in"}, schema, event_time="ts", watermark="1 second")
    for name, sql in QUERIES.items():
        made.sql(name, sql)
    return made


def test_members_with_the_same_condition_share_a_gate() -> None:
    shared = {frozenset(names) for unit in flow().units() for names in _shared(unit)}
    assert shared == {
        frozenset({"counted", "summed", "filtered"}),
        frozenset({"some", "others"}),
        frozenset({"alone", "both"}),
        # The FILTER of "both" is the condition of "inner", which so keeps what it keeps.
        frozenset({"alone", "both", "inner"}),
    }


fractions = st.fixed_dictionaries(
    {name: st.sampled_from([0.0, 0.25, 0.5, 1.0]) for name in QUERIES}
)


@settings(max_examples=30, deadline=None)
@given(fractions)
def test_what_is_shared_keeps_the_largest_fraction_in_batches_too(drawn: dict[str, float]) -> None:
    for unit in flow().units():
        shared = _shared(unit)
        alike = dict(drawn)
        for names in (*shared, *shared):  # twice, for those that share by way of others
            alike |= dict.fromkeys(names, max(alike[name] for name in names))
        assert {n for names in _families(unit) for n in names} == set(unit.queries)
        thresholds = told(unit, alike)
        for family in unit.families:
            for member in family.members:
                kept = thresholds[family.number][member.condition]
                assert kept == threshold(alike[member.query])
                if not any(member.query in names for names in shared):
                    kept = told(unit, drawn)[family.number][member.condition]
                    assert kept == threshold(drawn[member.query])


@settings(max_examples=30, deadline=None)
@given(fractions)
def test_a_window_is_kept_with_all_its_aggregates_or_not_at_all(drawn: dict[str, float]) -> None:
    """Whatever the fractions: that of a FILTER is not below that of the query which has it."""
    for unit in flow().units():
        thresholds = told(unit, drawn)
        for family in unit.families:
            condition_of = {use.slot: use.condition for use in family.uses}
            for member in family.members:
                gates = thresholds[family.number]
                assert gates[member.condition] >= threshold(drawn[member.query])
                for slot in (slot for result in member.results for slot in result.slots):
                    assert gates[condition_of[slot]] >= gates[member.condition]


def told(unit: Unit, kept: dict[str, float]) -> dict[int, list[int]]:
    """Return the thresholds that a batch is told, by family and condition."""
    members = [member for family in unit.families for member in family.members]
    plan = GatePlan(unit)
    row = GateRow(0, 1, {each.number: kept[each.query] for each in members})
    all_ = plan.told(row)[1 + plan.words :]
    places = {family.number: plan.of(family) for family in unit.families}
    return {n: all_[at.first : at.first + len(at.parts)] for n, at in places.items()}
