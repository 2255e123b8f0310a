"""What gates drop of the tuples of a batch, computed by plain Spark from the row that holds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from evenflow.spark.compile.gates import positive_hash, threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

    from tests.spark.kill.attempt import Batch
    from tests.spark.kill.schedule import SurgeQuery

_SECOND_US = 1_000_000


def dropped(
    session: SparkSession, query: SurgeQuery, sent: pa.Table, batches: Sequence[Batch]
) -> Counter[int]:
    """Return how many tuples, in windows, of each batch are above the threshold of its row.

    Args:
        session: Where to compute it.
        query: Whose gate.
        sent: All tuples, as they are sent.
        batches: Those that counted tuples for it.
    """
    shut = [(batch, _fraction(query, batch)) for batch in batches]
    tables = [_tuples(sent, batch, fraction) for batch, fraction in shut if fraction < 1.0]
    if not tables:
        return Counter()
    frame = session.createDataFrame(pa.concat_tables(tables))
    above = F.lit(0)
    for hashed in _hashed(query, batches[0]):
        above = above + (positive_hash(hashed) > F.col("most")).cast("int")
    rows = frame.groupBy("batch").agg(F.sum(above).alias("n")).collect()
    return Counter({row["batch"]: row["n"] for row in rows})


def _fraction(query: SurgeQuery, batch: Batch) -> float:
    (part,) = batch.parts(query.name)
    return batch.row.fraction(part) if batch.rows else 1.0


def _tuples(sent: pa.Table, batch: Batch, fraction: float) -> pa.Table:
    own = sent.slice(batch.begin["rows"], batch.rows).select(["id", "meter", "feeder", "ts"])
    own = own.set_column(3, "us", own.column("ts").cast("int64"))
    for name, value in (("batch", batch.number), ("most", threshold(fraction))):
        own = own.append_column(name, pa.array([value] * batch.rows, pa.int64()))
    return own


def _hashed(query: SurgeQuery, batch: Batch) -> list[list[Column]]:
    """Return what is hashed of a tuple: its id; or key slots and end, for each of its windows."""
    if query.key is None:
        return [[F.col("id")]]
    slots = batch.attempts[-1]["slots"]
    own = slots.index("string")
    keys = [F.col(query.key) if at == own else _empty(slot) for at, slot in enumerate(slots)]
    size, slide = query.size * _SECOND_US, query.slide * _SECOND_US
    newest = F.col("us") - F.pmod(F.col("us"), F.lit(slide))
    return [[*keys, newest + F.lit(size - 1 - back * slide)] for back in range(query.windows)]


def _empty(carrier: str) -> Column:
    """Return what stands in a slot that a query has no key for."""
    return F.lit("") if carrier == "string" else F.lit(0).cast(carrier)
