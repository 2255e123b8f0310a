"""Faults that the kill test must notice, planted into the process that is killed."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from evenflow.spark.gate.history import ControlHistory, GateRow
from evenflow.spark.sink.sinks import FileSink
from evenflow.spark.state.sealed import write_sealed
from evenflow.spark.unit import saved_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from evenflow.model.query import Query, Sink


def _other_names() -> None:
    """Files of a batch have other names in every process."""
    original = FileSink.__init__

    def init(self: FileSink, sink: Sink, query: Query, state_id: str) -> None:
        original(self, sink, query, f"{state_id}-{os.getpid()}")

    FileSink.__init__ = init  # type: ignore[method-assign]


def _counts_after_the_commit() -> None:
    """Counts are saved when the batch has been committed, not before."""

    def late(file: Path, body: Mapping[str, Any]) -> None:
        commit = file.parent / "checkpoint" / "commits" / max(body, key=int)

        def save() -> None:
            while not commit.exists():
                time.sleep(0.01)
            write_sealed(file, body)

        threading.Thread(target=save).start()

    assert "write_sealed" in vars(saved_counts)
    vars(saved_counts)["write_sealed"] = late


def _gates() -> None:
    """Not a fault: gates close and open from batch to batch, the same for every process."""
    begin = ControlHistory.begin

    def begin_with_gates(self: ControlHistory, batch: int) -> GateRow:
        fraction = FRACTIONS[batch % len(FRACTIONS)]
        self.ask(dict.fromkeys(range(MOST_PARTS), fraction))
        return begin(self, batch)

    ControlHistory.begin = begin_with_gates  # type: ignore[method-assign]


def _newest_gates() -> None:
    """A batch that is done again gets the gates that were set last, not those that it had."""

    def newest(self: ControlHistory, _: int) -> GateRow:
        return self._rows[-1]

    ControlHistory._of = newest  # type: ignore[method-assign, assignment]


FRACTIONS = (1.0, 0.7, 0.4, 0.4, 0.9)
MOST_PARTS = 64

FAULTS: dict[str, Callable[[], None]] = {
    "gates": _gates,
    "other names": _other_names,
    "newest gates": _newest_gates,
    "counts after the commit": _counts_after_the_commit,
}
