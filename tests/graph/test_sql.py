"""Statements to operators."""

from __future__ import annotations

import pytest
from tests.graph.sample import READINGS, SITES, operator_of

from evenflow.model import types as t
from evenflow.model.expression import Column
from evenflow.model.operator import (
    Aggregate,
    Join,
    JoinType,
    Operator,
    Select,
    Union,
    Where,
    Window,
)
from evenflow.model.schema import parse_schema

HOUR = 3_600_000_000


def kinds(operator: Operator) -> list[str]:
    """Return the kinds of operators from the source on, along first inputs."""
    found = [operator.kind]
    while operator.inputs:
        operator = operator.inputs[0]
        found.append(operator.kind)
    return found[::-1]


def aggregate_of(sql: str) -> Aggregate:
    operator = operator_of(sql)
    while not isinstance(operator, Aggregate):
        operator = operator.inputs[0]
    return operator


def shown(operator: Operator) -> dict[str, str]:
    assert isinstance(operator, Select)
    return {name: str(value) for name, value in operator.columns}


def test_a_full_query_becomes_one_operator_per_clause() -> None:
    operator = operator_of(
        "SELECT r.meter, sum(kwh) AS total FROM readings r JOIN sites USING (meter) "
        "WHERE kwh > 1 GROUP BY r.meter, window(ts, '1 hour') HAVING sum(kwh) > 8"
    )
    assert kinds(operator) == ["source", "join", "where", "aggregate", "where", "select"]


def test_everything_unchanged_is_no_operator() -> None:
    assert operator_of("SELECT * FROM readings WHERE 1 = 1") == READINGS


def test_another_spelling_of_a_column_names_the_answer_as_written() -> None:
    assert operator_of("SELECT KWH FROM readings").schema == parse_schema("KWH DOUBLE")


def test_select_keeps_event_time_where_it_is_selected_as_it_is() -> None:
    assert operator_of("SELECT kwh, ts AS moment FROM readings").event_time == "moment"
    assert operator_of("SELECT kwh FROM readings").event_time is None
    assert operator_of("SELECT date_trunc('hour', ts) AS ts FROM readings").event_time is None


def test_one_where_holds_all_conditions() -> None:
    operator = operator_of("SELECT * FROM readings WHERE kwh > 1 AND valid")
    assert isinstance(operator, Where)
    assert str(operator.predicate) == "and(<(1.0, kwh), valid)"


def test_keys_and_aggregates_are_named_by_their_text_and_not_by_the_query() -> None:
    made = aggregate_of(
        "SELECT sum(kwh) AS b, meter AS m, count(*) AS a, sum(kwh) + 1 AS c FROM readings "
        "GROUP BY meter, district, window(ts, '1 hour')"
    )
    assert [(name, str(key)) for name, key in made.keys] == [("k0", "district"), ("k1", "meter")]
    assert [(n, str(a)) for n, a in made.aggregates] == [("a0", "count(*)"), ("a1", "sum(kwh)")]
    assert (made.window_name, made.window) == ("w", Window(HOUR, HOUR))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            "SELECT meter, count(*) AS n FROM readings GROUP BY meter, window(ts, '1 hour')",
            (
                "SELECT count(1) AS m, METER AS x FROM readings r GROUP BY window(r.ts, '60 min'), "
                "r.meter HAVING count(*) > 2"
            ),
        ),
        (
            "SELECT sum(kwh) AS s FROM readings WHERE n > 1 AND valid GROUP BY window(ts, '1 h')",
            "SELECT sum(KWH) AS t FROM readings WHERE valid AND 1 < n GROUP BY window(ts, '1 h')",
        ),
        (
            "SELECT mean(kwh) AS s FROM readings GROUP BY window(ts, '1 hour')",
            "SELECT avg(kwh) FILTER (WHERE TRUE) AS s FROM readings GROUP BY window(ts, '1 hour')",
        ),
    ],
)
def test_queries_that_differ_in_names_share_the_aggregate(left: str, right: str) -> None:
    assert aggregate_of(left).hash == aggregate_of(right).hash


def test_grouped_expressions_are_found_inside_larger_ones() -> None:
    operator = operator_of(
        "SELECT (1 + n) * 2 AS x, upper(meter) || '!' AS y FROM readings "
        "GROUP BY n + 1, upper(meter), window(ts, '1 hour')"
    )
    assert shown(operator) == {"x": "*(2, k0)", "y": "concat(k1, '!')"}


def test_the_window_is_a_column_with_fields() -> None:
    operator = operator_of(
        "SELECT window.start AS a, window(ts, '1 hour').end AS b, window, "
        "window(ts, '1 hour') AS c FROM readings GROUP BY window(ts, '1 hour')"
    )
    assert shown(operator) == {"a": "w.start", "b": "w.end", "window": "w", "c": "w"}


def test_a_name_given_by_as_can_be_used_by_later_columns() -> None:
    operator = operator_of(
        "SELECT window(ts, '1 hour') AS w, w.start AS begin, count(*) AS c, c + 1 AS m "
        "FROM readings GROUP BY w"
    )
    assert shown(operator) == {"w": "w", "begin": "w.start", "c": "a0", "m": "+(1, a0)"}


def test_an_input_column_comes_before_a_name_given_by_as() -> None:
    operator = operator_of("SELECT kwh + 1 AS n, n + 1 AS m FROM readings")
    assert shown(operator)["m"] == "+(1, n)"


def test_group_by_takes_names_given_by_as() -> None:
    operator = operator_of(
        "SELECT upper(meter) AS m, window(ts, '1 hour') AS w, count(*) AS c FROM readings "
        "GROUP BY m, w"
    )
    assert shown(operator) == {"m": "k0", "w": "w", "c": "a0"}


def test_having_takes_names_given_by_as_before_columns_that_are_not_grouped() -> None:
    left = operator_of(
        "SELECT meter, sum(kwh) AS kwh FROM readings GROUP BY meter, window(ts, '1 hour') "
        "HAVING kwh > 8"
    )
    right = operator_of(
        "SELECT meter, sum(kwh) AS kwh FROM readings GROUP BY meter, window(ts, '1 hour') "
        "HAVING sum(kwh) > 8"
    )
    assert left.hash == right.hash


def test_having_takes_grouped_columns_before_names_given_by_as() -> None:
    operator = operator_of(
        "SELECT count(*) AS meter, sum(n) AS s FROM readings GROUP BY meter, window(ts, '1 hour') "
        "HAVING meter = 'm'"
    )
    assert isinstance(operator, Select)
    assert isinstance(operator.input, Where)
    assert str(operator.input.predicate) == "=('m', k0)"


def test_a_constant_and_a_part_of_the_window_add_no_key() -> None:
    made = aggregate_of(
        "SELECT window.end AS e FROM readings GROUP BY 'x', window(ts, '1 hour'), window.end"
    )
    assert made.keys == ()


def test_distinct_is_an_aggregate_without_aggregates() -> None:
    operator = operator_of("SELECT DISTINCT meter, window(ts, '5 minutes') FROM readings")
    assert kinds(operator) == ["source", "aggregate", "select"]
    made = aggregate_of("SELECT DISTINCT meter, window(ts, '5 minutes') AS w FROM readings")
    assert made.aggregates == ()
    assert made.hash == operator.inputs[0].hash


def test_sliding_windows_have_a_slide() -> None:
    made = aggregate_of("SELECT count(*) FROM readings GROUP BY window(ts, '1 hour', '10 minutes')")
    assert made.window == Window(HOUR, HOUR // 6)


def test_aggregates_with_a_filter_keep_it() -> None:
    made = aggregate_of(
        "SELECT count(*) FILTER (WHERE valid) AS v, count(*) AS c FROM readings "
        "GROUP BY window(ts, '1 hour')"
    )
    assert [str(call) for _, call in made.aggregates] == [
        "count(*)",
        "count(*) FILTER (WHERE valid)",
    ]


def test_default_names_are_those_of_spark() -> None:
    operator = operator_of(
        "SELECT r.meter, count(*), sum(r.kwh), window, max(n) FILTER (WHERE valid) FROM readings r "
        "GROUP BY meter, window(ts, '1 hour')"
    )
    names = ("meter", "count(1)", "sum(kwh)", "window", "max(n) FILTER (WHERE valid)")
    assert operator.schema.names == names


def test_a_join_keeps_the_table_apart_under_a_prefix() -> None:
    operator = operator_of(
        "SELECT r.meter, s.region FROM readings r LEFT JOIN sites s "
        "ON s.meter = r.meter AND r.n = s.number"
    )
    assert isinstance(operator, Select)
    join = operator.input
    assert isinstance(join, Join)
    assert join.table == SITES
    assert join.join_type is JoinType.LEFT
    assert [(str(e), name) for e, name in join.keys] == [("meter", "meter"), ("n", "number")]
    assert shown(operator) == {"meter": "meter", "region": "sites__region"}


def test_using_gives_the_column_once_and_first_as_in_spark() -> None:
    operator = operator_of("SELECT * FROM readings JOIN sites USING (meter)")
    others = [name for name in READINGS.schema.names if name != "meter"]
    assert operator.schema.names == ("meter", *others, "region", "number", "cap")
    assert operator.event_time == "ts"


def test_a_star_may_be_of_one_table() -> None:
    operator = operator_of("SELECT n, s.* FROM readings JOIN sites s USING (meter)")
    assert operator.schema.names == ("n", *SITES.schema.names)


def test_a_table_may_be_joined_twice() -> None:
    operator = operator_of(
        "SELECT a.region AS x, b.region AS y FROM readings "
        "JOIN sites a ON a.meter = readings.meter JOIN sites b ON b.region = readings.district"
    )
    assert shown(operator) == {"x": "sites__region", "y": "sites_2__region"}


def test_the_order_and_the_side_of_join_conditions_do_not_matter() -> None:
    left = "SELECT region FROM readings r JOIN sites s ON r.meter = s.meter AND n = number"
    right = "SELECT region FROM readings JOIN sites x ON number = n AND x.meter = readings.meter"
    assert operator_of(left).hash == operator_of(right).hash


def test_the_narrower_key_of_a_join_is_widened() -> None:
    operator = operator_of("SELECT region FROM readings JOIN sites s ON small = s.number")
    join = operator.inputs[0]
    assert isinstance(join, Join)
    assert [str(e) for e, _ in join.keys] == ["CAST(small AS INT)"]
    operator = operator_of("SELECT region FROM readings JOIN sites s ON id = s.number")
    join = operator.inputs[0]
    assert isinstance(join, Join)
    assert [str(e) for e, _ in join.keys] == ["id"]


def test_union_gives_common_types_and_the_names_of_the_first() -> None:
    operator = operator_of(
        "SELECT ts, n AS value FROM readings UNION ALL SELECT ts, kwh FROM readings"
    )
    assert isinstance(operator, Union)
    assert operator.schema == parse_schema("ts TIMESTAMP, value DOUBLE")
    assert operator.event_time == "ts"


def test_union_has_no_event_time_unless_all_have_it_at_the_same_place() -> None:
    operator = operator_of(
        "SELECT ts AS a, seen AS b FROM readings UNION ALL SELECT seen, ts FROM readings"
    )
    assert operator.event_time is None


def test_a_union_of_a_source_and_a_select_converts_the_source() -> None:
    operator = operator_of(
        "SELECT * FROM plain UNION ALL SELECT price, note FROM x",
        x="SELECT price, meter AS note FROM readings",
    )
    assert operator.schema.fields[0].type == t.DecimalType(22, 2)


def test_a_query_reads_another_query() -> None:
    operator = operator_of(
        "SELECT m, total FROM heavy WHERE total > 10",
        heavy="SELECT meter AS m, sum(kwh) AS total FROM readings GROUP BY meter, "
        "window(ts, '1 hour')",
    )
    assert kinds(operator) == ["source", "aggregate", "select", "where"]


def test_a_window_can_be_taken_over_a_renamed_event_time() -> None:
    operator = operator_of(
        "SELECT count(*) AS c FROM shaped GROUP BY window(moment, '1 hour')",
        shaped="SELECT ts AS moment, kwh FROM readings WHERE valid",
    )
    assert kinds(operator) == ["source", "where", "select", "aggregate", "select"]


def test_a_struct_passes_through() -> None:
    operator = operator_of("SELECT at, at.place.city AS city FROM readings")
    assert isinstance(operator, Select)
    assert operator.columns[1][1] == Column(("at", "place", "city"), t.STRING)
