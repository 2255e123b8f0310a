"""Expanding a tuple into rows, one per entry that wants it.

Spark's `unpivot` becomes its Expand operator: a loop over the entries with one case each, whose
code Spark puts into methods of their own, small enough for the JVM to compile. No array is built,
and a row that nobody wants costs one predicate. (An exploded array costs a third more, and needs a
JVM flag where it is long.)

Unpivot marks each row with the *name* of the column it came from. The names here are as long as
the entry's position, so that the position is their length, a number that Spark already knows.
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

_NAME = "_name"


def expand(frame: DataFrame, kept: Sequence[str], values: Sequence[Column]) -> DataFrame:
    """Return, for every tuple, a row for each value that is not NULL.

    Args:
        frame: The tuples.
        kept: Columns that rows keep of their tuple.
        values: One per entry, 64-bit integers.
    """
    named: list[Column | str] = [value.alias("x" * (at + 1)) for at, value in enumerate(values)]
    rows = frame.unpivot([F.col(name) for name in kept], named, _NAME, VALUE)
    position = (F.octet_length(F.col(_NAME)) - 1).alias(AT)
    return rows.filter(F.col(VALUE).isNotNull()).select(*kept, position, VALUE)


def look_up(
    values: Sequence[int | bool | None], at: Column, type_: st.DataType | None = None
) -> Column:
    """Return the value at a position of a constant array, or the constant if all are equal."""
    if list(values) == list(range(len(values))) and type_ is None:
        return at
    if len(set(values)) == 1:
        value = F.lit(values[0])
        return value.cast(type_) if type_ is not None else value
    kind = type_ or (
        st.BooleanType() if any(isinstance(v, bool) for v in values) else st.IntegerType()
    )
    return F.get(F.array(*(F.lit(v) for v in values)).cast(st.ArrayType(kind)), at)
