"""Kafka from the command line: the comparison, and connector jars that are not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from evenflow.flow import Flow
from evenflow.spark.compare import compare_flow
from tests.architecture.tree import ROOT
from tests.kafka.topics import Record
from tests.spark.flows import run_all

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kafka.topics import Topics

FLOW = """\
evenflow: 1
flow: metering
sources:
  readings:
    format: kafka
    options: {kafka.bootstrap.servers: 'localhost:1', subscribe: readings}
    schema: id BIGINT
queries:
  q:
    sql: SELECT id FROM readings
    sink: {format: console}
"""
TOPIC = "kafka.bootstrap.servers: 'localhost:1', subscribe: readings"
SINK = "{format: kafka, options: {kafka.bootstrap.servers: 'localhost:1', topic: out}}"
TWICE = """\
import sys
sys.prefix = sys.argv[1]
from evenflow.cli.main import main
for flow in sys.argv[2:]:
    sys.argv = ["evenflow", "run", flow, "--available-now"]
    try:
        main()
    except SystemExit as exc:
        print(exc.code)
"""
"""Runs flows in an environment that has no jars: they are not the machine's."""


def test_compare_records_topics_first(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    """From their beginning, where the flow does not say where to start."""
    rows = [{"k": "abc"[i % 3], "x": i / 4} for i in range(600)]
    topics.write(
        topic, [Record(json.dumps(r).encode(), partition=i % 2) for i, r in enumerate(rows)]
    )
    flow = Flow("test", tmp_path / "state")
    flow.source(
        "s",
        "kafka",
        {"kafka.bootstrap.servers": topics.servers, "subscribe": topic},
        "k STRING, x DOUBLE, _offset BIGINT, _timestamp TIMESTAMP",
        event_time="_timestamp",
        watermark="1 second",
    )
    window = "window(_timestamp, '1 second')"
    flow.sql("p", "SELECT k, _offset FROM s WHERE x > 10")
    flow.sql("sums", f"SELECT k, {window} AS w, sum(x) AS x FROM s GROUP BY k, {window}")
    result = compare_flow(flow.spec(), rows=500, session=spark)
    assert result["equal"], result["differences"]
    assert result["rows"] == 500


def test_the_example_answers_into_its_topics(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    text = (ROOT / "examples" / "kafka.yaml").read_text()
    for name in ("subscribe: readings", "topic: load", "topic: high"):
        text = text.replace(name, f"{name}-{topic}")
    (tmp_path / "kafka.yaml").write_text(text.replace("localhost:9092", topics.servers))
    rows = [{"district": "ab"[i % 2], "kwh": i / 2} for i in range(20)]
    records = [Record(json.dumps(r).encode(), f"m{i}".encode()) for i, r in enumerate(rows)]
    topics.write(f"readings-{topic}", records)
    run_all(spark, Flow.read(tmp_path / "kafka.yaml"), drain=True)
    load = topics.read(f"load-{topic}")
    assert sum(r.json["kwh"] for r in load) == sum(i / 2 for i in range(20))
    assert {r.key.decode() for r in load if r.key is not None} == {"a", "b"}
    assert sorted(r.json["meter"] for r in topics.read(f"high-{topic}")) == ["m17", "m18", "m19"]


def test_without_the_jars_of_the_connector_flows_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    reading = tmp_path / "reading.yaml"
    reading.write_text(FLOW)
    writing = tmp_path / "writing.yaml"
    text = FLOW.replace("kafka", "json", 1).replace(TOPIC, "path: in").replace("metering", "other")
    writing.write_text(text.replace("{format: console}", SINK))
    command = [sys.executable, "-c", TWICE, str(tmp_path / "bare"), str(reading), str(writing)]
    path = os.pathsep.join(each for each in sys.path if each)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.split() == ["2", "2"], done.stderr
    lines = [line for line in done.stderr.splitlines() if "error[" in line or "hint: " in line]
    (source, first), (sink, second) = lines[:2], lines[2:]
    assert source.startswith("error[config.invalid]: source readings: Spark has no Kafka connector")
    assert sink.startswith("error[config.invalid]: query q: Spark has no Kafka connector")
    assert "evenflow setup kafka" in first
    assert first == second
