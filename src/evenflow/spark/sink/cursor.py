"""Cursors: answers handed to Python as they come. PIPES calls it a SinkCursor."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from evenflow.errors import ConfigError
from evenflow.spark.sink.answer_sink import DriverSink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from evenflow.spark.sink.answer_sink import AnswerSink

MOST_ANSWERS = 10_000


class Cursor(DriverSink):
    """Iterates over the answers of a query, from the next batch on, as dictionaries.

    Iterating waits for the next answer, and ends when the cursor is closed or the flow stops.
    The flow never waits for a reader: what does not fit into the buffer is missed, and `missed`
    says how much. Any thread may read.
    """

    def __init__(self, size: int = MOST_ANSWERS) -> None:
        """Open.

        Args:
            size: How many answers it holds for a reader that is slower than the flow.

        Raises:
            ConfigError: The size is not positive.
        """
        if size < 1:
            raise ConfigError("a cursor holds at least one answer")
        self._size = size
        self._answers: deque[dict[str, Any]] = deque()
        self._seen: dict[str, int] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.missed = 0
        """Answers that came while the buffer was full."""

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:
        """Take the answers of a batch, unless they have been taken before."""
        with self._changed:
            if self._closed or batch <= self._seen.get(unit, -1):
                return
            self._seen[unit] = batch
            fitting = max(0, self._size - len(self._answers))
            self._answers.extend(answers.slice(0, fitting).to_pylist())
            self.missed += max(0, answers.num_rows - fitting)
            self._changed.notify_all()

    def read(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Return the next answer; None if there is none in time, or none any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._answers or self._closed, timeout)
            return self._answers.popleft() if self._answers else None

    def close(self) -> None:
        """Take no more answers. What is there can still be read."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield answers until the end."""
        while (answer := self.read()) is not None:
            yield answer

    def __enter__(self) -> Self:
        """Return the cursor itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def close_cursors(sinks: Iterable[AnswerSink]) -> None:
    """Close those of some sinks that are cursors."""
    for each in sinks:
        if isinstance(each, Cursor):
            each.close()
