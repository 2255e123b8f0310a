"""What a flow may say about Kafka, found wrong without Spark."""

from __future__ import annotations

import pytest

from evenflow.errors import ConfigError
from evenflow.flow import Flow
from evenflow.model.query import Sink

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**SERVERS, "subscribe": "readings"}
ALL = (
    "id BIGINT, _key STRING, _headers STRING, _topic STRING, _partition INT, _offset BIGINT, "
    "_timestamp TIMESTAMP"
)


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        (TOPIC, ALL),
        ({**SERVERS, "subscribepattern": "a.*"}, "id BIGINT"),
        ({"Kafka.Bootstrap.Servers": "a:1", "assign": '{"t": [0]}'}, "_OFFSET BIGINT"),
        ({**TOPIC, "value": "text"}, "line STRING, _key STRING"),
        ({**TOPIC, "value": "JSON"}, "key STRING, value STRING"),
        ({**TOPIC, "startingOffsets": "earliest"}, "id BIGINT"),
        ({**TOPIC, "startingOffsets": '{"readings": {"0": 5}}'}, "id BIGINT"),
        ({**TOPIC, "maxOffsetsPerTrigger": "100"}, "id BIGINT"),
    ],
)
def test_a_source_that_is_right(options: dict[str, str], schema: str) -> None:
    Flow("f").source("s", "kafka", options, schema)


@pytest.mark.parametrize(
    ("options", "schema", "said"),
    [
        ({"subscribe": "readings"}, "id BIGINT", "kafka.bootstrap.servers"),
        ({**TOPIC, "kafka.bootstrap.servers": ""}, "id BIGINT", "kafka.bootstrap.servers"),
        (SERVERS, "id BIGINT", "subscribe"),
        ({**TOPIC, "assign": '{"t": [0]}'}, "id BIGINT", "one of"),
        (TOPIC, "_offset INT", "_offset is BIGINT"),
        (TOPIC, "_Key BIGINT", "_Key is STRING"),
        ({**TOPIC, "value": "avro"}, "id BIGINT", "avro"),
        ({**TOPIC, "value": "text"}, "id BIGINT", "STRING"),
        ({**TOPIC, "value": "text"}, "a STRING, b STRING", "STRING"),
        ({**TOPIC, "value": "text"}, "_key STRING", "STRING"),
        ({**TOPIC, "startingOffsets": "soon"}, "id BIGINT", "soon"),
        ({**TOPIC, "startingOffsets": "[1]"}, "id BIGINT", "startingOffsets"),
        ({**TOPIC, "maxOffsetsPerTrigger": "few"}, "id BIGINT", "few"),
        ({**TOPIC, "maxOffsetsPerTrigger": "0"}, "id BIGINT", "above 0"),
    ],
)
def test_a_source_that_is_wrong(options: dict[str, str], schema: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Flow("f").source("s", "kafka", options, schema)
    assert caught.value.message.startswith("source s: ")
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("options", "said"),
    [({"topic": "t"}, "kafka.bootstrap.servers"), (SERVERS, "topic"), ({}, "kafka")],
)
def test_a_sink_that_is_wrong(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Sink("kafka", options=options)
    assert said in caught.value.message
    assert caught.value.hint is not None


def test_a_sink_has_a_topic_and_no_path() -> None:
    with pytest.raises(ConfigError, match="no path"):
        Sink("kafka", "out", {**SERVERS, "topic": "t"})


def test_the_key_of_a_sink_is_a_column_of_the_query() -> None:
    flow = Flow("f")
    flow.source("s", "kafka", TOPIC, "id BIGINT")
    flow.sql("q", "SELECT id AS Number FROM s", _sink("number"))
    with pytest.raises(ConfigError) as caught:
        flow.sql("r", "SELECT id FROM s", _sink("number"))
    assert "number" in caught.value.message


def _sink(key: str) -> Sink:
    return Sink("kafka", options={**SERVERS, "topic": "t", "key": key})
