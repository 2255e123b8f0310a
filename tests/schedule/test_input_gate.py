"""Which units have an input gate, and what it looks at."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.schedule.sample import READINGS, graph_of, unit_of

from evenflow.model.operator import Apply, Join
from evenflow.schedule.cut import cut
from evenflow.schedule.input_gate import MOST_HASHES, below_joins, input_gate

JOINED = "readings JOIN sites ON readings.meter = sites.meter"
LEFT = "readings LEFT JOIN sites ON readings.meter = sites.meter"


def over(joined: str, key: str, window: str = "'10 seconds'", where: str = "1 = 1") -> str:
    grouped = f"GROUP BY {key}, window(ts, {window})"
    return f"SELECT {key} AS k, count(*) AS c FROM {joined} WHERE {where} {grouped}"


def test_families_of_the_same_keys_and_window_are_one_draw() -> None:
    unit = unit_of(
        a=over(JOINED, "n", where="region = 'x'"),
        b=over(JOINED, "n", "'20 seconds', '10 seconds'"),
        c=over(JOINED, "n % 3"),
        d=over(JOINED, "n", where="upper(region) = 'Y'"),
    )
    gate = input_gate(unit)
    assert gate is not None
    drawn = {tuple(sorted(m.query for f in d.families for m in f.members)) for d in gate.draws}
    assert drawn == {("a", "d"), ("b",), ("c",)}
    parts = [part for draw in gate.draws for part in draw.parts]
    assert sorted(parts) == [1, 2, 3, 4]
    assert below_joins(unit.trunk) == READINGS


def test_a_stateless_unit_goes_by_identity() -> None:
    gate = input_gate(unit_of(a=f"SELECT id, region FROM {LEFT}"))
    assert gate is not None
    assert gate.draws == ()


def test_a_union_below_a_join_is_cheap() -> None:
    graph = graph_of(
        both="SELECT meter, ts, n FROM readings WHERE n > 1 "
        "UNION ALL SELECT meter, ts, n FROM others",
        a="SELECT n, count(*) AS c FROM both JOIN sites ON both.meter = sites.meter "
        "GROUP BY n, window(ts, '10 seconds')",
    )
    (unit,) = cut((graph.queries["a"],))
    assert input_gate(unit) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM readings WHERE upper(meter) = 'A'",
        over("readings", "meter"),
        over(JOINED, "region"),
        over(JOINED, "upper(readings.meter)"),
        over(JOINED, "n", f"'{MOST_HASHES + 1} seconds', '1 second'"),
    ],
    ids=["no join", "no join, windows", "key of the table", "dear key", "many windows"],
)
def test_units_without(sql: str) -> None:
    assert input_gate(unit_of(a=sql)) is None


def test_nothing_is_dropped_before_a_function_of_the_user() -> None:
    unit = unit_of(a=over(JOINED, "n"))
    assert isinstance(unit.trunk, Join)
    applied = Apply(READINGS, "f", "", READINGS.schema, "ts")
    assert input_gate(unit) is not None
    assert input_gate(replace(unit, trunk=replace(unit.trunk, input=applied))) is None


def test_a_unit_without_queries_drops_nothing() -> None:
    """All of them are paused: there is nobody whose gate could be closed."""
    for sql in (over(JOINED, "n"), f"SELECT id, region FROM {JOINED}"):
        assert input_gate(replace(unit_of(a=sql), families=(), branches=())) is None
