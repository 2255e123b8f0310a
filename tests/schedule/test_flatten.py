"""Queries in normal form: chains folded by substitution, unions taken apart."""

from __future__ import annotations

import pytest
from tests.schedule.sample import OTHERS, READINGS, graph_of

from evenflow.errors import QueryError
from evenflow.graph.bind import Binder
from evenflow.graph.canonical import canonical
from evenflow.graph.parse import parse_expression
from evenflow.graph.scope import Scope
from evenflow.model.expression import TRUE, Column, Expression
from evenflow.model.operator import Aggregate, Join, Union
from evenflow.model.types import INT
from evenflow.schedule.flatten import Flat, flatten, flatten_input, substitute


def flats(**queries: str) -> list[Flat]:
    return list(flatten(graph_of(**queries).queries["q"].operator))


def over_readings(text: str) -> Expression:
    return canonical(Binder(Scope.of(READINGS)).bind(parse_expression(text)))


def test_a_source_is_its_own_trunk() -> None:
    (flat,) = flats(q="SELECT * FROM readings")
    assert flat.trunk == READINGS
    assert flat.predicate == TRUE
    assert [name for name, _ in flat.outputs] == list(READINGS.schema.names)


def test_where_and_select_fold_into_one() -> None:
    (flat,) = flats(
        base="SELECT n * 2 AS double, kwh FROM readings WHERE ok",
        q="SELECT double + 1 AS more FROM base WHERE double > 4",
    )
    assert flat.trunk == READINGS
    assert flat.predicate == over_readings("ok AND n * 2 > 4")
    assert flat.outputs == (("more", over_readings("n * 2 + 1")),)


def test_queries_over_queries_fold_to_the_same_as_one_query() -> None:
    (chained,) = flats(
        one="SELECT * FROM readings WHERE n > 1",
        two="SELECT kwh AS k, ok AS o FROM one WHERE kwh > 0",
        q="SELECT k FROM two WHERE o",
    )
    (alone,) = flats(q="SELECT kwh AS k FROM readings WHERE ok AND kwh > 0 AND n > 1")
    assert chained == alone


def test_unions_are_taken_apart_under_the_names_of_the_first() -> None:
    parts = flats(q="SELECT id AS a FROM readings WHERE ok UNION ALL SELECT n + id FROM others")
    assert [flat.trunk for flat in parts] == [READINGS, OTHERS]
    assert [[name for name, _ in flat.outputs] for flat in parts] == [["a"], ["a"]]
    assert parts[0].predicate == over_readings("ok")
    assert parts[1].predicate == TRUE


def test_conditions_over_a_union_reach_every_part() -> None:
    parts = flats(
        both="SELECT id, n FROM readings UNION ALL SELECT id, n FROM others WHERE n < 9",
        q="SELECT id FROM both WHERE n > 3",
    )
    assert [str(flat.predicate) for flat in parts] == ["<(3, n)", "and(<(3, n), <(n, 9))"]


def test_having_and_outputs_stand_over_the_aggregate() -> None:
    text = "SELECT meter AS m, count(*) + 1 AS c FROM readings "
    text += "GROUP BY meter, window(ts, '1 minute') HAVING sum(kwh) > 8"
    (flat,) = flats(base=text, q="SELECT c * 2 AS d FROM base WHERE m <> 'x'")
    assert isinstance(flat.trunk, Aggregate)
    assert [name for name, _ in flat.outputs] == ["d"]
    assert str(flat.predicate) == "and(<(8.0, a1), not(=('x', k0)))"


def test_the_input_of_an_aggregate_is_folded_over_its_trunk() -> None:
    graph = graph_of(
        base="SELECT ts, n % 5 AS k, kwh * 2 AS double FROM readings WHERE ok",
        q="SELECT sum(double) AS s FROM base WHERE k > 0 GROUP BY k, window(ts, '1 minute')",
    )
    (flat,) = flatten(graph.queries["q"].operator)
    assert isinstance(flat.trunk, Aggregate)
    below = flatten_input(flat.trunk)
    assert below.trunk == READINGS
    assert below.predicate == over_readings("ok AND n % 5 > 0")
    assert dict(below.outputs)["double"] == over_readings("kwh * 2")


def test_a_union_below_an_aggregate_stays_whole() -> None:
    graph = graph_of(
        both="SELECT ts, n FROM readings UNION ALL SELECT ts, n FROM others",
        q="SELECT sum(n) AS s FROM both WHERE n > 0 GROUP BY window(ts, '1 minute')",
    )
    (flat,) = flatten(graph.queries["q"].operator)
    assert isinstance(flat.trunk, Aggregate)
    assert isinstance(flatten_input(flat.trunk).trunk, Union)


def test_a_join_is_a_trunk() -> None:
    (flat,) = flats(q="SELECT region, n FROM readings JOIN sites USING (meter) WHERE n > 1")
    assert isinstance(flat.trunk, Join)
    assert str(flat.predicate) == "<(1, n)"


def test_fields_of_columns_are_found_through_renames() -> None:
    base = Column(("at", "place"), INT)
    assert substitute(Column(("p", "x"), INT), {"p": base}) == Column(("at", "place", "x"), INT)


@pytest.mark.parametrize("text", ["n / 0 > 1", "CAST(meter AS INT) = 1"])
def test_what_can_fail_is_kept(text: str) -> None:
    (flat,) = flats(q=f"SELECT id FROM readings WHERE {text} AND ok")
    assert flat.predicate == over_readings(f"ok AND {text}")


def test_what_is_below_a_join_is_folded_over_it() -> None:
    (flat,) = flats(
        base="SELECT n * 2 AS double, meter AS m FROM readings WHERE ok",
        q="SELECT double, s.region FROM base JOIN sites s ON base.m = s.meter WHERE double > 4",
    )
    assert isinstance(flat.trunk, Join)
    assert flat.trunk.input == READINGS
    assert flat.predicate == over_readings("ok AND n * 2 > 4")
    assert flat.outputs[0] == ("double", over_readings("n * 2"))


def test_queries_over_differently_filtered_streams_share_a_join() -> None:
    first, second = (
        flats(
            base=f"SELECT meter, n FROM readings WHERE n > {least}",
            q="SELECT n, s.region FROM base JOIN sites s ON base.meter = s.meter",
        )[0]
        for least in (1, 2)
    )
    assert first.trunk.hash == second.trunk.hash
    assert first.predicate != second.predicate


def test_a_table_joined_twice_keeps_its_columns_apart() -> None:
    (flat,) = flats(
        base="SELECT n, s.region AS r FROM readings JOIN sites s ON readings.meter = s.meter",
        q="SELECT r, t.region AS q FROM base JOIN sites t ON base.r = t.meter",
    )
    assert isinstance(flat.trunk, Join)
    assert isinstance(flat.trunk.input, Join)
    (_, first), (_, second) = flat.outputs
    assert first != second
    assert {name for name, _ in flat.outputs} == {"r", "q"}
    known = set(flat.trunk.schema.names)
    assert all(isinstance(e, Column) and e.path[0] in known for _, e in flat.outputs)


def test_answers_of_a_window_are_not_joined() -> None:
    with pytest.raises(QueryError, match="cannot be joined"):
        flats(
            base="SELECT meter, count(*) AS n FROM readings GROUP BY meter, window(ts, '1 hour')",
            q="SELECT n, s.region FROM base JOIN sites s ON base.meter = s.meter",
        )
