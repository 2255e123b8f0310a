"""`Flow`: sources, tables, queries and what a shell gets of them."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evenflow
from evenflow import Flow, OnError, Sink, col, count, fn, lit, sum_, when
from evenflow.errors import ConfigError, QueryError
from evenflow.model.operator import Apply
from evenflow.model.schema import parse_schema
from evenflow.model.sources import BUILTIN, builtin_schema, reader_identity

SCHEMA = "id BIGINT, meter STRING, ts TIMESTAMP, kwh DOUBLE"


def _flow() -> Flow:
    flow = Flow("f")
    flow.source("r", "json", {"path": "in"}, SCHEMA, event_time="ts", watermark="5 seconds")
    return flow


def test_every_public_name_can_be_had() -> None:
    for name in evenflow.__all__:
        assert getattr(evenflow, name) is not None
    assert dir(evenflow) == evenflow.__all__
    with pytest.raises(AttributeError):
        evenflow.nothing  # noqa: B018


def test_builder_and_sql_give_the_same_operators() -> None:
    flow = _flow()
    flow.sql(
        "a",
        "SELECT meter, window(ts, '1 hour') AS window, sum(kwh) AS kwh FROM r "
        "WHERE kwh > 0 GROUP BY meter, window(ts, '1 hour')",
    )
    flow.stream("r").where(col("kwh") > 0).window("1 hour").by("meter").agg(kwh=sum_("kwh")).query(
        "b"
    )
    assert flow.graph.queries["a"].operator.hash == flow.graph.queries["b"].operator.hash
    assert len(flow.units()) == 1


def test_the_spec_has_queries_readers_and_what_they_need() -> None:
    flow = _flow()
    flow.table("sites", "csv", "ref", {"header": True}, "meter STRING, kind STRING")
    flow.sql("q", "SELECT r.id, s.kind FROM r JOIN sites s ON r.meter = s.meter", weight=2.0)
    spec = flow.spec()
    assert (spec.name, [q.name for q in spec.queries]) == ("f", ["q"])
    assert spec.queries[0].weight == 2.0
    assert spec.readers["r"].format == "json"
    assert spec.readers["sites"].options == {"header": "true", "path": "ref"}
    assert [s.name for s in spec.sources()] == ["r"]
    assert [t.name for t in spec.tables()] == ["sites"]
    assert flow.state == Path(".evenflow/f")


def test_sinks_may_be_one_or_many() -> None:
    flow = _flow()
    one, two = Sink("console"), Sink("memory")
    assert flow.sql("a", "SELECT id FROM r", sink=one).sinks == (one,)
    assert flow.sql("b", "SELECT id FROM r", sink=[one, two]).sinks == (one, two)
    assert flow.sql("c", "SELECT id FROM r", sinks=(two,), sink=one).sinks == (two, one)
    assert flow.sql("d", "SELECT id FROM r", on_error=OnError.QUARANTINE).sinks == ()


def test_user_functions_come_with_their_arguments() -> None:
    def scaled(frame: list[int], factor: int, *, offset: int = 0) -> list[int]:
        return [value * factor + offset for value in frame]

    flow = _flow()
    stream = flow.stream("r")
    stream.apply(scaled, "id BIGINT", 2).query("a")
    stream.apply(scaled, "id BIGINT", 3, offset=1).query("b")
    spec = flow.spec()
    made = {}
    for query in spec.queries:
        assert isinstance(query.operator, Apply)
        made[query.name] = spec.applied(query.operator)([1, 2])
    assert made == {"a": [2, 4], "b": [4, 7]}


@pytest.mark.parametrize("format_", sorted(BUILTIN))
def test_sources_of_ours_have_columns_event_time_and_watermark(format_: str) -> None:
    flow = Flow("f")
    schema = SCHEMA if builtin_schema(format_, {}) is None else None
    stream = flow.source("s", format_, schema=schema)
    source = flow.graph.sources["s"]
    assert source.watermark_us == 10_000_000
    assert len(stream.schema) > 2
    if schema is None:
        assert source.event_time == "ts"


@pytest.mark.parametrize(
    ("watermark", "us"),
    [("0 seconds", 0), (0, 0), (1.5, 1_500_000), ("1 hour", 3_600_000_000), ("200ms", 200_000)],
)
def test_a_watermark_may_be_zero(watermark: str | float, us: int) -> None:
    flow = Flow("f")
    flow.source("r", "json", {}, SCHEMA, event_time="ts", watermark=watermark)
    assert flow.graph.sources["r"].watermark_us == us


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"format": "json", "data": []},
        {"format": "json"},
        {"data": [1]},
        {"format": "json", "schema": SCHEMA, "event_time": "ts"},
        {"format": "json", "schema": SCHEMA, "event_time": "kwh", "watermark": "1 second"},
        {"format": "json", "schema": SCHEMA, "event_time": "no", "watermark": "1 second"},
        {"format": "json", "schema": SCHEMA, "event_time": "ts", "watermark": "0 parsecs"},
        {"format": "json", "schema": SCHEMA, "event_time": "ts", "watermark": -1},
        {"format": "json", "schema": SCHEMA, "id": "meter"},
        {"format": "json", "schema": SCHEMA, "id": "nothing"},
        {"format": "meters", "schema": SCHEMA},
        {"format": "replay"},
    ],
)
def test_a_source_that_is_wrong_is_refused_and_leaves_nothing(arguments: dict[str, Any]) -> None:
    flow = Flow("f")
    with pytest.raises(ConfigError):
        flow.source("r", **arguments)
    assert flow.graph.sources == {}


def test_names_never_repeat() -> None:
    flow = _flow()
    with pytest.raises(QueryError) as caught:
        flow.table("R", "csv", "x", schema="a INT")
    assert caught.value.code == "name.duplicate"
    with pytest.raises(QueryError):
        flow.sql("r", "SELECT id FROM r")


def test_data_has_an_identity_of_its_own() -> None:
    flow, rows = Flow("f"), [(1, "m", None, 2.0)]
    flow.source("a", data=rows, schema=SCHEMA)
    flow.source("b", data=list(rows), schema=SCHEMA)
    flow.table("c", data=rows, schema=parse_schema(SCHEMA))
    identities = [flow.graph.sources["a"].identity, flow.graph.sources["b"].identity]
    assert identities == ["rows#0", "rows#1"]
    assert flow.graph.tables["c"].identity == "rows#0"


def test_a_frame_with_a_schema_needs_no_spark_to_be_described() -> None:
    flow = Flow("f")
    frame = SimpleNamespace(sparkSession=None)
    flow.source("a", data=frame, schema=SCHEMA)
    assert flow.graph.sources["a"].identity == "dataframe#0"


def test_equal_options_in_another_order_are_the_same_data() -> None:
    assert reader_identity("json", {"a": "1", "b": "2"}) == reader_identity(
        "json", {"b": "2", "a": "1"}
    )
    assert reader_identity("json", {"a": "1"}) != reader_identity("csv", {"a": "1"})


def test_a_flow_without_queries_or_with_shared_places_is_refused() -> None:
    flow = _flow()
    with pytest.raises(ConfigError):
        flow.spec()
    flow.sql("a", "SELECT id FROM r", sink=Sink("json", "out/x"))
    flow.sql("b", "SELECT id FROM r", sink=Sink("json", "out/x/"))
    with pytest.raises(ConfigError):
        flow.spec()


def test_expressions_are_there_for_the_builder() -> None:
    stream = _flow().stream("r")
    made = stream.select(
        "id", size=when(col("kwh") > lit(1), "big").otherwise("small"), up=fn.upper("meter")
    )
    assert made.schema.names == ("id", "size", "up")
    assert stream.window("1 hour").by("meter").agg(n=count()).schema.names == (
        "meter",
        "window",
        "n",
    )


@pytest.mark.parametrize("name", ["quickstart", "metering"])
def test_the_examples_are_right(name: str) -> None:
    flow = Flow.read(Path(__file__).parents[1] / "examples" / f"{name}.yaml")
    assert flow.name == name
    assert flow.spec().queries
    assert flow.graph.operators_shared() < flow.graph.operators_alone()


def test_the_example_of_the_builder_is_right() -> None:
    path = Path(__file__).parents[1] / "examples" / "builder.py"
    flow = runpy.run_path(str(path))["build"]("state")
    assert set(flow.graph.queries) == {"hourly", "busy", "classes", "over_limit"}


def _block(language: str) -> str:
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    return page.split(f"```{language}\n")[1].split("```")[0]


def test_the_flow_file_of_the_readme_is_right(tmp_path: Path) -> None:
    path = tmp_path / "metering.yaml"
    path.write_text(_block("yaml"), encoding="utf-8")
    assert set(Flow.read(path).graph.queries) == {"heavy"}


def test_the_builder_of_the_readme_is_right() -> None:
    names: dict[str, Any] = {}
    exec(_block("python").split("with flow.start")[0], names)
    spec = names["flow"].spec()
    assert {query.name for query in spec.queries} == {"heavy", "gaps"}


def test_a_table_of_rows_that_come_only_once_can_be_read_again() -> None:
    flow = Flow("tables")
    flow.table("t", data=iter([(1,), (2,)]), schema="id BIGINT")
    flow.source("s", "constant", {"rate": 1})
    flow.sql("q", "SELECT s.id FROM s JOIN t ON s.id = t.id")
    rows = flow.spec().readers["t"].data
    assert list(rows) == list(rows) == [(1,), (2,)]
