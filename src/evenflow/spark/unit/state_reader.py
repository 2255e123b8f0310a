"""Reading a stack's state from its checkpoint: what is open, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.spark.compile.entries import GATED, LATE, NEWEST, PULSE
from evenflow.spark.compile.keys import FAMILY, without_bits
from evenflow.spark.compile.stack import END
from evenflow.spark.unit.checkpoint import committed_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from evenflow.model.unit import Unit


def open_counts(session: SparkSession, unit: Unit, checkpoint: Path) -> dict[int, dict[str, int]]:
    """Return, per family number, the sum of each count slot over all groups in the state."""
    if committed_batch(checkpoint) is None:
        return {}
    names = [s.name for s in unit.slots if s.function == "count"]
    grouped = _rows(session, unit, checkpoint).groupBy(FAMILY)
    found = grouped.agg(*(F.sum(n).alias(n) for n in names)).collect()
    return {row[FAMILY]: {n: int(row[n] or 0) for n in names} for row in found}


def last_open_end(session: SparkSession, unit: Unit, checkpoint: Path) -> int | None:
    """Return the last microsecond of the last open window, or None if none is open."""
    if committed_batch(checkpoint) is None:
        return None
    family = F.col(FAMILY)
    answers_or_dropped = (family < LATE) | ((family >= GATED) & (family < PULSE))
    rows = _rows(session, unit, checkpoint).filter(answers_or_dropped)
    found = rows.agg(F.max(F.unix_micros(F.col(END)))).collect()[0][0]
    return None if found is None else int(found)


def newest_read(session: SparkSession, checkpoint: Path, batch: int) -> int | None:
    """Return the newest event time that a stack over several sources had read after a batch.

    To the second; None if it is as old as the watermark, or nothing was read.
    """
    key = F.col("key")
    reader = session.read.format("statestore").option("batchId", batch)
    state = reader.load(str(checkpoint))
    rows = state.filter(without_bits(key.getField(FAMILY)) == NEWEST)
    found = rows.agg(F.max(F.unix_micros(key.getField(END)))).collect()[0][0]
    return None if found is None else int(found)


def _rows(session: SparkSession, unit: Unit, checkpoint: Path) -> DataFrame:
    """Return family, end and count slots of every group.

    State values are aggregation buffers in slot order under Spark's own names; slots of counts
    come first and have one buffer each, so they are found by position.
    """
    state = session.read.format("statestore").load(str(checkpoint))
    names = [s.name for s in unit.slots if s.function == "count"]
    values = state.schema["value"].dataType
    if not isinstance(values, st.StructType):
        raise TypeError("the state's value is not a struct")
    renamed = st.StructType(
        [
            st.StructField(names[i] if i < len(names) else f"_{i}", f.dataType, True)
            for i, f in enumerate(values.fields)
        ]
    )
    plain = state.select("key", F.col("value").cast(renamed).alias("value"))
    key = F.col("key")
    columns = [without_bits(key.getField(FAMILY)).alias(FAMILY), key.getField(END).alias(END)]
    columns += [F.col("value").getField(n).alias(n) for n in names]
    return plain.select(*columns)
