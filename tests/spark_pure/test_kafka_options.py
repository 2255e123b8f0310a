"""What Spark's Kafka source is told: the options, and patience where the user says nothing."""

from __future__ import annotations

import pytest

from evenflow.model.schema import parse_schema
from evenflow.spark.source.kafka import kafka_options

GIVEN = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
PATIENCE = {
    "kafka.default.api.timeout.ms": "15000",
    "kafka.request.timeout.ms": "10000",
    "fetchOffset.numRetries": "1",
    "kafkaConsumer.pollTimeoutMs": "30000",
}


def told(schema: str = "id BIGINT", **options: str) -> dict[str, str]:
    return kafka_options(parse_schema(schema), {**GIVEN, **options})


def test_spark_waits_for_seconds_not_for_minutes() -> None:
    assert told() == {**GIVEN, **PATIENCE}


def test_headers_are_read_only_where_they_are_wanted() -> None:
    assert told("id BIGINT, _HEADERS STRING")["includeHeaders"] == "true"


def test_our_own_option_is_not_told() -> None:
    assert told("line STRING", Value="text") == told()


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("KAFKA.request.timeout.ms", ("kafka.default.api.timeout.ms", "kafka.request.timeout.ms")),
        ("fetchoffset.numRetries", ("fetchOffset.numRetries",)),
    ],
)
def test_what_the_user_gives_stays_and_takes_what_must_fit_it_along(
    name: str, gone: tuple[str, ...]
) -> None:
    left = {key: value for key, value in PATIENCE.items() if key not in gone}
    assert told(**{name: "7"}) == {**GIVEN, **left, name: "7"}
