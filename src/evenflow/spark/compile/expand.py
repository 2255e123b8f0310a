"""Expanding a tuple into rows, one per entry that wants it.

Entries are evaluated in chunks, each an array, and the array is exploded: within a chunk there is
no call and no branch from one entry to the next. Chunks come from Spark's `unpivot`, which becomes
its Expand operator, a loop with a case for each; Spark puts the code of each case into a method of
its own, small enough for the JVM to compile without a flag. (One long array would need the flag;
joining arrays copies them; a case per entry costs twice as much at 200 entries.)

Unpivot marks each row with the *name* of the column it came from. The names here are as long as
the chunk's position, so that the position is their length, a number that Spark already knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

AT, VALUE = "_at", "_value"
"""Columns of an expanded row: the position of its entry, and the entry's value."""

_NAME, _CHUNK, _WITHIN = "_name", "_chunk", "_within"

CHUNK = 16
"""Entries per chunk: as fast as larger ones, and predicates of 500 bytecodes still fit."""


def expand(frame: DataFrame, kept: Sequence[str], values: Sequence[Column]) -> DataFrame:
    """Return, for every tuple, a row for each value that is not NULL.

    Args:
        frame: The tuples.
        kept: Columns that rows keep of their tuple.
        values: One per entry, 64-bit integers.
    """
    chunks = [F.array(*values[i : i + CHUNK]) for i in range(0, len(values), CHUNK)]
    if len(chunks) == 1:
        rows = frame.select(*kept, F.posexplode(chunks[0]).alias(AT, VALUE))
        return rows.filter(F.col(VALUE).isNotNull())
    named: list[Column | str] = [chunk.alias("x" * (i + 1)) for i, chunk in enumerate(chunks)]
    rows = frame.unpivot([F.col(name) for name in kept], named, _NAME, _CHUNK)
    rows = rows.select(*kept, _NAME, F.posexplode(_CHUNK).alias(_WITHIN, VALUE))
    before = (F.octet_length(F.col(_NAME)) - 1) * CHUNK
    return rows.filter(F.col(VALUE).isNotNull()).select(
        *kept, (F.col(_WITHIN) + before).alias(AT), VALUE
    )


def choose(frame: DataFrame, kept: Sequence[str], which: Column, value: Column) -> DataFrame:
    """Return one row for every tuple, of the entry at the position `which`."""
    return frame.select(*kept, which.alias(AT), value.alias(VALUE))


def look_up(
    values: Sequence[int | bool | None], at: Column, type_: st.DataType | None = None
) -> Column:
    """Return the value at a position of a constant array, or the constant if all are equal."""
    flags = any(isinstance(v, bool) for v in values)
    if type_ is None and not flags and list(values) == list(range(len(values))):
        return at
    if len(set(values)) == 1:
        value = F.lit(values[0])
        return value.cast(type_) if type_ is not None else value
    kind = type_ or (st.BooleanType() if flags else st.IntegerType())
    return F.get(F.array(*(F.lit(v) for v in values)).cast(st.ArrayType(kind)), at)
