"""A gate for anybody's streaming DataFrame, without the rest of Evenflow.

    query = frame.transform(gate, "gate.txt", by=["id"]).writeStream...
    set_gate("gate.txt", 0.3)

The file (`gate_file.py`) holds the last fractions with the times from which they hold, which are
always to come when they are written. A batch chooses by its own time, which Spark keeps in the
offset log: done again it keeps the same tuples. A lower fraction keeps a subset.

The time stands in a higher-order function, which Spark does not compile: elsewhere it would be
written into the generated code, and every batch would compile its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.errors import ConfigError
from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.gates import ONE, identity_hash, threshold
from evenflow.spark.compile.trunk import quoted
from evenflow.spark.gate.gate_file import KNOWN, add_fraction, gate_path, make_gate
from evenflow.spark.source.feed import spark_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

_LAST = 4
"""Changes that are looked at one by one, the newest first."""
_WITHOUT_HASH = (st.MapType, st.VariantType)


def gate(frame: DataFrame, file: str | Path, *, by: Sequence[str] | None = None) -> DataFrame:
    """Return the tuples of a streaming DataFrame that a gate keeps: all, until `set_gate`.

    Args:
        frame: A streaming DataFrame.
        file: Keeps the gate's fractions, where the driver and all executors find it. It is made
            if it is not there. Should it be emptied while a query runs, the gate is open.
        by: Columns that tell what is kept together: an id, or a key; fields of a STRUCT by dots.
            Where they are NULL, and if none are given, all columns tell.

    Raises:
        ConfigError: The file cannot be one of a gate, or Spark has no hash of a column.
    """
    path = gate_path(file)
    names = [by] if isinstance(by, str) else by
    chosen = [_hashed(frame, name) for name in names] if names else None
    hash_ = identity_hash(chosen, _all_columns(frame, chosen))
    make_gate(path)
    told = frame.sparkSession.read.text(spark_path(path))
    values = F.split(F.col("value"), ",").cast(st.ArrayType(st.LongType()))
    limit = _in_force(told.select(values).scalar())
    return frame.filter(hash_ <= limit)


def set_gate(file: str | Path, keep: float) -> None:
    """Have a gate keep a fraction from the next batch on that begins in a moment.

    A batch that is done again keeps what it kept, unless the gate was changed 1,024 times since:
    of the batches before that, the oldest fraction that is known holds. Of two processes whose
    clocks differ, that which is behind changes the gate when its clock has come to the last change.

    Raises:
        ConfigError: The fraction is not between 0 and 1, or there is no such gate.
    """
    if not _is_fraction(keep):
        raise ConfigError(f"a gate keeps 0 to 1, not {keep!r:.40}")
    add_fraction(gate_path(file), threshold(keep), lambda: time.time_ns() // 1000)


def _is_fraction(keep: object) -> bool:
    return isinstance(keep, int | float) and 0 <= keep <= 1


def _in_force(told: Column) -> Column:
    """Return the limit that holds at the batch's time; that of an open gate if none is told.

    Mostly that is the newest, or one of the last. Only where it is not, as in a batch that is done
    again after many changes, all are looked through, for each tuple: their times and the batch's
    are sorted, and what stands before the batch's own begins last.
    """
    moments = F.transform(F.array(F.lit(0)), lambda _: F.unix_micros(F.current_timestamp()))
    now = F.element_at(moments, 1)
    after = now + F.lit(1).cast(LONG)
    begun = F.array_position(F.sort_array(F.array_append(F.slice(told, 1, KNOWN), after)), after)
    at = F.greatest(begun.cast(st.IntegerType()) - 2, F.lit(0)) + F.lit(KNOWN)
    limit = F.get(told, at)
    for last in range(KNOWN - _LAST, KNOWN):
        limit = F.when(now >= F.get(told, F.lit(last)), F.get(told, F.lit(KNOWN + last))).otherwise(
            limit
        )
    return F.coalesce(limit, F.lit(ONE - 1).cast(LONG))


def _hashed(frame: DataFrame, name: str) -> Column:
    """Return a column, or a field by dots, as Spark can hash it."""
    for column in (quoted(name), ".".join(map(quoted, name.split(".")))):
        try:
            (field,) = frame.select(F.col(column)).schema
        except AnalysisException:
            continue
        made = _hashable(F.col(column), field.dataType)
        if made is None:
            raise ConfigError(
                f"a gate cannot tell tuples apart by {name}: it is a MAP within other values, "
                "or a VARIANT",
                "name other columns in `by`",
            )
        return made
    raise ConfigError(f"a gate cannot go by {name}: there is no such column", _there(frame))


def _all_columns(frame: DataFrame, chosen: Sequence[Column] | None) -> list[Column]:
    """Return all columns; if others were chosen, without those that Spark cannot hash."""
    if chosen is None:
        return [_hashed(frame, name) for name in frame.columns]
    fields = frame.schema.fields
    made = [_hashable(F.col(quoted(field.name)), field.dataType) for field in fields]
    return [each for each in made if each is not None] or list(chosen)


def _hashable(column: Column, type_: st.DataType) -> Column | None:
    """Return a column as something that Spark can hash, if it can. Of a MAP it hashes entries."""
    if isinstance(type_, st.MapType) and not _lacks_hash(type_.keyType, type_.valueType):
        return F.array_sort(F.map_entries(column))
    return None if _lacks_hash(type_) else column


def _lacks_hash(*types: st.DataType) -> bool:
    """Whether Spark has no hash of values of one of some types."""
    for each in types:
        if isinstance(each, _WITHOUT_HASH):
            return True
        if isinstance(each, st.ArrayType) and _lacks_hash(each.elementType):
            return True
        if isinstance(each, st.StructType) and _lacks_hash(*(f.dataType for f in each)):
            return True
    return False


def _there(frame: DataFrame) -> str:
    return f"there are {', '.join(frame.columns[:10])}"
