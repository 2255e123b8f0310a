"""Which queries share a gate: what a look tells, against what batches are told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.control.watch import _families, _shared
from evenflow.flow import Flow
from evenflow.spark.compile.gates import GatePlan, threshold
from evenflow.spark.gate.history import GateRow

BY_K = "FROM s {} GROUP BY k, window(ts, '10 seconds')"
QUERIES = {
    "counted": f"SELECT k, count(*) AS c {BY_K.format('')}",
    "summed": f"SELECT k, sum(n) AS c {BY_K.format('')}",
    "some": f"SELECT k, sum(n) AS c {BY_K.format('WHERE n > 3')}",
    "others": f"SELECT k, max(n) AS c {BY_K.format('WHERE n > 3')}",
    "alone": f"SELECT k, max(n) AS c {BY_K.format('WHERE n > 4')}",
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
    assert shared == {frozenset({"counted", "summed"}), frozenset({"some", "others"})}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=8, max_size=8))
def test_what_is_shared_keeps_the_largest_fraction_in_batches_too(drawn: list[float]) -> None:
    fractions = dict(zip(QUERIES, drawn, strict=True))
    for unit in flow().units():
        members = [member for family in unit.families for member in family.members]
        row = GateRow(0, 1, {each.number: fractions[each.query] for each in members})
        plan = GatePlan(unit)
        thresholds = plan.told(row)[1 + plan.words :][: plan.gates]
        shared = {name: names for names in _shared(unit) for name in names}
        assert {n for names in _families(unit) for n in names} == set(unit.queries)
        for family in unit.families:
            for member in family.members:
                kept = max(fractions[n] for n in shared.get(member.query, (member.query,)))
                gate = plan.of(family).first + member.condition
                assert thresholds[gate] == threshold(kept)
