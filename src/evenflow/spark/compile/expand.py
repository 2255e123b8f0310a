"""Expanding a tuple into rows, one per entry that wants it.

Entries are evaluated in chunks, each an array, and the array is exploded: within a chunk there is
no call and no branch from one entry to the next. Chunks come from Spark's `unpivot`, which becomes
its Expand operator, a loop with a case for each; Spark puts the code of each case into a method of
its own, small enough for the JVM to compile without a flag. (One long array would need the flag;
joining arrays copies them; a case per entry costs twice as much at 200 entries.)

Unpivot marks each row with the *name* of the column it came from. The names here are as long as
the chunk's position and a power of two, so that the position is in the last bits of their length,
a number that Spark already knows. Bits are put together, not added up: Spark's sums look for an
overflow, which costs much until the JVM has compiled it well, after every change of a flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F
from pyspark.sql import types as st

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame

T = TypeVar("T")

AT, VALUE = "_at", "_value"
"""Columns of an expanded row: the position of its entry, and the entry's value."""

ALL_BITS = -1
"""The value of rows on which every condition holds: families with but one, and special rows."""

_NAME, _CHUNK, _WITHIN = "_name", "_chunk", "_within"

_CHUNK_BITS = 4
CHUNK = 1 << _CHUNK_BITS
"""Entries per chunk: as fast as larger ones, and predicates of 500 bytecodes still fit."""


def expand(
    frame: DataFrame,
    kept: Sequence[str],
    values: Sequence[Column],
    guarded: tuple[Column, Sequence[Column]] | None = None,
) -> DataFrame:
    """Return, for every tuple, a row for each value that is not NULL.

    Args:
        frame: The tuples.
        kept: Columns that rows keep of their tuple.
        values: One per entry, 64-bit integers.
        guarded: When there are more values, and these. They begin at the position `guarded_from`.
    """
    some, more = guarded if guarded is not None else (None, [])
    if some is not None and len(values) + len(more) <= CHUNK:
        values, some = [*values, *(F.when(some, value) for value in more)], None
    if some is None and len(values) <= CHUNK:
        rows = frame.select(*kept, F.posexplode(F.array(*values)).alias(AT, VALUE))
        return rows.filter(F.col(VALUE).isNotNull())
    numbered = [(i // CHUNK, F.array(*values[i : i + CHUNK])) for i in range(0, len(values), CHUNK)]
    if some is not None:
        # One chunk, however long: another round for every tuple costs, if it gives nothing too.
        start = guarded_from(len(values), len(more))
        numbered.append((start >> _CHUNK_BITS, F.when(some, F.array(*more))))
    most = 1 << numbered[-1][0].bit_length()
    named: list[Column | str] = [c.alias("x" * (most + i)) for i, c in numbered]
    rows = frame.unpivot([F.col(name) for name in kept], named, _NAME, _CHUNK)
    rows = rows.select(*kept, _NAME, F.posexplode(_CHUNK).alias(_WITHIN, VALUE))
    chunk = F.octet_length(F.col(_NAME)).bitwiseAND(F.lit(most - 1))
    at = F.shiftleft(chunk, _CHUNK_BITS).bitwiseOR(F.col(_WITHIN))
    return rows.filter(F.col(VALUE).isNotNull()).select(*kept, at.alias(AT), VALUE)


def guarded_from(values: int, guarded: int) -> int:
    """Return where guarded values begin: right behind the others if all fit in one chunk.

    Else where the bits are free that number them.
    """
    if values + guarded <= CHUNK:
        return values
    room = max(CHUNK, 1 << (guarded - 1).bit_length())
    return -(-values // room) * room


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


def one_or_array(values: Sequence[Column]) -> Column:
    """Return values of a tuple in one column, from which its rows `pick`."""
    return values[0] if len(values) == 1 else F.array(*values)


def pick(held: str, of: Sequence[T], wanted: Iterable[T | None], at: Column) -> Column:
    """Return the value that a row wants of those that its tuple holds, NULL if none.

    Args:
        held: Their column.
        of: What they are the values of.
        wanted: By position of a row's entry, which of these.
        at: The position.
    """
    places = [None if each is None else of.index(each) for each in wanted]
    if len(of) > 1:
        return F.get(F.col(held), look_up(places, at))
    if None not in places:
        return F.col(held)
    return F.when(look_up([place is not None for place in places], at), F.col(held))
