"""Workloads of the sharing benchmark: data as files, queries as SQL."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.graph.graph import Graph
from evenflow.model.flow import FlowSpec, Reader
from evenflow.model.operator import Source
from evenflow.model.schema import parse_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_START_S = 1_700_000_000
_SECONDS_PER_BATCH = 4
_FLUSH_S = 1_700_100_000
FILES_PER_BATCH = 4


@dataclass(frozen=True, slots=True)
class Workload:
    """Named data and queries."""

    name: str
    schema: str
    sql: Callable[[int], str]
    """The i-th query."""
    columns: Callable[[DataFrame], DataFrame]
    """From `id` and `ts` to the schema."""
    flush: int
    """How many rows, from id 0 on, together pass every predicate: the last ones of the last batch
    are such rows, far ahead in time, and close all windows of all queries."""

    def write(self, session: SparkSession, folder: Path, batches: int, rows: int) -> None:
        """Write the data of some batches.

        A batch is several files of equal size, so that all cores have the same to read.
        """
        from pyspark.sql import functions as F

        step = F.lit(_SECONDS_PER_BATCH * 1_000_000 / rows)
        first_of_flush = batches * rows - self.flush
        number = F.col("id")
        for index in range(batches):
            frame = session.range(index * rows, (index + 1) * rows, 1, FILES_PER_BATCH)
            us = F.lit(_START_S * 1_000_000) + F.floor(number * step)
            last = number >= first_of_flush
            us = F.when(last, F.lit(_FLUSH_S * 1_000_000)).otherwise(us)
            frame = frame.withColumn("ts", F.timestamp_micros(us))
            frame = frame.withColumn("id", F.when(last, number - first_of_flush).otherwise(number))
            self._store(frame, folder, index)

    def _store(self, frame: DataFrame, folder: Path, index: int) -> None:
        import shutil

        folder.mkdir(parents=True, exist_ok=True)
        beside = folder.parent / f"{folder.name}-{index}"
        self.columns(frame).write.parquet(str(beside))
        for part, file in enumerate(sorted(beside.glob("part-*.parquet"))):
            # Spark reads files in the order of their times.
            written_s = _START_S + index * FILES_PER_BATCH + part
            os.utime(file, (written_s, written_s))
            file.rename(folder / f"{index:04d}-{part}.parquet")
        shutil.rmtree(beside)

    def spec(self, folder: Path, queries: int) -> FlowSpec:
        """Return a flow of the first queries over the files."""
        graph = Graph("bench")
        graph.add_source(Source("r", parse_schema(self.schema), "ts", 10_000_000, "files"))
        graph.add_sql({f"q{i}": self.sql(i) for i in range(queries)})
        options = {"path": str(folder), "maxFilesPerTrigger": str(FILES_PER_BATCH)}
        reader = Reader(format="parquet", options=options)
        return FlowSpec(name="bench", queries=tuple(graph.queries.values()), readers={"r": reader})


def _plain_columns(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select("ts", F.col("id").alias("value"))


def _distinct_keys(index: int) -> str:
    key = f"value % {100 + index}"
    return (
        f"SELECT {key} AS k, window(ts, '5 seconds') AS w, count(*) AS n FROM r "
        f"WHERE value % {index + 2} = 0 GROUP BY {key}, window(ts, '5 seconds')"
    )


def _same_keys(index: int) -> str:
    return (
        "SELECT value % 100 AS k, window(ts, '5 seconds') AS w, count(*) AS n FROM r "
        f"WHERE value % {index + 2} = 0 GROUP BY value % 100, window(ts, '5 seconds')"
    )


_MIX_SCHEMA = (
    "ts TIMESTAMP, meter STRING, district STRING, feeder BIGINT, hour INT, kwh DOUBLE, "
    "voltage DOUBLE"
)
_MIX_KEYS = ("meter", "district", "feeder", "hour")
_MIX_WINDOWS = ("10 seconds", "60 seconds")
_MIX_PREDICATES = (
    "kwh > 0.5",
    "kwh <= 0.5",
    "voltage > 230",
    "voltage <= 230",
    "kwh > 0.3 AND voltage > 225",
    "feeder % 2 = 0",
    "hour < 12",
    "hour >= 12",
    "district <> 'd3'",
    "kwh BETWEEN 0.25 AND 0.75",
)


def _metering_mix(index: int) -> str:
    """Four keys, two windows and ten predicates in all combinations, 80 different queries."""
    key = _MIX_KEYS[index % 4]
    window = f"window(ts, '{_MIX_WINDOWS[index // 4 % 2]}')"
    predicate = _MIX_PREDICATES[(index // 8 + index) % 10]
    extra = "" if index < 80 else f" AND kwh < {1 + index}"
    return (
        f"SELECT {key} AS k, {window} AS w, count(*) AS n, sum(kwh) AS total, "
        f"max(voltage) AS top FROM r WHERE {predicate}{extra} GROUP BY {key}, {window}"
    )


def _mix_columns(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    number = F.col("id")
    noise = F.pmod(F.xxhash64(number), F.lit(1024))
    return frame.select(
        "ts",
        F.concat(F.lit("m"), (number % 1000).cast("string")).alias("meter"),
        F.concat(F.lit("d"), (number % 20).cast("string")).alias("district"),
        (number % 200).alias("feeder"),
        (number % 24).cast("int").alias("hour"),
        (noise / 1024.0).alias("kwh"),
        (F.lit(220.0) + F.pmod(noise, F.lit(20))).cast("double").alias("voltage"),
    )


WORKLOADS = {
    w.name: w
    for w in (
        Workload("distinct-keys", "ts TIMESTAMP, value BIGINT", _distinct_keys, _plain_columns, 1),
        Workload("same-keys", "ts TIMESTAMP, value BIGINT", _same_keys, _plain_columns, 1),
        Workload("metering-mix", _MIX_SCHEMA, _metering_mix, _mix_columns, 200),
    )
}
