"""The share that was kept of each window, written beside the answers, never into their schema.

A folder that readers of the answers pass over holds a file per batch that closed such windows, one
line per window, and is written like the answers: under the same name if a batch is done again.
Of windows that are not named there, all was kept.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from evenflow.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from evenflow.spark.gate.whole import Window
    from evenflow.spark.sink.answer_sink import AnswerSink

FOLDER = "_shares"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def smallest_share(windows: Iterable[Window]) -> float:
    """Return the smallest share that was kept of some windows; 1 if there are none."""
    return min((window.share for window in windows), default=1.0)


def write_shares(
    sinks: Sequence[AnswerSink],
    windows: Sequence[tuple[int, Window]],
    unit: str,
    batch: int,
) -> None:
    """Write what was kept of the windows of a query that a batch closed.

    Args:
        sinks: Of the query. Those that are not files have nothing beside them.
        windows: With their sizes in microseconds.
        unit: Who closed them.
        batch: When.

    Raises:
        SinkError: It cannot be written.
    """
    lines = [json.dumps(_line(size, window)) for size, window in windows]
    for sink in sinks:
        if sink.by_executors:
            _write(shares_file(sink, unit, batch), lines)


def shares_file(sink: AnswerSink, unit: str, batch: int) -> Path:
    """Return where the shares of a batch stand, beside the answers of a sink of files."""
    answers = sink.target(unit, batch)
    return answers.parent / FOLDER / f"{answers.stem}.json"


def remove_shares(sink: AnswerSink, unit: str, batch: int) -> None:
    """Remove the shares of a batch, if there are any."""
    with suppress(FileNotFoundError, NotADirectoryError):
        shares_file(sink, unit, batch).unlink()


def _line(size_us: int, window: Window) -> Mapping[str, object]:
    end = window.end_us + 1
    return {
        "start": _moment(end - size_us),
        "end": _moment(end),
        "share": round(window.share, 6),
        "contributed": window.kept,
        "gate": window.dropped,
        "cut": window.cut,
    }


def _moment(us: int) -> str | None:
    """Return an instant as text; None beyond the years that have one, which Spark does not mind."""
    try:
        return (_EPOCH + timedelta(microseconds=us)).isoformat()
    except OverflowError:
        return None


def _write(file: Path, lines: Sequence[str]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"_{file.name}.part")
        beside.write_text("\n".join(lines) + "\n")
        beside.replace(file)
    except OSError as exc:
        raise SinkError(f"cannot write to {file.parent}: {exc.strerror or exc}") from exc
