"""Jars that Spark's wheel does not have: fetched by its own Ivy, kept in the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import EnvironmentFaultError
from evenflow.spark.java import use_java

if TYPE_CHECKING:
    from collections.abc import Callable

KAFKA = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    # The token provider of 4.2.0 is missing on some mirrors; this one does.
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
"""Group, name and version of the jars that reading and writing Kafka needs."""
NO_CONNECTOR = "Spark has no Kafka connector: its jars are missing"
CONNECTOR_HINT = "fetch them with evenflow setup kafka, or give Spark its jars in spark.jars"
_SECONDS = 300


def kept_folder() -> Path:
    """Return where `evenflow setup` keeps things: in the environment it is installed in."""
    return Path(sys.prefix) / "share" / "evenflow"


def jars_folder() -> Path:
    """Return where jars are kept."""
    return kept_folder() / "jars"


def kafka_jars() -> list[Path]:
    """Return the jars of the Kafka connector, an empty list unless all are there."""
    found = [jars_folder() / f"{name}-{version}.jar" for _, name, version in KAFKA]
    return found if all(jar.exists() for jar in found) else []


def fetch_kafka(on_step: Callable[[str], None]) -> list[Path]:
    """Fetch what is missing of the Kafka connector, and return its jars.

    Raises:
        EnvironmentFaultError: A jar cannot be fetched.
    """
    for group, name, version in KAFKA:
        target = jars_folder() / f"{name}-{version}.jar"
        if not target.exists():
            on_step(f"fetching {name} {version}")
            fetch(group, name, version, jars_folder())
        if not target.exists():
            raise EnvironmentFaultError(f"{name} {version} could not be fetched")
    return kafka_jars()


def fetch(group: str, name: str, version: str, folder: Path, *, transitive: bool = False) -> None:
    """Fetch a jar, with all that it needs if `transitive`, into a folder.

    Raises:
        EnvironmentFaultError: It cannot be fetched.
    """
    java = use_java()
    with tempfile.TemporaryDirectory(prefix="evenflow-ivy-") as scratch:
        command = [
            str(java / "bin" / "java"),
            *("-jar", str(_ivy()), "-cache", f"{scratch}/cache", "-confs", "default"),
            *(() if transitive else ("-notransitive",)),
            *("-dependency", group, name, version),
            *("-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise EnvironmentFaultError(f"{name} {version} could not be fetched in time") from exc
        if done.returncode != 0:
            lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
            said = next((line for line in lines if "not found" in line or "ERROR" in line), "")
            raise EnvironmentFaultError(
                f"{name} {version} could not be fetched: {said[:200] or 'Ivy failed'}",
                "check the network, or put the jar into " + str(folder),
            )
        folder.mkdir(parents=True, exist_ok=True)
        for jar in Path(scratch, "jars").glob("*.jar"):
            beside = folder / f"_{jar.name}.{os.getpid()}"
            shutil.copyfile(jar, beside)
            beside.replace(folder / jar.name)


def _ivy() -> Path:
    spec = find_spec("pyspark")
    folder = Path(str(spec.origin)).parent / "jars" if spec is not None else Path()
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise EnvironmentFaultError("PySpark's Ivy is missing", "install pyspark from its wheel")
    return found[-1]
