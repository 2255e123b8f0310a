"""What each batch of a stack is told: what is late, what is cut, and what its gates keep.

Spark drops late rows after partial aggregation and says only how many groups it dropped. To count
late tuples per query they must be known before. Spark judges batch n by the watermark that stands
in the offset log of batch n-1, so it is known before batch n is planned; we write it to a file of
one line, which the batch reads by a scalar subquery. The value comes from the log alone: a batch
that is replayed gets the same one.

Beside it stands the newest event time that was read before the families that are new: windows that
start later are theirs. It is known only when the unit has stopped, after the new plan was made.

Behind these stands what the gates keep, which comes from the control history alone.

An array, because Spark writes a scalar's value into the generated code and would compile new code
for every batch (as it would for `current_timestamp()`, by which a batch could choose for itself). A
line of fixed length, because Spark remembers the length of the file; a file for each era, because
what is told there has its own length, and the plan of the next era is made while this one runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.model.operator import Apply, Source, Union, upstream
from evenflow.spark.compile.gates import GateColumns, GatePlan
from evenflow.spark.compile.stack import Bounds
from evenflow.spark.source.feed import spark_path
from evenflow.spark.unit.checkpoint import late_bound_ms, next_batch, watermark_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.model.unit import Unit
    from evenflow.spark.gate.history import ControlHistory, GateRow

_DIGITS = 24
_BOUNDS = 2
"""Numbers before those of the gates."""


def stay_in_state_ms(unit: Unit) -> int | None:
    """Return how far the watermark goes until all has left the state that was read before.

    None if that cannot be told: of several inputs the watermark is that of the slowest, and a
    function of the user's may change event times.
    """
    below = list(upstream(unit.trunk))
    sources = [each for each in below if isinstance(each, Source)]
    if len(sources) != 1 or any(isinstance(each, Apply | Union) for each in below):
        return None
    # The watermark is cut to milliseconds.
    largest = max((family.window.size_us for family in unit.families), default=0)
    return sources[0].watermark_us // 1000 + 1 + -(-largest // 1000)


class Told:
    """Writes what the next batch is told, and gives the columns that read it."""

    def __init__(
        self,
        file: Path,
        checkpoint: Path,
        history: ControlHistory,
        gates: GatePlan,
        stay_ms: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            file: Where it is written.
            checkpoint: Of the unit.
            history: Of its gates.
            gates: How batches are told of them.
            stay_ms: How far the watermark goes until all has left the state that was read.
        """
        self._file = file
        self._stay_ms = stay_ms
        self._checkpoint = checkpoint
        self._history = history
        self._gates = gates
        self.since_us = 0
        """The newest event time read before the new families began."""

    def ensure(self) -> None:
        """Have a file there to plan with. It is not read before `prepare` has written it.

        One of another length was written by a process that told less, or more.
        """
        line = self._line(0, self._history.of(0))
        if not self._file.exists() or self._file.stat().st_size != len(line):
            self._write(line)

    def prepare(self) -> None:
        """Write what the batch is told that runs first after a start."""
        row = self._history.of(next_batch(self._checkpoint))
        self._write(self._line(late_bound_ms(self._checkpoint), row))

    def batch_done(self, batch: int) -> None:
        """Write for the batch after this one, whose work is done but not committed."""
        row = self._history.begin(batch + 1)
        self._write(self._line(watermark_of(self._checkpoint, batch), row))

    def in_state(self, batch: int) -> dict[int, GateRow]:
        """Return what gates kept whose drops may leave the state in a batch, by version."""
        return self._history.needed(
            batch,
            late_ms=watermark_of(self._checkpoint, batch - 1),
            watermark_ms=watermark_of(self._checkpoint, batch),
            stay_ms=self._stay_ms,
        )

    def columns(self, session: SparkSession, *, since: bool) -> Bounds:
        """Return what the batch is told that evaluates it."""
        line = session.read.text(spark_path(self._file))
        values = F.split(F.col("value"), ",").cast(st.ArrayType(st.LongType()))
        told = line.select(values).scalar()
        gates = GateColumns(self._gates, told, _BOUNDS)
        return Bounds(F.get(told, F.lit(0)), gates, F.get(told, F.lit(1)) if since else None)

    def _line(self, watermark_ms: int, row: GateRow) -> str:
        told = (watermark_ms * 1000 + 1, self.since_us, *self._gates.told(row))
        return ",".join(f"{number:0{_DIGITS}d}" for number in told) + "\n"

    def _write(self, line: str) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_suffix(".new")
        beside.write_text(line)
        beside.replace(self._file)
