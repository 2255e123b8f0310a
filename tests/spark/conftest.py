"""One Spark session for all tests of this folder, on the master that EVENFLOW_MASTER names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests run little data through much new code, which is not worth compiling well."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a JVM."""
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of ours."""
    from evenflow.spark.session import make_session

    session = make_session(
        "evenflow tests",
        os.environ.get("EVENFLOW_MASTER"),
        settings={"spark.driver.extraJavaOptions": QUICK_JVM},
    )
    yield session
    session.stop()
