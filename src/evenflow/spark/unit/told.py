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

from evenflow.spark.compile.gates import GateColumns, GatePlan
from evenflow.spark.compile.stack import Bounds
from evenflow.spark.source.feed import spark_path
from evenflow.spark.unit.checkpoint import late_bound_ms, next_batch, watermark_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.spark.gate.history import ControlHistory, GateRow

_DIGITS = 24
_BOUNDS = 2
"""Numbers before those of the gates."""


class Told:
    """Writes what the next batch is told, and gives the columns that read it."""

    def __init__(
        self, file: Path, checkpoint: Path, history: ControlHistory, gates: GatePlan
    ) -> None:
        self._file = file
        self._checkpoint = checkpoint
        self._history = history
        self._gates = gates
        self.since_us = 0
        """The newest event time read before the new families began."""

    def ensure(self) -> None:
        """Have a file there to plan with. It is not read before `prepare` has written it."""
        if not self._file.exists():
            self._write(0, self._history.of(0))

    def prepare(self) -> None:
        """Write what the batch is told that runs first after a start."""
        row = self._history.of(next_batch(self._checkpoint))
        self._write(late_bound_ms(self._checkpoint), row)

    def batch_done(self, batch: int) -> None:
        """Write for the batch after this one, whose work is done but not committed."""
        self._write(watermark_of(self._checkpoint, batch), self._history.begin(batch + 1))

    def columns(self, session: SparkSession, *, since: bool) -> Bounds:
        """Return what the batch is told that evaluates it."""
        line = session.read.text(spark_path(self._file))
        values = F.split(F.col("value"), ",").cast(st.ArrayType(st.LongType()))
        told = line.select(values).scalar()
        gates = GateColumns(self._gates, told, _BOUNDS)
        return Bounds(F.get(told, F.lit(0)), gates, F.get(told, F.lit(1)) if since else None)

    def _write(self, watermark_ms: int, row: GateRow) -> None:
        told = (watermark_ms * 1000 + 1, self.since_us, *self._gates.told(row))
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_suffix(".new")
        beside.write_text(",".join(f"{number:0{_DIGITS}d}" for number in told) + "\n")
        beside.replace(self._file)
