"""Topics as sinks: values, keys, headers, ids, and a broker that is away."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from evenflow.model.query import Sink
from evenflow.spark.sink.kafka import ID, QUERY, KafkaSink
from tests.spark.flows import MEMORY, counts, flow_over, lay, row, run_all, until
from tests.spark.test_run import uncommit

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    import pytest
    from pyspark.sql import SparkSession

    from tests.kafka.topics import Record, Topics

SUMS = (
    "SELECT k, window(ts, '10 seconds') AS w, sum(x) AS x, count(*) AS n "
    "FROM s GROUP BY k, window(ts, '10 seconds')"
)


def sink_to(topics: Topics, topic: str, **more: str) -> Sink:
    """Return a sink that writes to a topic."""
    options = {"kafka.bootstrap.servers": topics.servers, "topic": topic, **more}
    return Sink("kafka", options=options)


def texts(records: list[Record]) -> list[str]:
    """Return the values of records in one order."""
    return sorted(r.value.decode() for r in records if r.value is not None)


def test_answers_are_the_lines_of_the_json_sink_with_keys_and_headers(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    """Two queries may share a topic; equal answers have ids of their own."""
    lay(tmp_path / "s", row(1, 1, "ä", x=0.5), row(2, 2, "b"), row(3, 3, None), row(3, 3, None))
    lay(tmp_path / "s", row(4, 4, "b", x=None), row(5, 30, "b"))
    flow = flow_over(tmp_path)
    json_sink = Sink("json", str(tmp_path / "out"))
    keyed = sink_to(topics, topic, key="K")
    flow.sql("p", "SELECT id, k, x, ts FROM s", [keyed, json_sink])
    flow.sql("sums", SUMS, [sink_to(topics, topic), MEMORY])
    found, status = run_all(spark, flow, drain=True)
    records = topics.read(topic)
    by_query: dict[str, list[Record]] = {}
    for record in records:
        by_query.setdefault(record.header(QUERY), []).append(record)
    lines = [line for f in (tmp_path / "out").glob("*") for line in f.read_text().splitlines()]
    assert texts(by_query["p"]) == sorted(lines)
    for record in by_query["p"]:
        assert (None if record.key is None else record.key.decode()) == record.json.get("k")
    assert sorted((r.json.get("k"), r.json["n"]) for r in by_query["sums"] if r.json.get("k")) == (
        sorted((r[0], r[3]) for r in found["sums"] if r[0])
    )
    assert all(record.key is None for record in by_query["sums"])
    assert len({record.header(ID) for record in records}) == len(records)
    assert status["queries"]["p"]["answers"] == len(by_query["p"]) == 6


def test_keys_that_are_no_text(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    lay(tmp_path / "s", row(7, 1))
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT id, ts FROM s", [sink_to(topics, topic, key=k) for k in ("id", "ts")])
    run_all(spark, flow)
    assert {r.key for r in topics.read(topic)} == {b"7", b"2026-01-05T12:00:01.000Z"}


def test_a_batch_that_is_done_again_gives_the_same_ids(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    for batch in range(3):
        rows = [row(i, 20 * batch + i % 10, "abc"[i % 3], x=0.1 * i) for i in range(60)]
        lay(tmp_path / "s", *rows)
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT k, n FROM s", sink_to(topics, topic))
    flow.sql("sums", SUMS, sink_to(topics, topic))
    run_all(spark, flow)
    first = [_said(record) for record in topics.read(topic)]
    uncommit(flow)
    run_all(spark, flow)
    both = [_said(record) for record in topics.read(topic)]
    assert len(both) > len(first) > 180
    assert set(both) == set(first)
    assert len({id_ for _, id_, _ in both}) == len(first)


def _said(record: Record) -> tuple[str, str, str]:
    value = record.json
    value.pop("x", None)
    return record.header(QUERY), record.header(ID), json.dumps(value, sort_keys=True)


def test_a_broker_that_is_away_takes_its_query_out_of_service_and_no_other(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    lay(tmp_path / "s", row(1, 1))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"127.0.0.1:{closed.getsockname()[1]}"
    away = {"kafka.bootstrap.servers": nowhere, "topic": topic, "kafka.max.block.ms": "1500"}
    flow = flow_over(tmp_path)
    flow.sql("lost", "SELECT id FROM s", Sink("kafka", options=away), every=0.1)
    flow.sql("near", "SELECT id FROM s", [sink_to(topics, topic), MEMORY], every=0.1)
    with flow.start(spark) as run:
        until(lambda: run.status()["queries"]["lost"]["state"] == "quarantined")
        until(lambda: run.answers("near").num_rows == 1)
        lay(tmp_path / "s", row(2, 2))
        until(lambda: run.answers("near").num_rows == 2)
        status = run.stop()
    assert topic in status["queries"]["lost"]["reason"]
    assert counts(status, "lost") == {"in": 2, "quarantined": 2}
    assert counts(status, "near") == {"in": 2, "contributed": 2}
    assert [r.json for r in topics.read(topic)] == [{"id": 1}, {"id": 2}]


def test_a_query_with_a_topic_can_come_while_a_flow_runs_and_after_a_restart(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    lay(tmp_path / "s", row(1, 1))
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT id FROM s", MEMORY, every=0.1)
    with flow.start(spark) as run:
        until(lambda: run.answers("p").num_rows == 1)
        run.subscribe("late", "SELECT id FROM s", sink_to(topics, topic))
        lay(tmp_path / "s", row(2, 2))
        until(lambda: run.status()["queries"]["late"]["answers"] == 1)
    lay(tmp_path / "s", row(3, 3))
    run_all(spark, flow)
    assert sorted(r.json["id"] for r in topics.read(topic)) == [2, 3]


def test_many_queries_on_the_same_servers_are_one_job_and_fail_each_by_itself(
    spark: SparkSession,
    topics: Topics,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them names a topic that no broker can have."""
    sent: list[int] = []
    send = KafkaSink.send

    def counted(self: KafkaSink, records: pa.Table) -> None:
        sent.append(records.num_rows)
        send(self, records)

    monkeypatch.setattr(KafkaSink, "send", counted)
    lay(tmp_path / "s", row(1, 1))
    flow = flow_over(tmp_path)
    quick = {"kafka.max.block.ms": "3000"}
    for i in range(4):
        flow.sql(f"p{i}", f"SELECT id, {i} AS i FROM s", sink_to(topics, topic, **quick))
    run_all(spark, flow)
    assert sent == [4]
    assert sorted(r.json["i"] for r in topics.read(topic)) == [0, 1, 2, 3]
    flow.sql("bad", "SELECT id FROM s", sink_to(topics, "not a topic", **quick))
    lay(tmp_path / "s", row(2, 2))
    _, status = run_all(spark, flow)
    states = {name: query["state"] for name, query in status["queries"].items()}
    assert states == {**{f"p{i}": "stopped" for i in range(4)}, "bad": "quarantined"}
    found = {(r.json["id"], r.json["i"]) for r in topics.read(topic)}
    assert found == {(id_, i) for id_ in (1, 2) for i in range(4)}
    assert len({r.header(ID) for r in topics.read(topic)}) == 8
