"""Topics as sources: values, the columns of records, offsets, limits, event time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenflow.flow import Flow
from evenflow.spark.run import Run
from evenflow.spark.state.rejected import read_rejected
from tests.kafka.topics import Record
from tests.spark.flows import MEMORY, counts, run_all, until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kafka.topics import Topics

RECORD = "_key STRING, _headers STRING, _topic STRING, _partition INT, _offset BIGINT"


def run_to_end(
    spark: SparkSession, flow: Flow, *, drain: bool = False
) -> tuple[list[dict[str, Any]], Run]:
    """Run what is there; return the answers of query q, and the run, which has stopped."""
    run = Run(flow.spec(), spark, flow.state)
    try:
        run.start(available_now=True).wait()
        run.pause_units()
        if drain:
            run.drain()
        found = run.answers("q").to_pylist()
    finally:
        run.stop()
    return found, run


def test_values_are_read_as_json_like_files_of_json(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    """Missing fields are NULL; of another type, or no JSON at all, and the record is rejected."""
    lines = [
        '{"id": 1, "at": {"x": 1.5}, "ts": "2026-01-05T12:00:00Z", "key": "own"}',
        '{"id": 2, "more": [1, 2]}',
        '{"id": "three", "at": {"x": 2}}',
        '{"ID": 4, "at": 4}',
        "no JSON",
        '{"id": 6',
    ]
    topics.write(topic, [Record(line.encode()) for line in lines])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.json").write_text("\n".join(lines))
    schema = "id BIGINT, at STRUCT<x: DOUBLE>, ts TIMESTAMP, key STRING"
    flow = topics.flow(tmp_path, topic, schema)
    flow.source("f", "json", {"path": str(tmp_path / "in")}, schema)
    for source in ("s", "f"):
        flow.sql(source + "q", f"SELECT id, at, ts, key FROM {source}", MEMORY)
    found, status = run_all(spark, flow)
    assert found["sq"] == found["fq"]
    assert found["sq"] == [(1, (1.5,), 0.0, "own"), (2, None, None, None)]
    expected = {"in": len(lines), "contributed": 2, "rejected": len(lines) - 2}
    assert counts(status, "sq") == counts(status, "fq") == expected
    reasons = {each["reason"] for each in read_rejected(flow.state)["sq"]}
    assert reasons
    assert reasons <= {f"does not fit the schema: {line}" for line in lines[2:]}


def test_columns_named_like_those_of_spark_are_those_of_the_json(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    row = {"key": "k", "value": "v", "offset": 70, "timestamp": "2026-01-05T12:00:00Z"}
    topics.write_json(topic, [row])
    schema = "key STRING, value STRING, offset BIGINT, timestamp TIMESTAMP"
    flow = topics.flow(tmp_path, topic, schema)
    flow.sql("q", "SELECT key, value, offset, timestamp FROM s", MEMORY)
    found, _ = run_all(spark, flow)
    assert found["q"] == [("k", "v", 70, 0.0)]


def test_text_and_all_that_kafka_knows_of_a_record(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    records = [
        Record(b"one", b"k1", (("trace", b"a"), ("trace", b"b"))),
        Record("zwölf".encode(), None, None, 1),
        Record(None, b"gone"),
        Record(b"\xff\xfe", b"\xff", (("bytes", b"\xff"),), 1),
        Record(b"", b""),
    ]
    topics.write(topic, records)
    flow = topics.flow(
        tmp_path, topic, f"line STRING, {RECORD}, _timestamp TIMESTAMP", value="text"
    )
    flow.sql(
        "q",
        "SELECT line, _key, _headers, _topic, _partition, _offset, _timestamp FROM s",
        MEMORY,
    )
    found, _ = run_to_end(spark, flow)
    by_place = {(row["_partition"], row["_offset"]): row for row in found}
    written = topics.read(topic)
    assert len(found) == len(written) == len(records)
    for record in written:
        row = by_place[record.partition, record.offset]
        assert row["line"] == _text(record.value)
        assert row["_key"] == _text(record.key)
        assert row["_topic"] == topic
        headers = None if row["_headers"] is None else json.loads(row["_headers"])
        assert headers == (
            [{"key": k, "value": _text(v)} for k, v in record.headers] if record.headers else None
        )
        assert record.timestamp is not None
        assert row["_timestamp"] == record.timestamp.astimezone(UTC)


def _text(bytes_: bytes | None) -> str | None:
    return None if bytes_ is None else bytes_.decode(errors="replace")


def test_columns_of_the_record_stand_beside_those_of_the_json(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, [Record(b'{"id": 1, "_key": "json"}', b"k")])
    flow = topics.flow(tmp_path, topic, "_offset BIGINT, id BIGINT, _KEY STRING")
    flow.sql("q", "SELECT id, _key, _offset FROM s", MEMORY)
    found, _ = run_all(spark, flow)
    assert found["q"] == [(1, "k", 0)]


def test_starting_offsets_limits_and_going_on(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write_json(topic, [{"id": i} for i in range(10)])
    start = json.dumps({topic: {"0": 4, "1": -2}})
    flow = topics.flow(tmp_path, topic, "id BIGINT", startingOffsets=start, maxOffsetsPerTrigger=2)
    flow.sql("q", "SELECT id FROM s", MEMORY)
    first, run = run_to_end(spark, flow)
    assert sorted(row["id"] for row in first) == [4, 5, 6, 7, 8, 9]
    (unit,) = run.runs
    sizes = [report.rows[0] for report in unit.pace.reports if report.rows[0]]
    assert sizes == [2, 2, 2]
    topics.write_json(topic, [{"id": i} for i in range(10, 13)])
    second, _ = run_to_end(spark, flow)
    assert sorted(row["id"] for row in second) == [10, 11, 12]


def test_windows_over_the_timestamp_of_records(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write_json(topic, [{"k": "ab"[i % 2], "n": i} for i in range(20)])
    topics.write_json(topic, [{"k": "c", "n": 1}])
    flow = Flow("test", tmp_path / "state")
    flow.source(
        "s",
        "kafka",
        topics.source(topic),
        "k STRING, n INT, _timestamp TIMESTAMP",
        event_time="_timestamp",
        watermark="1 second",
    )
    window = "window(_timestamp, '10 milliseconds')"
    sql = f"SELECT k, {window} AS w, sum(n) AS n, count(*) AS c FROM s GROUP BY k, {window}"
    flow.sql("q", sql, MEMORY)
    found, run = run_to_end(spark, flow, drain=True)
    expected: dict[tuple[str, datetime], list[int]] = {}
    for record in topics.read(topic):
        assert record.timestamp is not None
        at = record.timestamp.astimezone(UTC)
        start = at.replace(microsecond=at.microsecond // 10_000 * 10_000)
        expected.setdefault((record.json["k"], start), []).append(record.json["n"])
    assert {(r["k"], r["w"]["start"]): (r["n"], r["c"]) for r in found} == {
        place: (sum(values), len(values)) for place, values in expected.items()
    }
    assert counts(run.status(exact=True, running=False), "q") == {"in": 21, "contributed": 21}


def test_queries_come_while_a_topic_is_read(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    """One joins the unit that there is; one needs a unit of its own, which begins behind it."""
    topics.write_json(topic, [{"id": i, "t": 0} for i in range(5)])
    flow = Flow("test", tmp_path / "state")
    flow.source(
        "s",
        "kafka",
        topics.source(topic),
        "id BIGINT, t BIGINT, _timestamp TIMESTAMP",
        event_time="_timestamp",
        watermark="1 second",
    )
    flow.sql("q", "SELECT id FROM s", MEMORY, every=0.1)
    window = "window(_timestamp, '1 hour')"
    with flow.start(spark) as run:
        until(lambda: run.answers("q").num_rows == 5)
        run.subscribe("late", "SELECT id FROM s WHERE id >= 0", MEMORY)
        run.subscribe(
            "sums", f"SELECT {window} AS w, sum(id) AS n FROM s GROUP BY {window}", MEMORY
        )
        topics.write_json(topic, [{"id": i, "t": 1} for i in range(5, 8)])
        until(lambda: run.answers("late").num_rows == 3)
        until(lambda: counts(run.status(), "sums").get("in") == 3)
        assert sorted(run.answers("q").column("id").to_pylist()) == list(range(8))
        assert sorted(run.answers("late").column("id").to_pylist()) == [5, 6, 7]


def test_a_topic_can_be_a_table(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, [Record(b'{"name": "one"}', b"1"), Record(b'{"name": "two"}', b"2")])
    flow = Flow("test", tmp_path / "state")
    flow.source("s", data=[("2",), ("3",)], schema="k STRING")
    options = {"kafka.bootstrap.servers": topics.servers, "subscribe": topic}
    flow.table("names", "kafka", None, options, "_key STRING, name STRING")
    flow.sql("q", "SELECT s.k, n.name FROM s LEFT JOIN names n ON s.k = n._key", MEMORY)
    found, _ = run_all(spark, flow)
    assert found["q"] == [("2", "two"), ("3", None)]
