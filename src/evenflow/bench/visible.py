"""What a reader of a sink sees, and since when.

An answer is visible from the moment at which the file that holds it was complete and had its name:
the change time of its inode. The same is taken of Evenflow's files and of plain Spark's, although
those who read the latter through Spark see them only when the batch is committed, a little later.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of answers."""

    path: Path
    at: float
    """Since when it is visible, in seconds since the epoch."""


def read_answers(folder: Path) -> list[tuple[dict[str, Any], float]]:
    """Return all answers of a sink, and since when each is visible.

    Files that are still being written are left out.
    """
    import pyarrow as pa
    import pyarrow.parquet

    found = []
    for file in answer_files(folder):
        try:
            rows = pyarrow.parquet.read_table(
                file.path, partitioning=None, coerce_int96_timestamp_unit="us"
            ).to_pylist()
        except pa.ArrowInvalid:
            continue
        # It may have been completed after it was listed.
        at = file.path.stat().st_ctime
        found += [(row, at) for row in rows]
    return found


def answer_files(folder: Path) -> list[AnswerFile]:
    """Return the files of a sink in the order in which they became visible."""
    files = (p for p in folder.glob("*.parquet") if not p.name.startswith(("_", ".")))
    return sorted((AnswerFile(p, p.stat().st_ctime) for p in files), key=lambda file: file.at)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for something.

    Raises:
        RunError: It did not happen in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RunError(f"waited {seconds:g} s for {what}, in vain")
        time.sleep(_POLL_SECONDS)


def first_answer(folder: Path, seconds: float) -> float:
    """Wait for the first file of a sink, and return since when it is visible.

    Raises:
        RunError: There was none in time.
    """
    wait_until(lambda: bool(answer_files(folder)), seconds, f"answers of {folder.name}")
    return answer_files(folder)[0].at


def window_totals(folder: Path) -> dict[int, int]:
    """Return the sum of `n` over the answers of each window, by the window's start `w`."""
    import pyarrow as pa
    import pyarrow.parquet

    tables = [
        pyarrow.parquet.read_table(file.path, columns=["w", "n"], partitioning=None)
        for file in answer_files(folder)
    ]
    if not tables:
        return {}
    by_window = pa.concat_tables(tables).group_by("w").aggregate([("n", "sum")])
    starts = by_window.column("w").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return dict(zip(starts.to_pylist(), by_window.column("n_sum").to_pylist(), strict=True))
