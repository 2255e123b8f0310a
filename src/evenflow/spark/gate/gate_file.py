"""The file of a gate that stands alone: its last fractions, and from which times on they hold.

One line of fixed length, because Spark remembers the length of the file: first the times, oldest
first, then the thresholds. One process writes at a time; whoever reads finds a whole file.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import ConfigError
from evenflow.spark.compile.gates import ONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

KNOWN = 1024
"""Fractions that the file remembers: an hour of changes if there is one every four seconds. So many
may come between the beginning of a batch and its end, also if it is done again after a restart."""
AHEAD_US = 200_000
"""How long after it is written a fraction begins to hold."""
_TRIES = 6
"""The longer writing takes, the farther ahead is what is written."""
_DIGITS = 20
_HIDDEN = ("_", ".")
"""Files whose names begin so are passed over by Spark."""


def gate_path(file: str | Path) -> Path:
    """Return where a gate's file is.

    Raises:
        ConfigError: Spark would not read it.
    """
    path = Path(file).absolute()
    if path.name.startswith(_HIDDEN):
        raise ConfigError(
            f"{file} cannot be a gate: Spark passes over files whose names begin with _ or .",
            "give it another name",
        )
    return path


def make_gate(path: Path) -> None:
    """Make the file of an open gate, if there is none.

    Raises:
        ConfigError: There is one, and it is damaged; or it cannot be made.
    """
    with _alone(path):
        if path.exists():
            _read(path)
        else:
            _write_beside(path, [(0, ONE - 1)] * KNOWN).replace(path)


def add_fraction(path: Path, limit: int, clock: Callable[[], int]) -> None:
    """Add a threshold that holds in a moment.

    Args:
        path: The file.
        limit: The threshold.
        clock: Tells the microsecond. If another was ahead, what it wrote holds before this does.

    Raises:
        ConfigError: There is no such gate, or it is damaged, or cannot be written.
    """
    if not path.exists():
        raise ConfigError(f"there is no gate {path}", "evenflow.gate makes it with its query")
    with _alone(path):
        known = _read(path)
        if known[-1][1] == limit:
            return
        for ahead in (AHEAD_US * 2**times for times in range(_TRIES)):
            since = max(clock() + ahead, known[-1][0] + 1)
            beside = _write_beside(path, [*known[1:], (since, limit)])
            # A batch that begins before it is there must not find that it held by then.
            if since - clock() > AHEAD_US // 4:
                beside.replace(path)
                return
        raise ConfigError(f"cannot use gate {path}: it takes seconds to write it")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes, and threads, from writing. The lock's file stays beside the gate's."""
    try:
        with path.with_name(f".{path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as exc:
        raise ConfigError(f"cannot use gate {path}: {exc.strerror or exc}") from exc


def _read(path: Path) -> list[tuple[int, int]]:
    """Return times and thresholds, oldest first."""
    try:
        numbers = [int(text) for text in path.read_text().split(",")]
        known = list(zip(numbers[:KNOWN], numbers[KNOWN:], strict=True))
        if len(known) != KNOWN or numbers[:KNOWN] != sorted(numbers[:KNOWN]):
            raise ValueError
    except ValueError as exc:
        raise ConfigError(f"gate {path} is damaged", "remove it: the query makes it anew") from exc
    return known


def _write_beside(path: Path, known: Sequence[tuple[int, int]]) -> Path:
    """Return a file that is on disk and may take the gate's place."""
    numbers = (*(since for since, _ in known), *(limit for _, limit in known))
    # Hidden from Spark. Under the lock nobody else has it; what a killed process left is replaced.
    beside = path.with_name(f"_{path.name}.new")
    with beside.open("w") as file:
        file.write(",".join(f"{number:0{_DIGITS}d}" for number in numbers) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return beside
