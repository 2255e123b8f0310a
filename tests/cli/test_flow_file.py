"""Flow files: what they give, and one error per fault with file, line, key and hint."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.architecture.tree import ROOT
from tests.cli.flows import GOOD, changed, write

from evenflow.cli.flow_file import read_flow
from evenflow.cli.flow_model import (
    FlowModel,
    QueryModel,
    SinkModel,
    SourceModel,
    TableModel,
    json_schema,
)
from evenflow.errors import ConfigError, EvenflowError, FileError, QueryError
from evenflow.model.query import OnError, Sink

if TYPE_CHECKING:
    from pathlib import Path


def _faults(directory: Path, text: str) -> tuple[EvenflowError, ...]:
    with pytest.raises(EvenflowError) as caught:
        read_flow(write(directory, text))
    return caught.value.faults if isinstance(caught.value, FileError) else (caught.value,)


def _fault(directory: Path, text: str) -> EvenflowError:
    (fault,) = _faults(directory, text)
    return fault


def test_a_flow_file_gives_its_flow(tmp_path: Path) -> None:
    flow = read_flow(write(tmp_path, GOOD))
    spec = flow.spec()
    assert flow.name == "metering"
    assert flow.state == tmp_path / ".evenflow/metering"
    assert set(flow.graph.sources) == {"readings"}
    assert set(flow.graph.tables) == {"sites"}
    heavy, positive = spec.queries
    assert (heavy.weight, heavy.floor, heavy.every, heavy.deadline) == (3.0, 0.2, 2.0, 5.0)
    assert heavy.on_error is OnError.QUARANTINE
    assert heavy.sinks == (Sink("parquet", str(tmp_path / "out/heavy")),)
    assert positive.sinks == (Sink("json", str(tmp_path / "out/positive")), Sink("console"))
    assert spec.readers["readings"].options == {"path": str(tmp_path / "in")}
    assert spec.readers["readings"].id == "id"
    assert spec.readers["sites"].options == {"path": str(tmp_path / "ref/sites")}


def test_paths_resolve_against_the_file_or_another_place_and_addresses_stay(tmp_path: Path) -> None:
    text = changed("options: {path: in}", "options: {path: 's3a://bucket/in', Path: x}")
    text = changed("flow: metering", "flow: metering\nstate: kept", text)
    text = changed("path: out/heavy", "path: /abs/heavy", text)
    flow = read_flow(write(tmp_path, text), base=tmp_path / "elsewhere")
    readers = flow.spec().readers
    assert flow.state == tmp_path / "elsewhere/kept"
    assert readers["readings"].options["path"] == "s3a://bucket/in"
    assert readers["readings"].options["Path"] == str(tmp_path / "elsewhere/x")
    assert flow.spec().queries[0].sinks[0].path == "/abs/heavy"


def test_options_become_the_text_that_spark_takes(tmp_path: Path) -> None:
    text = changed("{path: in}", "{path: in, maxFilesPerTrigger: 2, latestFirst: true, x: 1.5}")
    options = read_flow(write(tmp_path, text)).spec().readers["readings"].options
    assert options["maxFilesPerTrigger"] == "2"
    assert options["latestFirst"] == "true"
    assert options["x"] == "1.5"


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("weight: 3", "weigth: 3", 21, "queries.heavy.weigth"),
        ("    format: json\n", "", 4, "sources.readings.format"),
        ("flow: metering\n", "", None, "flow"),
        ("flow: metering", "flow: 7", 2, "flow"),
        ("flow: metering", "flow: a b", 2, "flow"),
        ("weight: 3", "weight: heavy", 21, "queries.heavy.weight"),
        ("weight: 3", "weight: '3'", 21, "queries.heavy.weight"),
        ("weight: 3", "weight: 0", 21, "queries.heavy.weight"),
        ("weight: 3", "weight: .inf", 21, "queries.heavy.weight"),
        ("weight: 3", "weight: .nan", 21, "queries.heavy.weight"),
        ("floor: 0.2", "floor: 1.5", 22, "queries.heavy.floor"),
        ("every: 2 seconds", "every: often", 23, "queries.heavy.every"),
        ("every: 2 seconds", "every: true", 23, "queries.heavy.every"),
        ("deadline: 5 seconds", "deadline: 0", 24, "queries.heavy.deadline"),
        ("on_error: quarantine", "on_error: stop", 25, "queries.heavy.on_error"),
        ("{format: parquet, path: out/heavy}", "out/heavy", 26, "queries.heavy.sink"),
        ("{format: parquet, path: out/heavy}", "{path: x}", 26, "queries.heavy.sink.format"),
        ("path: out/heavy}", "path: x, mode: y}", 26, "queries.heavy.sink.mode"),
        ("{format: console}", "{format: console, x: 1}", 31, "queries.positive.sinks[1].x"),
        ("{format: console}", "{format: tape}", 27, "queries.positive"),
        ("{format: console}", "{format: callback}", 27, "queries.positive"),
        ("{format: console}", "{format: csv}", 27, "queries.positive"),
        ("kwh DOUBLE", "kwh REAL", 7, "sources.readings.schema"),
        ("event_time: ts", "event_time: kwh", 4, "sources.readings"),
        ("    watermark: 10 seconds\n", "", 4, "sources.readings"),
        ("watermark: 10 seconds", "watermark: soon", 4, "sources.readings"),
        ("    id: id\n", "    id: meter\n", 4, "sources.readings"),
        ("options: {path: in}", "options: {path: [in]}", 6, "sources.readings.options.path"),
        ("options: {path: in}", "options: {at: 2026-01-01}", 6, "sources.readings.options.at"),
        ("    schema: meter STRING, kind STRING\n", "", 12, "tables.sites"),
        ("  sites:", "  Readings:", 12, "tables.Readings"),
        ("  sites:", "  2sites:", 12, "tables.2sites"),
        ("queries:", "conditions: {jump: {}}\nqueries:", 16, "conditions"),
        ("queries:", "extra: 1\nqueries:", 16, "extra"),
    ],
)
def test_a_fault_is_told_with_file_line_and_key(
    tmp_path: Path, old: str, new: str, line: int | None, key: str
) -> None:
    fault = _fault(tmp_path, changed(old, new))
    assert type(fault) is ConfigError
    place = str(tmp_path / "flow.yaml") + (f":{line}" if line is not None else "")
    assert fault.message.startswith(f"{place}: {key}: "), fault.message


def test_a_misspelt_key_is_recognised(tmp_path: Path) -> None:
    assert _fault(tmp_path, changed("weight: 3", "weigth: 3")).hint == "did you mean weight?"
    fault = _fault(tmp_path, changed("    event_time: ts", "    eventtime: ts"))
    assert fault.hint == "did you mean event_time?"


def test_conditions_are_said_to_be_missing_from_this_version(tmp_path: Path) -> None:
    fault = _fault(tmp_path, changed("queries:", "conditions: {}\nqueries:"))
    assert "not supported yet" in fault.message


def test_sink_and_sinks_together_are_refused(tmp_path: Path) -> None:
    fault = _fault(tmp_path, changed("    sinks:", "    sink: {format: console}\n    sinks:"))
    assert "queries.positive" in fault.message


def test_two_queries_do_not_write_to_one_place(tmp_path: Path) -> None:
    fault = _fault(tmp_path, changed("path: out/positive", "path: out/heavy/"))
    assert type(fault) is ConfigError
    assert "heavy" in fault.message
    assert "positive" in fault.message


@pytest.mark.parametrize("version", ["2", "'1'", "true", "null", "[1]"])
def test_an_unknown_version_is_refused_before_anything_else(tmp_path: Path, version: str) -> None:
    text = changed("evenflow: 1", f"evenflow: {version}", changed("weight: 3", "weigth: 3"))
    fault = _fault(tmp_path, text)
    assert "evenflow" in fault.message
    assert fault.hint is not None
    assert "version 1" in fault.hint


@pytest.mark.parametrize("text", ["", "[]", "hello", "flow: x"])
def test_another_kind_of_file_is_refused(tmp_path: Path, text: str) -> None:
    assert "not a flow file" in _fault(tmp_path, text).message


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    text = changed("weight: 3", "weigth: 3", changed("floor: 0.2", "floor: 2"))
    assert len(_faults(tmp_path, text)) == 2


def test_a_wrong_query_is_told_with_its_place(tmp_path: Path) -> None:
    fault = _fault(tmp_path, changed("SELECT id, meter, kwh", "SELECT id, metre, kwh"))
    assert isinstance(fault, QueryError)
    assert (fault.code, fault.query) == ("column.unknown", "positive")
    assert fault.place() == (1, 12)


def test_all_wrong_queries_are_told_but_not_those_that_only_read_them(tmp_path: Path) -> None:
    text = changed("SELECT id, meter, kwh FROM", "SELECT id, metre FROM")
    text = changed("HAVING sum(kwh) > 8", "HAVING sum(kw) > 8", text)
    text += "  reader: {sql: SELECT meter FROM Positive}\n  lost: {sql: SELECT x FROM nowhere}\n"
    faults = _faults(tmp_path, text)
    assert {f.query for f in faults if isinstance(f, QueryError)} == {"heavy", "positive", "lost"}
    assert len(faults) == 3


def test_queries_may_read_queries_that_stand_later(tmp_path: Path) -> None:
    text = GOOD.replace("queries:\n", "queries:\n  first: {sql: SELECT id FROM positive}\n")
    assert set(read_flow(write(tmp_path, text)).graph.queries) == {"first", "heavy", "positive"}


def test_a_source_of_ours_needs_no_schema(tmp_path: Path) -> None:
    text = """\
evenflow: 1
flow: f
sources:
  m: {format: meters}
queries:
  q: {sql: "SELECT district, window(ts, '1 minute') AS w, avg(voltage) AS v FROM m
            GROUP BY district, window(ts, '1 minute')"}
"""
    source = read_flow(write(tmp_path, text)).graph.sources["m"]
    assert (source.event_time, source.watermark_us) == ("ts", 10_000_000)
    fault = _fault(tmp_path, changed("{format: meters}", "{format: meters, schema: a INT}", text))
    assert "columns of its own" in fault.message


WRONG_OPTIONS = """\
rate: -5
rate: 0
surge: abc
surge_after: soon
disorder: 7
meters: 0
speed: 0
start: yesterday
max_rows_per_batch: 0
foo: 1
"""


@pytest.mark.parametrize("options", WRONG_OPTIONS.splitlines())
def test_options_of_a_source_of_ours_are_told_before_anything_runs(
    tmp_path: Path, options: str
) -> None:
    text = f"""\
evenflow: 1
flow: f
sources:
  m: {{format: meters, options: {{{options}}}}}
queries:
  q: {{sql: "SELECT id FROM m"}}
"""
    fault = _fault(tmp_path, text)
    assert "sources.m" in str(fault)
    assert options.partition(":")[0] in fault.message


# --- model, schema and docs -----------------------------------------------------------------------


def test_the_published_schema_is_the_model() -> None:
    published = json.loads((ROOT / "docs/flow-file.schema.json").read_text(encoding="utf-8"))
    assert published == json_schema(), "run: evenflow schema > docs/flow-file.schema.json"


@pytest.mark.parametrize(
    ("section", "model"),
    [
        ("Top level", FlowModel),
        ("Sources", SourceModel),
        ("Tables", TableModel),
        ("Queries", QueryModel),
        ("Sinks", SinkModel),
    ],
)
def test_the_docs_have_the_keys_of_the_model(
    section: str, model: type[FlowModel | SourceModel | TableModel | QueryModel | SinkModel]
) -> None:
    page = (ROOT / "docs/flow-file.md").read_text(encoding="utf-8")
    table = page.split(f"\n## {section}\n")[1].strip().split("\n\n")[0]
    documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert documented == [field.alias or name for name, field in model.model_fields.items()]


def test_the_example_in_the_docs_is_right(tmp_path: Path) -> None:
    page = (ROOT / "docs/flow-file.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    text = changed(
        "{format: parquet, path: ref/sites}", "{format: csv, schema: meter STRING}", example
    )
    assert set(read_flow(write(tmp_path, text)).graph.queries) == {"heavy"}
