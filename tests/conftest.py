"""One Spark session per process, and what is said of random cases at the end."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.terminal import TerminalReporter
    from pyspark.sql import SparkSession

TALLY = "tally"
"""A test records under this name what it is one of; the end of a run says how many there were."""
COMPILED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""Tests run little data through much new code, which is not worth compiling well. What is compiled
needs more room than such a JVM has by default: without it nothing is compiled after a minute."""
QUICK_JVM = f"{COMPILED} -XX:+UseSerialGC"
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For the same reason Spark interprets its plans, unless a test wants code (`generate`)."""
# The same for processes that tests start. (A folder of Spark's settings would be on their class
# path, for which no archive of classes holds.)
_SETTINGS = " ".join(f"-D{name}={value}" for name, value in INTERPRETED.items())
os.environ.setdefault("JDK_JAVA_OPTIONS", f"{COMPILED} {_SETTINGS}")
_KAFKA = "tests/kafka/"
_ON_SPARK = ("tests/spark/", _KAFKA)
"""Where everything needs a JVM."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that needs a JVM."""
    if any(folder in str(item.path) for folder in _ON_SPARK):
        item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session of ours, with the Kafka connector if a test is going to need it."""
    from evenflow.spark.connector import fetch_kafka
    from evenflow.spark.session import make_session

    if any(_KAFKA in str(item.path) for item in request.session.items):
        fetch_kafka(lambda step: print(step, file=sys.stderr))
    session = make_session(
        "evenflow tests",
        os.environ.get("EVENFLOW_MASTER"),
        settings={"spark.driver.extraJavaOptions": QUICK_JVM, **INTERPRETED},
    )
    yield session
    session.stop()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say how many random cases passed."""
    passed = Counter(
        value
        for report in terminalreporter.stats.get("passed", ())
        for name, value in report.user_properties
        if name == TALLY
    )
    for what, count in sorted(passed.items()):
        terminalreporter.write_line(f"{count} {what} passed")
