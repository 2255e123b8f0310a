"""One Spark session per process, how tests are spread, and what is said of them at the end."""

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
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests run little data through much new code, which is not worth compiling well."""
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For the same reason Spark interprets its plans, unless a test wants code (`generate`)."""
_KAFKA = "tests/kafka/"
_ON_SPARK = ("tests/spark/", _KAFKA)
"""Where everything needs a JVM."""


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a JVM, and those that stay together with several processes.

    The tests of a file do, unless each of them stands alone; those with a broker all do.
    """
    for item in items:
        path = str(item.path)
        if any(folder in path for folder in _ON_SPARK):
            item.add_marker(pytest.mark.spark)
        if not getattr(getattr(item, "module", None), "EACH_ALONE", False):
            item.add_marker(pytest.mark.xdist_group(_KAFKA if _KAFKA in path else path))


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
