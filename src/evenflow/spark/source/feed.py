"""Feeding: laying what this process holds as numbered files that Spark streams in order.

PIPES 3.5 calls it translating a demand-driven flow into a data-driven one: a thread takes the next
elements of a passive source and passes them on. Files in between make them durable.
"""

from __future__ import annotations

import itertools
import os
import queue
import re
import shutil
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pyarrow.parquet

from evenflow.errors import EvenflowError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from evenflow.spark.source.row_table import RowTables

INTERVAL_SECONDS = 0.2
"""How long a row waits for others before it is laid."""
_STOP_SECONDS = 2.0
"""How long to wait for an iterable that is asked for its next row while the flow stops."""


def spark_path(path: Path) -> str:
    """Return a local path as Spark takes it: no blank is encoded, no character is a pattern."""
    return "file://" + re.sub(r"([\\\[\]{}*?])", r"\\\1", str(path.absolute()))


class FeedFolder:
    """Files of rows, each named by the number of its first row, whole or not there at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "files"
        """What Spark reads."""
        self._done = path / "done"
        self._beside = path / "next.parquet"
        self.files.mkdir(parents=True, exist_ok=True)
        last = max(self.files.glob("*.parquet"), default=None)
        self.rows = 0 if last is None else int(last.stem) + _rows_of(last)
        """How many rows were laid, over all runs."""
        self._last_ms = 0 if last is None else last.stat().st_mtime_ns // 1_000_000

    @property
    def done(self) -> bool:
        """Whether there is nothing more to lay, in this run or a later one."""
        return self._done.exists()

    def finish(self) -> None:
        """Remember that everything was laid."""
        self._done.touch()

    def lay(self, table: pa.Table) -> None:
        """Add a file of rows."""
        if table.num_rows:
            pyarrow.parquet.write_table(table, self._beside, compression="snappy")
            self._add(table.num_rows)

    def lay_file(self, file: Path) -> None:
        """Add a parquet file as it is. It also stays where it was."""
        rows = _rows_of(file)
        if rows:
            self._beside.unlink(missing_ok=True)
            try:
                os.link(file, self._beside)
            except OSError:  # not every file system has links
                shutil.copyfile(file, self._beside)
            self._add(rows)

    def _add(self, rows: int) -> None:
        # Spark streams files in the order of their times, which have milliseconds.
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        os.utime(self._beside, ns=(self._last_ms * 1_000_000, self._last_ms * 1_000_000))
        self._beside.rename(self.files / f"{self.rows:015d}.parquet")
        self.rows += rows


def _rows_of(file: Path) -> int:
    return int(pyarrow.parquet.read_metadata(file).num_rows)


class Feed(ABC):
    """Lays one source. Started and stopped with the flow; both may happen several times."""

    def __init__(self, source: str, folder: FeedFolder) -> None:
        self.source = source
        self.folder = folder
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Do once, before anything is laid in this run, what cannot be done in pieces."""

    @abstractmethod
    def lay_all(self) -> None:
        """Lay everything that is left, without regard to when it is due."""

    @abstractmethod
    def lay_due(self) -> bool:
        """Lay what is due, and wait a little if nothing is. Returns whether nothing is left."""

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Lay what was taken and not laid yet. Called when feeding stops before the end."""

    def finish(self) -> None:
        """Remember that everything was laid."""
        self.folder.finish()

    def start(self, *, available_now: bool) -> None:
        """Begin to feed; with `available_now` lay everything before returning.

        Raises:
            EvenflowError: It cannot be laid.
        """
        if self.folder.done or self._thread is not None:
            return
        self.prepare()
        if available_now:
            self.lay_all()
            self.finish()
            return
        self._failure = None
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self._run, name=f"evenflow-feed-{self.source}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop feeding. What was taken is laid."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def raise_failure(self) -> None:
        """Raise what ended the feeding, if something did.

        Raises:
            EvenflowError: A fault of ours, or one in a user's iterable as a `RunError`.
        """
        if isinstance(self._failure, EvenflowError):
            raise self._failure
        if self._failure is not None:
            raise _translated(self.source, self._failure) from self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self.lay_due():
                    self.finish()
                    return
            self.close()
        except BaseException as exc:  # noqa: BLE001  # the top of a thread; see raise_failure
            self._failure = exc


def _translated(source: str, exc: BaseException) -> RunError:
    return RunError(f"source {source} failed: {type(exc).__name__}: {exc}")


class _End:
    """Stands in a queue after the last row."""


class RowsFeed(Feed):
    """Lays the rows of a Python iterable.

    An iterator goes on where it is when the flow is started again. Anything else is begun anew,
    and as many rows as were laid are skipped: it has to give the same rows again. A row that is
    waited for while the flow stops is lost.
    """

    def __init__(
        self,
        source: str,
        folder: FeedFolder,
        *,
        rows: Iterable[Any],
        tables: RowTables,
        rows_per_file: int,
        most: int | None,
    ) -> None:
        """Prepare to feed.

        Args:
            source: Name of the source.
            folder: Where files are laid.
            rows: The iterable.
            tables: Makes tables out of rows.
            rows_per_file: Rows in a file at most.
            most: After how many rows it ends, if it does not end before.
        """
        super().__init__(source, folder)
        self._given = rows
        self._tables = tables
        self._rows_per_file = rows_per_file
        self._most = most
        self._rows: Iterator[Any] | None = None
        self._taken: queue.Queue[Any] = queue.Queue(maxsize=4 * rows_per_file)
        self._taker: threading.Thread | None = None
        self._broken: BaseException | None = None

    def prepare(self) -> None:
        """Go to the first row that was not laid."""
        if self._rows is None:
            self._rows = self._from_where_it_was()

    def _from_where_it_was(self) -> Iterator[Any]:
        laid = self.folder.rows
        begun = iter(self._given)
        if begun is not self._given:
            begun = itertools.islice(begun, laid, None)
        return begun if self._most is None else itertools.islice(begun, max(0, self._most - laid))

    def lay_all(self) -> None:
        """Lay the iterable to its end."""
        rows = self._rows or iter(())
        while True:
            try:
                piece = list(itertools.islice(rows, self._rows_per_file))
            except Exception as exc:  # a user's iterable may raise anything
                raise _translated(self.source, exc) from exc
            if not piece:
                return
            self._lay(piece)

    def lay_due(self) -> bool:
        """Lay the rows that came."""
        if self._taker is None or not self._taker.is_alive():
            self._taker = threading.Thread(
                target=self._take, name=f"evenflow-rows-{self.source}", daemon=True
            )
            self._taker.start()
        piece, ended = self._gather(time.monotonic() + INTERVAL_SECONDS)
        self._lay(piece)
        if ended and self._broken is not None:
            raise self._broken
        return ended

    def close(self) -> None:
        """Lay what was taken."""
        deadline = time.monotonic() + _STOP_SECONDS
        while self._taker is not None and self._taker.is_alive() and time.monotonic() < deadline:
            self._lay(self._gather(time.monotonic() + 0.02)[0])
        while not self._taken.empty():
            self._lay(self._gather(time.monotonic())[0])

    def _lay(self, rows: list[Any]) -> None:
        if rows:
            self.folder.lay(self._tables.table(rows, self.folder.rows))

    def _gather(self, deadline: float) -> tuple[list[Any], bool]:
        """Return rows, no more than a file takes, and whether there are no others."""
        rows: list[Any] = []
        while len(rows) < self._rows_per_file:
            try:
                row = self._taken.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                return rows, False
            if row is _End:
                return rows, True
            rows.append(row)
        return rows, False

    def _take(self) -> None:
        """Take rows until the end, or until asked to stop."""
        rows = self._rows or iter(())
        try:
            while not self._stopping.is_set():
                row = next(rows, _End)
                self._taken.put(row)
                if row is _End:
                    return
        except BaseException as exc:  # noqa: BLE001  # the top of a thread; see lay_due
            self._broken = exc
            self._taken.put(_End)
