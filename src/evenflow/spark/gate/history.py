"""The control history of a unit: which fractions its gates keep, from which batch on.

A row is appended, and on disk, before the batch from which it holds can begin, and never changes:
a batch that is done again, by whatever process, finds the row that it had. A batch takes what was
asked for before the one before it ended; a row that was torn by a crash had not begun.

A row is needed as long as its batches may be done again, or the state holds something that its
gates dropped. The watermark tells when it does not: what was read before a row ended is of event
times that the watermark of the next row's first batch is at most the delay behind; windows of such
times have left the state when it has moved on by the delay and the largest window. Rows that are
not needed are forgotten while a unit runs, in memory but for the last ones, which tell what reports
of batches are asked for, and on disk from time to time.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import StateError
from evenflow.spark.state.sealed import VERSION, checksum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MOST_ROWS = 10_000
"""Older ones are forgotten, needed or not. What is in a window of which they dropped something is
cut then: it is not known what is whole."""
SPARE_ROWS = 1_000
"""Rows that are not needed and stay on disk until it is written anew."""
TOLD_ROWS = 200
"""Rows that are not needed and stay in memory: of more batches than Spark keeps reports of."""


@dataclass(frozen=True, slots=True)
class GateRow:
    """What gates keep, from a batch on."""

    batch: int
    version: int
    """Rows are numbered from 1; 0 is before the first, when all gates are open."""
    keep: Mapping[int, float]
    """Fractions by part. Gates of parts that are not named are open."""

    def fraction(self, part: int) -> float:
        """Return the fraction that the gate of a part keeps."""
        return self.keep.get(part, 1.0)


OPEN = GateRow(-1, 0, {})


class ControlHistory:
    """The rows of one unit. What is asked for comes from any thread, batches from one."""

    def __init__(self, file: Path) -> None:
        """Read what is there.

        Raises:
            StateError: A row is damaged.
        """
        self._file = file
        self._lock = threading.Lock()
        self._asked: dict[int, float] | None = None
        """What is to hold as soon as it can; None if that is the last row."""
        there = read_rows(file)
        self._rows = [OPEN, *there[-MOST_ROWS:]]
        self._on_disk = len(there)
        self._over_ms: list[int] = []
        """Of the first rows, which have ended: a watermark from when all their tuples were read."""
        self._gone = 0
        """How many rows, from the first on, are not needed."""

    def ask(self, keep: Mapping[int, float]) -> None:
        """Ask for fractions. Those of 1 and above are open gates."""
        with self._lock:
            wanted = {part: fraction for part, fraction in keep.items() if fraction < 1.0}
            self._asked = None if wanted == self._rows[-1].keep else wanted

    def begin(self, batch: int) -> GateRow:
        """Return the row of a batch that has not begun, or is done again.

        What was asked for holds from this batch on, unless the batch, or a later one, had a row
        before.
        """
        with self._lock:
            if self._asked is not None and batch > self._rows[-1].batch:
                self._append(GateRow(batch, self._rows[-1].version + 1, self._asked))
                self._asked = None
            return self._of(batch)

    def keep_asked(self, unplanned: int) -> None:
        """Have what was asked for hold as soon as it can: nobody will run a batch here any more.

        Args:
            unplanned: The first batch that has not been planned. It may have a row, which stays.
        """
        with self._lock:
            batch = max(unplanned, self._rows[-1].batch + 1)
        self.begin(batch)

    def of(self, batch: int) -> GateRow:
        """Return the row that holds in a batch."""
        with self._lock:
            return self._of(batch)

    @property
    def newest(self) -> Mapping[int, float]:
        """What holds as soon as it can."""
        with self._lock:
            return self._rows[-1].keep if self._asked is None else self._asked

    def needed(
        self, batch: int, *, late_ms: int, watermark_ms: int, stay_ms: int | None
    ) -> dict[int, GateRow]:
        """Return by version the rows whose gates dropped what a batch may find, and forget others.

        Args:
            batch: Which runs now; those before it are committed.
            late_ms: The watermark of the batch before: what ended until then has left the state.
            watermark_ms: The watermark of the batch.
            stay_ms: How far the watermark has to go until all has left the state that was read;
                None if it does not tell.
        """
        with self._lock:
            known = len(self._over_ms)
            ended = bisect_right(self._rows, batch, key=lambda row: row.batch) - 1
            self._over_ms += [watermark_ms] * (ended - known)
            gone = max(self._gone, len(self._rows) - MOST_ROWS)
            if stay_ms is not None:
                gone = max(gone, bisect_right(self._over_ms, late_ms - stay_ms))
            gone = min(gone, len(self._over_ms))
            untold = max(0, gone - TOLD_ROWS)
            del self._rows[:untold], self._over_ms[:untold]
            self._gone = gone - untold
            if self._on_disk > len(self._rows) - self._gone + SPARE_ROWS:
                self._write_anew()
            return {row.version: row for row in self._rows[self._gone :] if row.keep}

    def _write_anew(self) -> None:
        """Leave out of the file what is not needed.

        What cannot be written stays as it is, to be tried again: it has all that is needed.
        """
        rows = [row for row in self._rows[self._gone :] if row.version > 0]
        with suppress(OSError):
            _replace(self._file, rows)
            self._on_disk = len(rows)

    def _of(self, batch: int) -> GateRow:
        at = bisect_right(self._rows, batch, key=lambda row: row.batch)
        return self._rows[max(0, at - 1)]

    def _append(self, row: GateRow) -> None:
        line = _line(row).encode()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                if file.write(line) < len(line):
                    raise OSError(errno.ENOSPC, "the disk took half a row")
                os.fsync(file.fileno())
            except OSError:
                # Half a row, of a disk that is full, must not stand before the next one.
                file.truncate(end)
                raise
        if end == 0:
            _sync_folder(self._file)
        self._rows.append(row)
        self._on_disk += 1


def _line(row: GateRow) -> str:
    keep = {str(part): fraction for part, fraction in sorted(row.keep.items())}
    body = {"batch": row.batch, "version": row.version, "keep": keep}
    sealed = {"evenflow": VERSION, "checksum": checksum(body), "body": body}
    return json.dumps(sealed, sort_keys=True) + "\n"


def read_rows(file: Path) -> list[GateRow]:
    """Return the rows that are on disk.

    Raises:
        StateError: One is damaged.
    """
    if not file.exists():
        return []
    try:
        text = file.read_text()
    except (OSError, ValueError) as exc:
        raise StateError(f"{file} cannot be read", "restore it, or use another --state") from exc
    whole = text[: text.rfind("\n") + 1]
    rows = [_row(file, number, line) for number, line in enumerate(whole.splitlines(), 1)]
    if len(whole) < len(text):
        # The last row was torn, and nothing may be written behind it.
        _replace(file, rows)
    return rows


def _replace(file: Path, rows: Sequence[GateRow]) -> None:
    """Write a history anew: it is on disk before it takes the place of the one that was there."""
    beside = file.with_name(file.name + ".new")
    with beside.open("w") as new:
        new.writelines(map(_line, rows))
        new.flush()
        os.fsync(new.fileno())
    beside.replace(file)
    _sync_folder(file)


def _sync_folder(file: Path) -> None:
    """Have it outlive a loss of power that a file stands there."""
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _row(file: Path, number: int, line: str) -> GateRow:
    try:
        sealed = json.loads(line)
        body = sealed["body"]
        if sealed["evenflow"] != VERSION or sealed["checksum"] != checksum(body):
            raise ValueError
        keep = {int(part): float(fraction) for part, fraction in body["keep"].items()}
        return GateRow(int(body["batch"]), int(body["version"]), keep)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise StateError(
            f"{file} is damaged at line {number}", "restore it, or use another --state"
        ) from exc
