"""What is registered with a session, and what Spark does to it: no JVM."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyspark

from evenflow.spark.source.generator_source import SET_BY_SPARK, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNER = "org/apache/spark/sql/execution/python/streaming/PythonStreamingSourceRunner.class"


def test_streams_that_start_at_once_add_nothing_to_the_environment_they_share() -> None:
    seen: list[dict[str, str]] = []
    context = SimpleNamespace(environment={"OWN": "1", "SPARK_BUFFER_SIZE": "7"})
    source = SimpleNamespace(register=lambda _: seen.append(dict(context.environment)))
    session = SimpleNamespace(sparkContext=context, dataSource=source)
    register(cast("SparkSession", session))
    assert seen == [{**SET_BY_SPARK, "OWN": "1", "SPARK_BUFFER_SIZE": "7"}]
    assert context.environment == {"OWN": "1", "SPARK_BUFFER_SIZE": "7"}


def test_spark_adds_nothing_else() -> None:
    """Or two streams could leave a broken map again, for which there is no test that always fails.

    The names that the class puts there are constants in it.
    """
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as classes:
        code = classes.read(RUNNER)
    names = {name.decode() for name in re.findall(rb"SPARK_[A-Z_]+", code)}
    assert names == SET_BY_SPARK.keys()
