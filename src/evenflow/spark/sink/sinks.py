"""Where answers go.

File sinks are exactly-once by unit and batch; the others see each batch once per attempt and are
told its number.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from evenflow.base.paths import local_path
from evenflow.errors import ConfigError, SinkError
from evenflow.model import types as t
from evenflow.model.kafka import is_kafka
from evenflow.model.query import FILE_FORMATS
from evenflow.spark.sink.answer_sink import DriverSink
from evenflow.spark.sink.demux import answer_schema
from evenflow.spark.sink.files import unfinished, write_file
from evenflow.spark.sink.kafka import KafkaSink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.model.query import Query, Sink
    from evenflow.spark.sink.answer_sink import AnswerSink


class FileSink:
    """Whole files under a path, named by state, unit and batch."""

    by_executors: ClassVar[bool] = True

    def __init__(self, sink: Sink, query: Query, state_id: str) -> None:
        self.format = sink.format
        self._path = local_path(str(sink.path))
        self._stem = f"{query.name}-{state_id}"
        if sink.format == "csv":
            for field in query.schema:
                if isinstance(field.type, t.StructType):
                    raise ConfigError(
                        f"query {query.name}: csv cannot hold {field.name}, which is a struct",
                        "select its fields, for instance window.start",
                    )
        self._schema = answer_schema([(f.name, f.type) for f in query.schema])

    def target(self, unit: str, batch: int, part: str = "") -> Path:
        """Return the file of a part of a batch's answers."""
        return self._path / f"{self._stem}-{unit}-{batch:09d}{part}.{self.format}"

    def files(self, unit: str, batch: int) -> list[Path]:
        """Return the files there are of a batch, those too that were never finished."""
        name = f"{self._stem}-{unit}-{batch:09d}*.{self.format}"
        try:
            return sorted((*self._path.glob(name), *self._path.glob(unfinished(name, "*"))))
        except OSError as exc:
            raise SinkError(f"cannot read {self._path}: {exc.strerror or exc}") from exc

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:
        """Write or replace the file of a batch."""
        try:
            write_file(answers, self.format, self.target(unit, batch))
        except OSError as exc:
            raise SinkError(f"cannot write to {self._path}: {exc.strerror or exc}") from exc


class ConsoleSink(DriverSink):
    """Prints answers to standard output."""

    _lock = threading.Lock()

    def __init__(self, query: Query, limit: int = 20) -> None:
        self._query = query.name
        self._limit = limit

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:  # noqa: ARG002
        """Print the first rows of a batch."""
        rows = answers.slice(0, self._limit).to_pylist()
        with self._lock:
            out = [f"-- {self._query}, batch {batch}: {answers.num_rows} answers"]
            out += ["  " + ", ".join(f"{k}={_shown(v)}" for k, v in r.items()) for r in rows]
            if answers.num_rows > self._limit:
                out.append(f"  ... {answers.num_rows - self._limit} more")
            sys.stdout.write("\n".join(out) + "\n")
            sys.stdout.flush()


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "[" + " .. ".join(_shown(v) for v in value.values()) + "]"
    return str(value)


class MemorySink(DriverSink):
    """Keeps answers in this process, for tests and notebooks."""

    def __init__(self, query: Query) -> None:
        self._schema = answer_schema([(f.name, f.type) for f in query.schema])
        self._batches: dict[tuple[str, int], pa.Table] = {}
        self._lock = threading.Lock()

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:
        """Keep a batch; a batch that comes again replaces itself."""
        with self._lock:
            self._batches[unit, batch] = answers

    def table(self) -> pa.Table:
        """Return all answers so far."""
        with self._lock:
            parts = [self._batches[key] for key in sorted(self._batches)]
        return pa.concat_tables([self._schema.empty_table(), *parts])


class CallbackSink(DriverSink):
    """Hands answers to a function of the user's: `function(batch, answers)`."""

    def __init__(self, sink: Sink) -> None:
        self._function = sink.function

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:  # noqa: ARG002
        """Call the function with the batch's number and a pyarrow Table."""
        self._function(batch, answers)


def open_sinks(
    query: Query, state_id: str, session: SparkSession | None = None
) -> tuple[AnswerSink, ...]:
    """Return the sinks of a query, ready to write.

    Args:
        query: The query.
        state_id: Tells the answers of two states apart.
        session: For sinks that are Spark's own.

    Raises:
        ConfigError: One of them cannot take such answers, or what it needs is missing.
    """
    made: list[AnswerSink] = []
    for sink in query.sinks:
        if sink.format in FILE_FORMATS:
            made.append(FileSink(sink, query, state_id))
        elif is_kafka(sink.format):
            made.append(KafkaSink(sink, query, state_id, session))
        elif sink.format == "console":
            made.append(ConsoleSink(query))
        elif sink.format == "memory":
            made.append(MemorySink(query))
        else:
            made.append(CallbackSink(sink))
    return tuple(made)
