"""The tests' client: Spark's own batch reader and writer of Kafka."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.flow import Flow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

_COLUMNS = (
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT"
)


@dataclass(frozen=True, slots=True)
class Record:
    """A record, as it is written or as it was found."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] | None = None
    partition: int = 0
    offset: int = field(default=-1, compare=False)
    timestamp: datetime | None = field(default=None, compare=False)

    @property
    def json(self) -> Any:
        """The value as JSON."""
        assert self.value is not None
        return json.loads(self.value)

    def header(self, name: str) -> str:
        """Return the text of the one header of that name."""
        (found,) = [value for key, value in self.headers or () if key == name]
        return found.decode()


class Topics:
    """All topics of a broker."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self._spark = spark
        self.servers = servers

    def write(self, topic: str, records: Iterable[Record]) -> None:
        """Add records, those of a partition in their order."""
        rows = [(r.key, r.value, r.headers, r.partition) for r in records]
        frame = self._spark.createDataFrame(rows, _COLUMNS).coalesce(1)
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self.servers)
        writer.option("topic", topic).save()

    def write_json(self, topic: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add records of JSON."""
        self.write(topic, [Record(json.dumps(row).encode()) for row in rows])

    def read(self, topic: str) -> list[Record]:
        """Return all records, by partition and offset."""
        reader = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        rows = reader.option("subscribe", topic).option("includeHeaders", "true").load().collect()
        found = [
            Record(
                _bytes(row["value"]),
                _bytes(row["key"]),
                None
                if row["headers"] is None
                else tuple((h["key"], bytes(h["value"])) for h in row["headers"]),
                row["partition"],
                row["offset"],
                row["timestamp"],
            )
            for row in rows
        ]
        return sorted(found, key=lambda r: (r.partition, r.offset))

    def source(self, topic: str, **more: str | int) -> dict[str, str | int]:
        """Return the options of a source that reads a topic from its beginning."""
        given: dict[str, str | int] = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        return {**given, **more}

    def flow(self, folder: Path, topic: str, schema: str, **options: str | int) -> Flow:
        """Return a flow with a source `s` over a topic, without an event time."""
        made = Flow("test", folder / "state")
        made.source("s", "kafka", self.source(topic, **options), schema)
        return made


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
