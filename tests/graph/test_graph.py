"""The graph: names, order, sharing."""

from __future__ import annotations

import pytest
from tests.graph.sample import PLAIN, READINGS, SITES, operator_of, sample_graph

from evenflow.errors import ConfigError, QueryError
from evenflow.graph.graph import Graph
from evenflow.model.operator import Source, Table, upstream
from evenflow.model.query import OnError, Query, Sink
from evenflow.model.schema import parse_schema

COUNT = "SELECT meter, count(*) AS n FROM readings WHERE valid GROUP BY meter, window(ts, '1 h')"
HEAVY = COUNT + " HAVING count(*) > 5"


def test_equal_queries_share_every_operator() -> None:
    graph = sample_graph()
    graph.add_sql({"a": COUNT, "b": COUNT.lower().replace("readings", "READINGS")})
    assert graph.operators_alone() == 8
    assert graph.operators_shared() == 4
    assert len(graph.operators()) == 4


def test_queries_that_differ_at_the_end_share_what_comes_before() -> None:
    graph = sample_graph()
    made = graph.add_sql({"a": COUNT, "b": HEAVY})
    aggregate = made["a"].operator.inputs[0]
    assert graph.users(aggregate) == ("a", "b")
    assert graph.users(made["b"].operator) == ("b",)
    assert graph.operators_shared() == 6


def test_operators_come_after_their_inputs() -> None:
    graph = sample_graph()
    graph.add_sql({"b": "SELECT n FROM a WHERE n > 1", "a": HEAVY})
    seen: set[str] = set()
    for operator in graph.operators():
        assert {each.hash for each in operator.inputs} <= seen
        seen.add(operator.hash)


def test_queries_may_be_given_before_those_they_read() -> None:
    graph = sample_graph()
    graph.add_sql({"c": "SELECT n FROM b", "b": "SELECT n, meter FROM a", "a": COUNT})
    assert list(graph.queries) == ["c", "b", "a"]


def test_a_later_call_reads_queries_of_an_earlier_one() -> None:
    graph = sample_graph()
    graph.add_sql("a", COUNT)
    graph.add_sql("b", "SELECT n FROM A WHERE n > 3")
    assert graph.queries["a"].operator in upstream(graph.queries["b"].operator)


def test_a_circle_is_refused_with_its_path() -> None:
    graph = sample_graph()
    queries = {"a": "SELECT n FROM b", "b": "SELECT n FROM c", "c": "SELECT n FROM a"}
    with pytest.raises(QueryError) as caught:
        graph.add_sql(queries)
    assert caught.value.code == "graph.cycle"
    assert "a -> b -> c -> a" in caught.value.message
    assert caught.value.query == "c"
    assert caught.value.place() == (1, 15)


def test_a_query_that_reads_itself_is_a_circle() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql("a", "SELECT n FROM a")
    assert caught.value.code == "graph.cycle"


def chain(length: int) -> dict[str, str]:
    texts = {f"q{i}": f"SELECT n + {i} AS n FROM q{i + 1} WHERE n > {i}" for i in range(length)}
    return {**texts, f"q{length}": "SELECT n FROM readings"}


def test_queries_may_read_through_many_others() -> None:
    graph = sample_graph()
    graph.add_sql(chain(90))
    assert graph.operators_shared() == 182


def test_a_chain_too_long_for_spark_is_refused_not_crashed() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql(chain(2_000))
    assert caught.value.code == "sql.limit"


def test_all_queries_of_a_call_are_added_or_none() -> None:
    graph = sample_graph()
    with pytest.raises(QueryError):
        graph.add_sql({"good": COUNT, "bad": "SELECT nothing FROM readings"})
    assert graph.queries == {}


def test_an_error_names_the_query_and_its_text() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql({"good": COUNT, "bad": "SELECT nothing FROM readings"})
    error = caught.value
    assert (error.query, error.place()) == ("bad", (1, 8))
    assert error.caret() == "SELECT nothing FROM readings\n       ^"


@pytest.mark.parametrize("name", ["readings", "READINGS", "Sites", "PLAIN"])
def test_names_are_one_namespace_in_any_case(name: str) -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql(name, COUNT)
    assert caught.value.code == "name.duplicate"


def test_two_queries_of_one_call_cannot_have_one_name() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql({"a": COUNT, "A": COUNT})
    assert caught.value.code == "name.duplicate"


@pytest.mark.parametrize("name", ["", "a b", "../x", "a" * 65])
def test_odd_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        sample_graph().add_sql(name, COUNT)


def test_names_with_a_dash_are_read_in_backquotes() -> None:
    graph = sample_graph()
    graph.add_sql("my-query", COUNT)
    assert graph.add_sql("b", "SELECT n FROM `my-query`")["b"].schema.names == ("n",)


def test_a_source_and_a_table_cannot_have_one_name() -> None:
    graph = sample_graph()
    with pytest.raises(QueryError):
        graph.add_table(Table("readings", SITES.schema, "other"))
    with pytest.raises(QueryError):
        graph.add_source(Source("Sites", PLAIN.schema, None, 0, "other"))


@pytest.mark.parametrize("event_time", ["nothing", "kwh"])
def test_an_event_time_that_is_no_timestamp_is_refused(event_time: str) -> None:
    with pytest.raises(ConfigError):
        Graph().add_source(Source("s", READINGS.schema, event_time, 0, "x"))


def test_an_event_time_in_another_case_is_the_column() -> None:
    graph = Graph()
    graph.add_source(Source("s", parse_schema("Ts TIMESTAMP"), "ts", 0, "x"))
    assert graph.sources["s"].event_time == "Ts"


def test_options_are_the_fields_of_a_query() -> None:
    sink = Sink("memory")
    made = sample_graph().add_sql(
        {"a": COUNT, "b": HEAVY},
        options={"a": {"weight": 3.0, "sinks": (sink,)}},
        every=2.0,
        on_error=OnError.QUARANTINE,
    )
    assert (made["a"].weight, made["a"].every, made["a"].sinks) == (3.0, 2.0, (sink,))
    assert (made["b"].weight, made["b"].on_error) == (1.0, OnError.QUARANTINE)
    assert made["a"].text == COUNT


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError):
        sample_graph().add_sql("a", COUNT, hurry=True)  # type: ignore[call-arg]


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql({"a": 5})  # type: ignore[dict-item]
    assert caught.value.code == "sql.syntax"


def test_a_column_named_window_is_not_taken_for_the_window() -> None:
    graph = Graph()
    graph.add_source(Source("s", parse_schema("ts TIMESTAMP, window INT"), "ts", 0, "x"))
    with pytest.raises(QueryError) as caught:
        graph.add_sql("a", "SELECT window FROM s GROUP BY window(ts, '1 hour')")
    assert caught.value.code == "column.ambiguous"
    made = graph.add_sql("a", "SELECT window(ts, '1 h').end AS e FROM s GROUP BY window(ts, '1 h')")
    assert made["a"].schema.names == ("e",)


def test_a_query_of_another_graphs_source_is_refused() -> None:
    other = Graph()
    operator = operator_of(COUNT)
    with pytest.raises(ConfigError):
        other.add_query(Query(name="a", operator=operator, schema=operator.schema))


def test_hashes_do_not_depend_on_the_process() -> None:
    assert operator_of("SELECT kwh FROM readings WHERE n = 1").hash == (
        operator_of("SELECT kwh FROM readings WHERE 1 = n").hash
    )
    assert len(READINGS.hash) == 24
