"""Beginning a unit where another one stands.

A query that fits into no unit gets a new one. It must not read its source from the beginning, but
go on from where the flow has read it. Spark has no such option for all sources; it is written into
the checkpoint of the new unit, which is not a contract of Spark's: tests/spark/test_life.py fails
if it changes.

An offset log has a line of version, a line of metadata and a line per source, in the order in
which they stand in the plan; file sources also keep a log of the files they know. Of a unit with
state, a first batch over nothing is committed, so that there is a state to go on with; then its
log is written over with the donor's. A unit without state needs the logs alone.
"""

from __future__ import annotations

import json
import shutil
import uuid
from typing import TYPE_CHECKING

from evenflow.errors import StateError
from evenflow.spark.state.sealed import write_json
from evenflow.spark.unit.checkpoint import HEADER, committed_batch

if TYPE_CHECKING:
    from pathlib import Path


def keep_seed(
    seed: Path, checkpoint: Path, batch: int, watermarks_ms: tuple[int, int] | None
) -> None:
    """Keep how far a donor had read after a batch.

    Args:
        seed: Folder for it.
        checkpoint: The donor's.
        batch: The donor's last batch.
        watermarks_ms: The source's watermark before and after the batch, if the donor has none of
            its own. One that has also has a pulse, which is its last source.
    """
    pulsed = watermarks_ms is None
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    commit = (checkpoint / "commits" / str(batch)).read_text().splitlines()
    offsets = lines[HEADER:-1] if pulsed else lines[HEADER:]
    beside = seed.with_name(seed.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    for index in range(len(offsets)):
        log = checkpoint / "sources" / str(index)
        if log.is_dir():
            shutil.copytree(log, beside / "sources" / str(index))
    if watermarks_ms is None:
        watermarks_ms = (
            json.loads(lines[1])["batchWatermarkMs"],
            json.loads(commit[1])["nextBatchWatermarkMs"],
        )
    kept = {
        "offsets": offsets,
        "watermark_ms": watermarks_ms[0],
        "next_watermark_ms": watermarks_ms[1],
        "header": lines[:HEADER],
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


def sow_stateless(seed: Path, checkpoint: Path) -> tuple[int, int]:
    """Make the checkpoint of a unit without state.

    Returns:
        The watermark before and after the donor's last batch: no log of the unit has it.
    """
    kept = json.loads((seed / "seed.json").read_text())
    _copy_logs(seed, checkpoint)
    _write(checkpoint / "metadata", [json.dumps({"id": str(uuid.uuid4())})])
    _write(checkpoint / "offsets" / "0", [*kept["header"], *kept["offsets"]])
    _write(checkpoint / "commits" / "0", ["v1", "{}"])
    return kept["watermark_ms"], kept["next_watermark_ms"]


def sow(seed: Path, checkpoint: Path) -> None:
    """Write the donor's logs over those of a unit that has finished batches over nothing.

    Raises:
        StateError: It has not.
    """
    kept = json.loads((seed / "seed.json").read_text())
    done = committed_batch(checkpoint)
    if done is None:
        raise StateError(f"{checkpoint} has no batch to begin with")
    last = str(done)
    offsets = (checkpoint / "offsets" / last).read_text().splitlines()
    metadata = json.loads(offsets[1]) | {"batchWatermarkMs": kept["watermark_ms"]}
    own = offsets[HEADER + len(kept["offsets"]) :]
    commit = (checkpoint / "commits" / last).read_text().splitlines()
    after = json.loads(commit[1]) | {"nextBatchWatermarkMs": kept["next_watermark_ms"]}
    _copy_logs(seed, checkpoint)
    lines = [offsets[0], json.dumps(metadata), *kept["offsets"], *own]
    _write(checkpoint / "offsets" / last, lines)
    _write(checkpoint / "commits" / last, [commit[0], json.dumps(after), *commit[2:]])


def _copy_logs(seed: Path, checkpoint: Path) -> None:
    for log in (seed / "sources").glob("*"):
        target = checkpoint / "sources" / log.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(log, target)


def _write(file: Path, lines: list[str]) -> None:
    """Replace a log. Spark's checksum of the old one, if there is any, goes with it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    beside = file.with_name(f"_{file.name}.new")
    beside.write_text("\n".join(lines))
    beside.replace(file)
