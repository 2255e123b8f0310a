"""Replaying: finite data, sorted by event time, laid as a stream, at once or as time passes."""

from __future__ import annotations

import json
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from evenflow.errors import RunError
from evenflow.spark.compile.trunk import quoted
from evenflow.spark.source.feed import INTERVAL_SECONDS, Feed, FeedFolder, spark_path
from evenflow.spark.state.sealed import write_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

_PART = re.compile(r"part-(\d+)-.*?(?:[.-]c(\d+))?\.")
"""Spark's names of written files: the task, and the file's number within it."""


class ReplayFeed(Feed):
    """Lays a finite DataFrame in the order of its event times.

    The data is read and sorted once, by Spark and not through this process. Rows without an event
    time come first. A restart does not read it again.
    """

    def __init__(
        self,
        source: str,
        folder: FeedFolder,
        *,
        read: Callable[[], DataFrame],
        event_time: int | None,
        speed: float,
        rows_per_file: int,
    ) -> None:
        """Prepare to feed.

        Args:
            source: Name of the source.
            folder: Where files are laid.
            read: Gives the data, under the names and types of the schema.
            event_time: Place of the event time among the columns; None if it has no order.
            speed: Event-time seconds per second; 0 lays everything before the flow starts.
            rows_per_file: Rows in a file at most.
        """
        super().__init__(source, folder)
        self._read = read
        self._event_time = event_time
        self._speed = speed
        self._rows_per_file = rows_per_file
        self._sorted = folder.path / "sorted"
        self._clock = folder.path / "clock.json"
        self._files: list[tuple[Path, int]] = []
        """Sorted files that are not laid as a whole, with the number of the first row."""
        self._loaded: tuple[Path, pa.Table] | None = None

    def start(self, *, available_now: bool) -> None:
        """Begin to feed; without a speed everything is due at once."""
        super().start(available_now=available_now or self._speed == 0)

    def prepare(self) -> None:
        """Sort the data into files, unless that was done."""
        if not self._sorted.exists():
            self._sort()
        first = 0
        self._files = []
        for file in sorted(self._sorted.glob("*.parquet"), key=_order):
            rows = pyarrow.parquet.read_metadata(file).num_rows
            if first + rows > self.folder.rows:
                self._files.append((file, first))
            first += rows

    def _sort(self) -> None:
        beside = self.folder.path / "sorting"
        shutil.rmtree(beside, ignore_errors=True)
        frame = self._read()
        if self._event_time is not None:
            frame = frame.orderBy(F.col(quoted(frame.columns[self._event_time])).asc_nulls_first())
        writer = frame.write.option("maxRecordsPerFile", self._rows_per_file)
        try:
            writer.option("compression", "snappy").parquet(spark_path(beside))
        except PySparkException as exc:
            line = str(exc).strip().splitlines()[0]
            raise RunError(f"source {self.source} cannot be read: {line[:300]}") from exc
        beside.rename(self._sorted)

    def lay_all(self) -> None:
        """Lay all files that are left."""
        for file, first in self._files:
            laid = self.folder.rows - first
            if laid:
                self.folder.lay(self._table(file).slice(laid))
            else:
                self.folder.lay_file(file)

    def finish(self) -> None:
        """Remember that everything was laid, and forget the sorted files."""
        super().finish()
        shutil.rmtree(self._sorted, ignore_errors=True)

    def lay_due(self) -> bool:
        """Lay the rows whose time has come."""
        due_us = self._due_us()
        while self._files:
            file, first = self._files[0]
            table = self._table(file)
            laid = self.folder.rows - first
            due = int(np.searchsorted(self._times(table), due_us, side="right"))
            if due > laid:
                self.folder.lay(table.slice(laid, due - laid))
            if due < table.num_rows:
                self._stopping.wait(INTERVAL_SECONDS)
                return False
            del self._files[0]
        return True

    def _table(self, file: Path) -> pa.Table:
        if self._loaded is None or self._loaded[0] != file:
            table = pyarrow.parquet.read_table(file, coerce_int96_timestamp_unit="us")
            self._loaded = (file, table)
        return self._loaded[1]

    def _times(self, table: pa.Table) -> NDArray[np.int64]:
        """Return event times in microseconds; the smallest number where there is none."""
        column = table.column(self._event_time or 0).cast(pa.timestamp("us", tz="UTC"))
        smallest: int = np.iinfo(np.int64).min
        return np.asarray(column.cast(pa.int64()).fill_null(smallest).to_numpy(), dtype=np.int64)

    def _due_us(self) -> int:
        """Return up to which event time rows are due. The clock runs while the flow does not."""
        now = time.time_ns() // 1000
        if not self._clock.exists():
            write_json(self._clock, {"wall_us": now, "event_us": self._first_us()})
        clock: dict[str, Any] = json.loads(self._clock.read_text())
        return int(clock["event_us"] + (now - clock["wall_us"]) * self._speed)

    def _first_us(self) -> int:
        """Return the first event time there is."""
        for file, _ in self._files:
            times = self._times(self._table(file))
            known = times[times > np.iinfo(np.int64).min]
            if len(known):
                return int(known[0])
        return 0


def _order(file: Path) -> tuple[int, int]:
    found = _PART.match(file.name)
    return (int(found.group(1)), int(found.group(2) or 0)) if found else (0, 0)
