"""The control history of a unit: which fractions its gates keep, from which batch on.

A row is appended, and on disk, before the batch from which it holds can begin, and never changes:
a batch that is done again, by whatever process, finds the row that it had. A batch takes what was
asked for before the one before it ended; a row that was torn by a crash had not begun.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import StateError
from evenflow.spark.state.sealed import VERSION, checksum

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_ROWS = 10_000
"""Older ones are forgotten when a unit is started: no window is open for so many changes."""


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
        self._rows = [OPEN, *_read(file)]

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

    def of(self, batch: int) -> GateRow:
        """Return the row that holds in a batch."""
        with self._lock:
            return self._of(batch)

    @property
    def newest(self) -> Mapping[int, float]:
        """What holds as soon as it can."""
        with self._lock:
            return self._rows[-1].keep if self._asked is None else self._asked

    def rows(self) -> dict[int, GateRow]:
        """Return all rows that are known, by version."""
        with self._lock:
            return {row.version: row for row in self._rows}

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
        self._rows.append(row)


def _line(row: GateRow) -> str:
    keep = {str(part): fraction for part, fraction in sorted(row.keep.items())}
    body = {"batch": row.batch, "version": row.version, "keep": keep}
    sealed = {"evenflow": VERSION, "checksum": checksum(body), "body": body}
    return json.dumps(sealed, sort_keys=True) + "\n"


def _read(file: Path) -> list[GateRow]:
    if not file.exists():
        return []
    text = file.read_text()
    whole = text[: text.rfind("\n") + 1]
    rows = [_row(file, number, line) for number, line in enumerate(whole.splitlines(), 1)]
    if len(whole) < len(text) or len(rows) > MOST_ROWS:
        # The last row was torn, and nothing may be written behind it; or there are many.
        rows = rows[-MOST_ROWS:]
        beside = file.with_name(file.name + ".new")
        beside.write_text("".join(map(_line, rows)))
        beside.replace(file)
    return rows


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
