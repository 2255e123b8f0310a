"""What Spark's own logs in a checkpoint say: which batches, how far read, which watermark.

Their form is not a contract of Spark's; every test that runs a flow fails if it changes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEADER = 2
"""Lines of an offset log before those of the sources: its version, and metadata."""


def watermark_of(checkpoint: Path, batch: int) -> int:
    """Return the watermark in milliseconds that a batch was planned with; 0 before the first."""
    log = checkpoint / "offsets" / str(batch)
    return _noted(log, "batchWatermarkMs") if batch >= 0 and log.exists() else 0


def next_batch(checkpoint: Path) -> int:
    """Return the batch that Spark will run next on a checkpoint, replayed or new."""
    planned = _numbers(checkpoint / "offsets")
    if not planned:
        return 0
    return planned[-1] + 1 if planned[-1] in _numbers(checkpoint / "commits") else planned[-1]


def has_begun(checkpoint: Path) -> bool:
    """Whether a batch has been planned, or the checkpoint was made from that of another unit."""
    return bool(_numbers(checkpoint / "offsets"))


def first_unplanned(checkpoint: Path) -> int:
    """Return the first batch that has not been planned."""
    batch = next_batch(checkpoint)
    return batch + is_planned(checkpoint, batch)


def is_planned(checkpoint: Path, batch: int) -> bool:
    """Whether a batch has been planned: it may have begun, and is done again if it has."""
    return (checkpoint / "offsets" / str(batch)).exists()


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit())


def committed_batch(checkpoint: Path) -> int | None:
    """Return the last batch that Spark has committed, if there is one."""
    return max(_numbers(checkpoint / "commits"), default=None)


def watermark_after(checkpoint: Path, batch: int) -> int:
    """Return the watermark in milliseconds after a committed batch."""
    return _noted(checkpoint / "commits" / str(batch), "nextBatchWatermarkMs")


def late_bound_ms(checkpoint: Path) -> int:
    """Return the watermark by which the next batch judges what is late: that of the one before."""
    return watermark_of(checkpoint, next_batch(checkpoint) - 1)


def committed_offsets(checkpoint: Path) -> list[str]:
    """Return how far each source was read up to the last committed batch, as Spark writes it."""
    batch = committed_batch(checkpoint)
    if batch is None:
        return []
    return (checkpoint / "offsets" / str(batch)).read_text().splitlines()[HEADER:]


def _noted(log: Path, name: str) -> int:
    """Return a number in the metadata of a log, 0 if it is not there."""
    for line in log.read_text().splitlines():
        if f'"{name}"' in line:
            return int(json.loads(line)[name])
    return 0
