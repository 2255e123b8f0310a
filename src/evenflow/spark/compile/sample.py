"""Samples of tuples that are rejected: a few per batch, as text, found beside the batch's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.spark.compile.types import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, Row

    from evenflow.model.operator import Operator

MOST_SAMPLES = 16
"""Per batch."""

WHY, TUPLE = "why", "tuple"
"""What a sample says: why the trunk failed on the tuple, if it did, and the tuple."""

_FORMAT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
_WAYS, _SAMPLE = "_ways", "_sample"
_OBSERVED = "rejected"


def sample_text(trunk: Operator, why: SparkColumn | None) -> SparkColumn:
    """Return a tuple of a trunk as JSON."""
    columns = [F.col(f"c{i}").alias(f.name) for i, f in enumerate(trunk.schema)]
    reason = F.lit(None).cast("string") if why is None else why
    return F.to_json(F.struct(reason.alias(WHY), F.struct(*columns).alias(TUPLE)), _FORMAT)


def tuple_of(sample: SparkColumn, trunk: Operator) -> SparkColumn:
    """Return the tuple of a sample, as a struct."""
    return F.from_json(F.get_json_object(sample, f"$.{TUPLE}"), struct(trunk.schema), _FORMAT)


def observe_rejects(
    frame: DataFrame, rejecting: Sequence[SparkColumn], sample: SparkColumn
) -> DataFrame:
    """Have a stream report samples of the tuples that are rejected, with each batch's progress.

    Tuples that are rejected in different ways, or sets of ways, mostly have samples of their own.
    """
    # A number for each set of ways; the same one for a few sets, if there are many.
    ways = sum(
        (F.when(each, F.lit(1 + 5 * i)).otherwise(F.lit(0)) for i, each in enumerate(rejecting)),
        F.lit(0),
    )
    found = frame.select("*", ways.alias(_WAYS))
    found = found.select("*", F.when(F.col(_WAYS) > 0, sample).alias(_SAMPLE))
    place = F.col(_WAYS) % MOST_SAMPLES
    kept = [
        F.any_value(F.when(place == i, F.col(_SAMPLE)), F.lit(True)).alias(f"s{i}")
        for i in range(MOST_SAMPLES)
    ]
    return found.observe(_OBSERVED, *kept).drop(_WAYS, _SAMPLE)


def observed_samples(metrics: Mapping[str, Row]) -> Iterator[str]:
    """Yield the samples in what a batch observed."""
    for text in metrics.get(_OBSERVED) or ():
        if text is not None:
            yield text
