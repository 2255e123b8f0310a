"""One Spark session for all tests in this process, on the master that EVENFLOW_MASTER names."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests run little data through much new code, which is not worth compiling well."""
_FOLDERS = ("tests/spark/", "tests/kafka/")
"""Where everything needs a JVM."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a JVM."""
    for item in items:
        if any(folder in str(item.path) for folder in _FOLDERS):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session of ours, with the Kafka connector if a test is going to need it."""
    from evenflow.spark.connector import fetch_kafka
    from evenflow.spark.session import make_session

    if any("tests/kafka/" in str(item.path) for item in request.session.items):
        fetch_kafka(lambda step: print(step, file=sys.stderr))
    session = make_session(
        "evenflow tests",
        os.environ.get("EVENFLOW_MASTER"),
        settings={"spark.driver.extraJavaOptions": QUICK_JVM},
    )
    yield session
    session.stop()
