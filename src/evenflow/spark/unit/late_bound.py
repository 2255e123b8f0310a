"""The late bound: the smallest event time that is not late, told to each batch.

Spark drops late rows after partial aggregation and says only how many groups it dropped. To count
late tuples per query they must be known before. Spark judges batch n by the watermark that stands
in the offset log of batch n-1, so it is known before batch n is planned; we write it to a file of
one line, which the batch reads by a scalar subquery. The value comes from the log alone: a batch
that is replayed gets the same one.

Beside it stands the newest event time that was read before the families that are new: windows that
start later are theirs. It is known only when the unit has stopped, after the new plan was made.

An array, because Spark writes a scalar's value into the generated code and would compile new code
for every batch. A line of fixed length, because Spark remembers the length of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.spark.compile.stack import Bounds
from evenflow.spark.source.feed import spark_path
from evenflow.spark.unit.checkpoint import late_bound_ms, watermark_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_DIGITS = 24


class LateBound:
    """Writes the bounds for the next batch, and gives the columns that read them."""

    def __init__(self, file: Path, checkpoint: Path) -> None:
        self._file = file
        self._checkpoint = checkpoint
        self.since_us = 0
        """The newest event time read before the new families began."""

    def ensure(self) -> None:
        """Have a file there to plan with. The unit may be running: its bounds are not touched."""
        if not self._file.exists():
            self.prepare()

    def prepare(self) -> None:
        """Write the bounds of the batch that runs first after a start."""
        self._write(late_bound_ms(self._checkpoint))

    def batch_done(self, batch: int) -> None:
        """Write the bounds of the batch after this one, whose work is done but not committed."""
        self._write(watermark_of(self._checkpoint, batch))

    def columns(self, session: SparkSession, *, since: bool) -> Bounds:
        """Return the bounds, in microseconds, of the batch that evaluates them."""
        line = session.read.text(spark_path(self._file))
        values = F.split(F.col("value"), ",").cast(st.ArrayType(st.LongType()))
        array = line.select(values).scalar()
        return Bounds(F.get(array, F.lit(0)), F.get(array, F.lit(1)) if since else None)

    def _write(self, watermark_ms: int) -> None:
        bounds = (watermark_ms * 1000 + 1, self.since_us)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_suffix(".new")
        beside.write_text(",".join(f"{bound:0{_DIGITS}d}" for bound in bounds) + "\n")
        beside.replace(self._file)
