"""What gates left of windows and batches, written beside the answers, never into their schema.

A folder that readers of the answers pass over holds a file per batch in which something of a query
was dropped: one line per window that the batch closed, or one for the batch where there are no
windows. It is written like the answers: under the same name if a batch is done again. Of windows
and batches that are not named there, all was kept.

Sinks that are not files have nothing beside them. For their queries the same lines stand in the
state directory, in one file per unit and batch, of the last batches (`KEPT_BATCHES`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from evenflow.errors import SinkError
from evenflow.spark.gate.whole import Window, share_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from evenflow.spark.sink.answer_sink import AnswerSink

    Record = Mapping[str, object]

FOLDER = "_shares"
KEPT_BATCHES = 10_000
"""Of a unit, in the state directory."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def window_records(query: str, windows: Iterable[tuple[int, Window]]) -> list[Record]:
    """Return what is written of the windows of a query that a batch closed.

    Args:
        query: Whose.
        windows: Of all its parts, with their sizes in microseconds. A window of several parts is
            one.
    """
    whole: dict[tuple[int, int], Window] = {}
    for size, window in windows:
        known = whole.get((window.end_us, size))
        whole[window.end_us, size] = window if known is None else known.with_part(window)
    return [
        {
            "query": query,
            "start": _moment(end + 1 - size),
            "end": _moment(end + 1),
            "fraction": round(window.fraction, 6),
            "share": round(window.share, 6),
            "contributed": window.kept,
            "dropped": window.dropped,
            "cut": window.cut,
        }
        for (end, size), window in sorted(whole.items())
        if window.dropped
    ]


def batch_record(query: str, batch: int, fraction: float, kept: int, dropped: int) -> Record:
    """Return what is written of a batch of a query without windows."""
    return {
        "query": query,
        "batch": batch,
        "fraction": round(fraction, 6),
        "share": round(share_of(kept, dropped), 6),
        "kept": kept,
        "dropped": dropped,
    }


# Beside the answers.


def write_beside(
    sinks: Sequence[AnswerSink], records: Sequence[Record], unit: str, batch: int
) -> None:
    """Write what gates left of a query beside the answers of its sinks that are files.

    Raises:
        SinkError: It cannot be written.
    """
    for sink in sinks:
        if sink.by_executors:
            file = shares_file(sink, unit, batch)
            try:
                _write(file, records)
            except OSError as exc:
                raise SinkError(f"cannot write to {file.parent}: {exc.strerror or exc}") from exc


def has_no_place(sinks: Sequence[AnswerSink]) -> bool:
    """Whether a query has answers that nothing can stand beside."""
    return not sinks or not all(sink.by_executors for sink in sinks)


def shares_file(sink: AnswerSink, unit: str, batch: int) -> Path:
    """Return where the shares of a batch stand, beside the answers of a sink of files."""
    answers = sink.target(unit, batch)
    return answers.parent / FOLDER / f"{answers.stem}.json"


def remove_shares(sink: AnswerSink, unit: str, batch: int) -> None:
    """Remove the shares of a batch, if there are any."""
    with suppress(FileNotFoundError, NotADirectoryError):
        shares_file(sink, unit, batch).unlink()


# In the state directory.


def write_in_state(folder: Path, records: Sequence[Record], unit: str, batch: int) -> None:
    """Write what gates left of queries, or that they left all; and forget an old batch."""
    if records:
        _write(state_file(folder, unit, batch), records)
    else:
        remove_in_state(folder, unit, batch)
    remove_in_state(folder, unit, batch - KEPT_BATCHES)


def state_file(folder: Path, unit: str, batch: int) -> Path:
    """Return where in the state directory the shares of a batch stand."""
    return folder / f"{unit}-{batch:09d}.json"


def remove_in_state(folder: Path, unit: str, batch: int) -> None:
    """Remove what the state directory has of a batch, if there is anything."""
    state_file(folder, unit, batch).unlink(missing_ok=True)


def _moment(us: int) -> str | None:
    """Return an instant as text; None beyond the years that have one, which Spark does not mind."""
    try:
        return (_EPOCH + timedelta(microseconds=us)).isoformat()
    except OverflowError:
        return None


def _write(file: Path, records: Sequence[Record]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"_{file.name}.part")
    beside.write_text("".join(json.dumps(record) + "\n" for record in records))
    beside.replace(file)
