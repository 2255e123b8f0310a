"""A broker that goes away in the middle of a running flow, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.flow import Flow
from tests.spark.flows import MEMORY, counts, until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kafka.broker import Broker
    from tests.kafka.topics import Topics

IMPATIENT = {"kafka.default.api.timeout.ms": 3000, "kafka.request.timeout.ms": 2000}
PATIENT = 120.0
"""Seconds for a flow to come back: the pauses between its tries grow."""
SCHEMA = "id BIGINT, _timestamp TIMESTAMP"


def test_a_flow_says_so_goes_on_and_neither_loses_nor_repeats(
    spark: SparkSession, broker: Broker, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write_json(topic, [{"id": i} for i in range(10)])
    flow = Flow("test", tmp_path / "state")
    options = topics.source(topic, maxOffsetsPerTrigger=4, **IMPATIENT)
    flow.source("s", "kafka", options, SCHEMA, event_time="_timestamp", watermark="1 second")
    window = "window(_timestamp, '1 second')"
    flow.sql("p", "SELECT id FROM s", MEMORY, every=0.2)
    flow.sql("sums", f"SELECT {window} AS w, sum(id) AS n FROM s GROUP BY {window}", MEMORY)
    with flow.start(spark) as run:
        until(lambda: run.answers("p").num_rows == 10)
        try:
            broker.kill()
            until(lambda: run.status()["sources"]["s"]["state"] == "failing")
            source = run.status()["sources"]["s"]
            assert source["reason"]
            assert run.status()["running"]
        finally:
            broker.start()
        topics.write_json(topic, [{"id": i} for i in range(10, 20)])
        until(lambda: run.answers("p").num_rows == 20, PATIENT)
        until(lambda: run.status()["sources"]["s"]["state"] == "running", PATIENT)
        assert sorted(run.answers("p").column("id").to_pylist()) == list(range(20))
        until(lambda: counts(run.status(exact=True), "sums").get("in") == 20, PATIENT)
        run.pause_units()
        run.drain()
        assert sum(run.answers("sums").column("n").to_pylist()) == sum(range(20))
        status = run.stop()
    for query in ("p", "sums"):
        assert counts(status, query) == {"in": 20, "contributed": 20}
