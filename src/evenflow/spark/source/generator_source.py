"""Our generators as a streaming source of Spark's: what is due, in which tasks it is made.

Runs in Python processes that Spark starts, on the driver and on executors, which get this module
and `generators` by value and may not have Evenflow.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from evenflow.spark.source import generators
from evenflow.spark.source.generators import TICK_US, Generator, Place, make_generator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "evenflow_generator"
SET_BY_SPARK = {
    "SPARK_LOCAL_DIRS": tempfile.gettempdir(),
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What Spark puts into the environment of a source written in Python when a stream starts."""
_WITHOUT_END = 2**62
_COUNTED = 100_000_000
"""Tuples that wait are counted up to this."""


def register(session: SparkSession) -> None:
    """Make the format known to a session."""
    for module in (generators, sys.modules[__name__]):
        pyspark.cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    with _known_to_spark(session.sparkContext.environment):
        session.dataSource.register(GeneratorSource)


@contextmanager
def _known_to_spark(environment: dict[str, str]) -> Iterator[None]:
    """Have a format be registered with all that Spark adds to its environment later.

    All streams of a format share one map, and each adds these when it starts, without a lock
    (PythonStreamingSourceRunner of 4.2). Two that start at once can leave a map whose size is not
    what it holds: no batch of theirs can be run from then on (OptionalDataException). Where the
    keys are there already, only values change. The values are those that Spark sets anyway.
    """
    missing = {name: value for name, value in SET_BY_SPARK.items() if name not in environment}
    environment.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del environment[name]


class GeneratorSource(DataSource):
    """The format. Its one option, `settings`, is JSON that was checked before."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        """Return the reader. Called in each process that takes part."""
        return GeneratorReader(json.loads(self.options["settings"]))


def rows_waiting(settings: dict[str, Any], offset: str, at: float) -> int | None:
    """Return how many tuples are due and not read; None if that is no offset of a generator.

    Args:
        settings: Of the generator, with its clock.
        offset: Up to where was read.
        at: Wall-clock seconds.
    """
    try:
        read = json.loads(offset)
        place, rows = Place(int(read["tick"]), int(read["index"])), int(read["rows"])
    except (ValueError, KeyError, TypeError):
        return None
    due = (int(at * 1e6) - int(settings["wall_us"])) // TICK_US
    waiting = make_generator(settings).advance(place, due, _COUNTED)[1]
    return waiting if settings["rows"] is None else min(waiting, settings["rows"] - rows)


class GeneratorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a generator.

    Spark calls `initialOffset` once in the life of a checkpoint, `latestOffset` and `partitions`
    once per batch in one process on the driver, and `read` once per task on executors. An offset
    says which tuples were made before it: a tick, an index in the tick, and how many they are.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._begun: dict[str, int] | None = None
        self._made: Generator | None = None
        self._available_now = False
        self._due: int | None = None
        self._there: int | None = None
        """How many tuples there were when a batch was last asked for."""

    @property
    def _clock(self) -> dict[str, int]:
        """When the stream began. Only on the driver: executors are told with their tasks."""
        if self._begun is None:
            self._begun = json.loads(Path(self._settings["clock_file"]).read_text())
        return self._begun

    @property
    def _generator(self) -> Generator:
        if self._made is None:
            self._made = make_generator(self._settings | self._clock)
        return self._made

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first tuple."""
        return {"tick": self._clock["first_tick"], "index": 0, "rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many tuples a batch may have."""
        return ReadMaxRows(self._settings["max_rows_per_batch"])

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is due now as all there is."""
        self._available_now = True
        self._due = self._due_tick()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the offset after all tuples that are due, within the limit."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else _WITHOUT_END
        if not self._available_now:
            most = min(most, _told_limit(self._settings.get("limit_file")))
        rows = self._settings["rows"]
        until = self._due_tick() if self._due is None else self._due
        if rows is not None:
            most = min(most, rows - start["rows"])
            if self._available_now:
                until = _WITHOUT_END  # finite, so all of it is there
        if most <= 0:
            return start
        place = Place(start["tick"], start["index"])
        end, taken = self._generator.advance(place, until, most)
        self._there = start["rows"] + taken
        if taken == 0:
            return start
        if taken == most and not self._available_now:
            # It was limited: what is left waits.
            left = self._generator.advance(end, until, _COUNTED)[1]
            self._there += left if rows is None else min(left, rows - self._there)
        return {"tick": end.tick, "index": end.index, "rows": start["rows"] + taken}

    def reportLatestOffset(self) -> dict[str, int] | None:
        """Return how many tuples there were, for whoever asks how far a flow is behind."""
        return None if self._there is None else {"rows": self._there}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return places with equally many tuples between them, one more than there are tasks."""
        rows = end["rows"] - start["rows"]
        if rows <= 0:
            return []
        count = min(self._settings["partitions"], -(-rows // self._settings["task_rows"]))
        last = end["tick"] + (1 if end["index"] else 0)
        first = Place(start["tick"], start["index"])
        cuts = [self._generator.advance(first, last, rows * i // count)[0] for i in range(1, count)]
        places = [first, *cuts, Place(end["tick"], end["index"])]
        return [
            InputPartition((self._clock, (a.tick, a.index), (b.tick, b.index)))
            for a, b in itertools.pairwise(places)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the tuples of a task."""
        clock, start, end = partition.value
        made = make_generator(self._settings | clock)
        return made.batches(Place(*start), Place(*end))

    def stop(self) -> None:
        """End quietly if Spark has hung up: PySpark would tell so with a trace in the terminal."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)

    def _due_tick(self) -> int:
        """Return the first tick that has not passed yet."""
        return (time.time_ns() // 1000 - self._clock["wall_us"]) // TICK_US


def _told_limit(file: str | None) -> int:
    """Return the limit that may be set while a flow runs. What is read is in the offset log."""
    try:
        return int(Path(file).read_text()) if file is not None else _WITHOUT_END
    except (OSError, ValueError):
        return _WITHOUT_END
