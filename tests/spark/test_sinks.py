"""Sinks: what is written is there once, whole, and readable by other tools."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from evenflow.errors import ConfigError, SinkError
from evenflow.graph.graph import Graph
from evenflow.model.operator import Source
from evenflow.model.query import Query, Sink
from evenflow.model.schema import parse_schema
from evenflow.spark.compile.types import struct, to_arrow
from evenflow.spark.session import own_session
from evenflow.spark.sink.files import write_file
from evenflow.spark.sink.sinks import FileSink, MemorySink, open_sinks
from tests.spark.flows import MEMORY, flow_over, lay, row, run_all

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = (
    "id BIGINT, flag BOOLEAN, tiny TINYINT, x DOUBLE, money DECIMAL(38,10), name STRING, day DATE, "
    "at TIMESTAMP, place STRUCT<city: STRING, since: TIMESTAMP, share: DECIMAL(5,2)>"
)
PLAIN = parse_schema(SCHEMA.partition(", place")[0])
MOMENT = datetime(2026, 1, 5, 12, 0, 0, 123_456, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "id": 2**63 - 1,
        "flag": True,
        "tiny": -128,
        "x": 0.1,
        "money": Decimal("1234567890123456789012345678.0123456789"),
        "name": 'Zoë said "日本, ok"',
        "day": date(2026, 2, 28),
        "at": MOMENT,
        "place": {"city": "Bern", "since": MOMENT, "share": Decimal("0.10")},
    },
    {
        "id": -1,
        "flag": False,
        "tiny": 0,
        "x": math.nan,
        "money": Decimal("-0.0000000001"),
        "name": "",
        "day": date(1969, 12, 31),
        "at": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        "place": {"city": None, "since": None, "share": None},
    },
    {"id": 3, "x": math.inf, "name": "a\\b"},
    {"id": 4, "x": -math.inf, "name": "  blank  "},
    {"id": 5, "x": 1e300},
]


def query_of(schema: str = SCHEMA, name: str = "q", *sinks: Sink) -> Query:
    graph = Graph("sinks")
    graph.add_source(Source("s", parse_schema(schema), None, 0, "rows"))
    return graph.add_sql(name, "SELECT * FROM s", sinks=sinks)[name]


def table_of(names: tuple[str, ...] | None = None) -> pa.Table:
    fields = [f for f in parse_schema(SCHEMA) if names is None or f.name in names]
    schema = pa.schema([pa.field(f.name, to_arrow(f.type)) for f in fields])
    rows = [{n: r.get(n) for n in schema.names} for r in ROWS]
    return pa.Table.from_pylist(rows, schema=schema)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


def differences(found: list[dict[str, Any]], names: tuple[str, ...]) -> list[Any]:
    wanted = [{name: row.get(name) for name in names} for row in ROWS]
    assert len(found) == len(wanted)
    return [
        (name, a[name], b[name])
        for a, b in zip(found, wanted, strict=True)
        for name in names
        if not same(a[name], b[name])
    ]


# Formats.


def test_parquet_keeps_names_types_and_values(tmp_path: Path) -> None:
    write_file(table_of(), "parquet", tmp_path / "a.parquet")
    back = pa.parquet.read_table(tmp_path / "a.parquet")
    assert back.schema.names == list(parse_schema(SCHEMA).names)
    assert back.schema.types == table_of().schema.types
    assert not differences(back.to_pylist(), parse_schema(SCHEMA).names)
    frame = pd.read_parquet(tmp_path / "a.parquet")
    assert frame["money"][0] == ROWS[0]["money"]
    assert frame["at"][0] == pd.Timestamp(MOMENT)


def test_json_is_json(tmp_path: Path) -> None:
    write_file(table_of(), "json", tmp_path / "a.json")
    lines = (tmp_path / "a.json").read_text(encoding="utf-8").splitlines()

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    rows = [json.loads(x, parse_float=Decimal, parse_constant=refuse) for x in lines]
    assert rows[0] == {
        "id": 2**63 - 1,
        "flag": True,
        "tiny": -128,
        "x": Decimal("0.1"),
        "money": ROWS[0]["money"],
        "name": ROWS[0]["name"],
        "day": "2026-02-28",
        "at": "2026-01-05T12:00:00.123456Z",
        "place": {"city": "Bern", "since": "2026-01-05T12:00:00.123456Z", "share": Decimal("0.10")},
    }
    assert rows[1]["money"] == Decimal("-0.0000000001")
    assert rows[1]["at"] == "1969-12-31T23:59:59.000Z"
    assert [row["x"] for row in rows[1:4]] == ["NaN", "Infinity", "-Infinity"]
    assert rows[4] == {"id": 5, "x": Decimal("1e300")}
    assert "日本" in lines[0]


def test_csv_is_csv(tmp_path: Path) -> None:
    names = PLAIN.names
    write_file(table_of(names), "csv", tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(names)
    assert rows[0]["name"] == ROWS[0]["name"]
    assert Decimal(rows[0]["money"]) == ROWS[0]["money"]
    assert Decimal(rows[1]["money"]) == Decimal("-0.0000000001")
    assert rows[0]["at"] == "2026-01-05T12:00:00.123456Z"
    assert [row["x"] for row in rows] == ["0.1", "NaN", "Inf", "-Inf", "1e+300"]
    frame = pd.read_csv(tmp_path / "a.csv", parse_dates=["at"])
    assert frame["at"][0] == pd.Timestamp(MOMENT)
    assert frame["x"][2] == math.inf
    assert frame["id"].tolist() == [row["id"] for row in ROWS]


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_spark_reads_what_is_written(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    schema = PLAIN if format_ == "csv" else parse_schema(SCHEMA)
    write_file(table_of(schema.names), format_, tmp_path / "out" / f"a.{format_}")
    reader = own_session(spark).read.schema(struct(schema)).format(format_)
    if format_ == "csv":
        reader = reader.options(header=True, escape='"')
    if format_ == "parquet":
        found = own_session(spark).read.parquet(str(tmp_path / "out"))
        assert found.schema == struct(schema)
    rows = reader.load(str(tmp_path / "out")).toArrow().to_pylist()
    order = {row["id"]: i for i, row in enumerate(ROWS)}
    rows.sort(key=lambda row: order[row["id"]])
    # An empty text in quotes and NULL are told apart by others; Spark's reader of csv does not.
    wanted = [("name", None, "")] if format_ == "csv" else []
    assert differences(rows, schema.names) == wanted


# Files.


def test_files_are_named_by_unit_and_batch(tmp_path: Path) -> None:
    sink = FileSink(Sink("json", str(tmp_path)), query_of(), "5f3a")
    names = {sink.target("u1", 7, "").name, sink.target("u2", 7, "").name}
    assert names == {"q-5f3a-u1-000000007.json", "q-5f3a-u2-000000007.json"}
    for batch in (7, 8):
        sink.write(table_of(), "u1", batch)
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "q-5f3a-u1-000000007.json",
        "q-5f3a-u1-000000008.json",
    ]


def test_a_batch_written_twice_is_one_file(tmp_path: Path) -> None:
    sink = FileSink(Sink("parquet", str(tmp_path / "new" / "folder")), query_of(), "5f3a")
    for _ in range(2):
        sink.write(table_of(), "u1", 3)
    (file,) = (tmp_path / "new" / "folder").iterdir()
    assert pa.parquet.read_table(file).num_rows == len(ROWS)


def test_a_failed_write_leaves_nothing_and_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(Sink("json", str(tmp_path)), query_of(), "5f3a")
    sink.write(table_of(), "u1", 1)
    seen: list[list[str]] = []

    def full(table: pa.Table, path: Path) -> None:
        path.write_text("half of")
        seen.append([p.name for p in tmp_path.iterdir()])
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(write_file.__globals__["_WRITERS"], "json", full)
    with pytest.raises(SinkError):
        sink.write(table_of(), "u1", 1)
    assert all(name.startswith("_") or name.endswith(".json") for name in seen[0])
    (file,) = tmp_path.iterdir()
    assert len(file.read_text().splitlines()) == len(ROWS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_a_sink_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SinkError):
        FileSink(Sink("json", str(tmp_path / "x")), query_of(), "1").write(table_of(), "u1", 1)


def test_a_file_in_the_place_of_the_folder_is_a_sink_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(SinkError):
        FileSink(Sink("json", str(tmp_path / "x")), query_of(), "1").write(table_of(), "u1", 1)


def test_csv_refuses_structs() -> None:
    with pytest.raises(ConfigError) as caught:
        open_sinks(query_of(SCHEMA, "q", Sink("csv", "out")), "1")
    assert "place" in str(caught.value)
    assert caught.value.hint is not None
    assert open_sinks(query_of("id BIGINT, name STRING", "q", Sink("csv", "out")), "1")


# Others.


def test_memory_keeps_each_batch_once() -> None:
    sink = MemorySink(query_of())
    assert sink.table().num_rows == 0
    assert sink.table().schema.names == list(parse_schema(SCHEMA).names)
    for batch in (1, 0, 1):
        sink.write(table_of().slice(0, 1 + batch), "u1", batch)
    assert sink.table().column("id").to_pylist() == [2**63 - 1, 2**63 - 1, -1]


def test_console_prints_the_first_rows(capsys: pytest.CaptureFixture[str]) -> None:
    (sink,) = open_sinks(query_of("id BIGINT, name STRING", "q", Sink("console")), "1")
    table = pa.table({"id": list(range(25)), "name": ["é"] + [None] * 24})
    sink.write(table, "u1", 4)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "-- q, batch 4: 25 answers"
    assert lines[1] == "  id=0, name=é"
    assert lines[-1] == "  ... 5 more"
    assert len(lines) == 22


def test_callbacks_get_batch_and_answers() -> None:
    seen: list[tuple[int, int]] = []
    call = Sink("callback", function=lambda batch, answers: seen.append((batch, answers.num_rows)))
    (sink,) = open_sinks(query_of(SCHEMA, "q", call), "1")
    sink.write(table_of(), "u1", 9)
    assert seen == [(9, len(ROWS))]


def test_all_sinks_of_a_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay(tmp_path / "s", row(1, 1.000001, "é", x=math.nan), row(2, 2, None, x=None))
    lay(tmp_path / "s", row(3, 3, "", x=0.1))
    lay(tmp_path / "s", row(4, 40, "late", n=None))
    seen: list[int] = []
    flow = flow_over(tmp_path)
    out = tmp_path / "out"
    files = [Sink(f, str(out / f)) for f in ("parquet", "json")]
    call = Sink("callback", function=lambda batch, _: seen.append(batch))
    flow.sql("p", "SELECT id, ts, k, x FROM s WHERE id <> 3", [MEMORY, *files, call])
    flow.sql("c", "SELECT id, ts, k, x FROM s WHERE id <> 3", Sink("csv", str(out / "csv")))
    flow.sql("none", "SELECT id FROM s WHERE id > 99", Sink("json", str(out / "none")))
    flow.sql(
        "w",
        "SELECT window AS w, k, cast(sum(n) AS DECIMAL(10,2)) AS m, max(ts) AS last FROM s "
        "GROUP BY k, window(ts, '10 seconds')",
        [MEMORY, Sink("parquet", str(out / "w")), Sink("console")],
    )
    answers, _ = run_all(spark, flow)
    for format_ in ("parquet", "json", "csv"):
        names = sorted(f.name for f in (out / format_).iterdir())
        assert len(names) == 2, names
        # By unit and batch; on a cluster the writing task follows.
        assert [re.search(r"-u\d+-(\d{9})", name).group(1) for name in names] == [  # type: ignore[union-attr]
            "000000000",
            "000000002",
        ]
    assert seen == [0, 2]
    assert not (out / "none").exists() or not list((out / "none").iterdir())
    (file,) = (out / "w").iterdir()
    table = pa.parquet.read_table(file)
    assert table.schema.types == [
        pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))]),
        pa.string(),
        pa.decimal128(10, 2),
        pa.timestamp("us", "UTC"),
    ]
    assert answers["w"] == [
        ((0.0, 10.0), "", Decimal("1.00"), 3.0),
        ((0.0, 10.0), "é", Decimal("1.00"), 1.000001),
        ((0.0, 10.0), None, Decimal("1.00"), 2.0),
    ]
    session = own_session(spark)
    fields = struct(parse_schema("id BIGINT, ts TIMESTAMP, k STRING, x DOUBLE"))
    for format_ in ("parquet", "json", "csv"):
        reader = session.read.schema(fields).option("header", True).format(format_)
        rows = sorted(reader.load(str(out / format_)).toArrow().to_pylist(), key=lambda r: r["id"])
        assert [r["k"] for r in rows] == ["é", None, "late"]
        assert rows[0]["ts"].microsecond == 1
        assert math.isnan(rows[0]["x"])
        assert rows[1]["x"] is None
    assert "-- w, batch" in capsys.readouterr().out
