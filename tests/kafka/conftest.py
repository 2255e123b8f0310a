"""A broker for all tests of this folder, and a way to write to it and read from it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.kafka.broker import Broker
from tests.kafka.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs until all tests are done."""
    made = Broker(tmp_path_factory.mktemp("broker") / "data")
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def topics(spark: SparkSession, broker: Broker) -> Topics:
    """The broker's topics, over Spark's batch reader and writer."""
    return Topics(spark, broker.servers)


@pytest.fixture
def topic() -> str:
    """The name of a topic that is not there yet."""
    return f"t{uuid.uuid4().hex[:12]}"
