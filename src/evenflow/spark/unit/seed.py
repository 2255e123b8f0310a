"""Beginning a unit where others stand.

A query that fits into no unit gets a new one. It must not read its sources from the beginning, but
go on from where the flow has read each. Spark has no such option for all sources; it is written
into the checkpoint of the new unit, which is not a contract of Spark's: tests/spark/test_life.py
fails if it changes.

An offset log has a line of version, a line of metadata and a line per input, in the order in which
they stand in the plan; file sources also keep a log of the files they know. Of a unit with state
every source is followed by its pulse. A first batch over nothing is committed, so that there is a
state to go on with; then its log is written over. A unit without state needs the logs alone.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import StateError
from evenflow.spark.state.sealed import write_json
from evenflow.spark.unit.checkpoint import HEADER, committed_batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_UNREAD = "-"
"""How an offset log says that nothing was read of a source."""


@dataclass(frozen=True, slots=True)
class Donation:
    """How far a donor has read one source."""

    checkpoint: Path
    batch: int
    """The donor's last."""
    position: int
    """Of the source among the inputs of the donor's plan."""


@dataclass(frozen=True, slots=True)
class Around:
    """What held before a donor's last batch, and what after it."""

    before: int
    after: int


def keep_seed(
    seed: Path, donations: Mapping[str, Donation], watermarks_ms: Around, read_us: Around | None
) -> None:
    """Keep how far sources had been read.

    Args:
        seed: Folder for it.
        donations: By source.
        watermarks_ms: The smallest of the donors'.
        read_us: The newest event times that donors had read, if any had.
    """
    beside = seed.with_name(seed.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    offsets = {}
    header: list[str] = []
    for name, given in donations.items():
        lines = (given.checkpoint / "offsets" / str(given.batch)).read_text().splitlines()
        header = lines[:HEADER]
        offsets[name] = lines[HEADER + given.position]
        log = given.checkpoint / "sources" / str(given.position)
        if log.is_dir():
            shutil.copytree(log, beside / "sources" / name)
    kept = {
        "offsets": offsets,
        "watermarks_ms": [watermarks_ms.before, watermarks_ms.after],
        "read_us": None if read_us is None else [read_us.before, read_us.after],
        "header": header,
    }
    write_json(beside / "seed.json", kept)
    shutil.rmtree(seed, ignore_errors=True)
    beside.rename(seed)


def forget_seed(seed: Path) -> None:
    """Remove a seed that was sown: at once, because half a seed would sow half a log."""
    beside = seed.with_name(seed.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    seed.rename(beside)
    shutil.rmtree(beside)


def sow_stateless(seed: Path, checkpoint: Path, sources: Sequence[str]) -> Around | None:
    """Make the checkpoint of a unit without state.

    Args:
        seed: The seed.
        checkpoint: What to make.
        sources: In the order in which the unit's plan reads them.

    Returns:
        The newest event times that the donors had read: no log of the unit has it.
    """
    kept = json.loads((seed / "seed.json").read_text())
    for position, name in enumerate(sources):
        _copy_log(seed, name, checkpoint, position)
    lines = [kept["offsets"].get(name, _UNREAD) for name in sources]
    _write(checkpoint / "metadata", [json.dumps({"id": str(uuid.uuid4())})])
    _write(checkpoint / "offsets" / "0", [*kept["header"], *lines])
    _write(checkpoint / "commits" / "0", ["v1", "{}"])
    return None if kept["read_us"] is None else Around(*kept["read_us"])


def sow(seed: Path, checkpoint: Path, sources: Sequence[str]) -> None:
    """Write over the logs of a unit that has finished batches over nothing.

    Args:
        seed: The seed.
        checkpoint: The unit's.
        sources: In the order in which the unit's plan reads them.

    Raises:
        StateError: It has not.
    """
    kept = json.loads((seed / "seed.json").read_text())
    done = committed_batch(checkpoint)
    if done is None:
        raise StateError(f"{checkpoint} has no batch to begin with")
    before, after = kept["watermarks_ms"]
    offsets = (checkpoint / "offsets" / str(done)).read_text().splitlines()
    offsets[1] = json.dumps(json.loads(offsets[1]) | {"batchWatermarkMs": before})
    commit = (checkpoint / "commits" / str(done)).read_text().splitlines()
    commit[1] = json.dumps(json.loads(commit[1]) | {"nextBatchWatermarkMs": after})
    for at, name in enumerate(sources):
        _copy_log(seed, name, checkpoint, 2 * at)
        offsets[HEADER + 2 * at] = kept["offsets"].get(name, _UNREAD)
    _write(checkpoint / "offsets" / str(done), offsets)
    _write(checkpoint / "commits" / str(done), commit)


def _copy_log(seed: Path, source: str, checkpoint: Path, position: int) -> None:
    target = checkpoint / "sources" / str(position)
    shutil.rmtree(target, ignore_errors=True)
    log = seed / "sources" / source
    if log.is_dir():
        shutil.copytree(log, target)


def _write(file: Path, lines: list[str]) -> None:
    """Replace a log. Spark's checksum of the old one, if there is any, goes with it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    beside = file.with_name(f"_{file.name}.new")
    beside.write_text("\n".join(lines))
    beside.replace(file)
