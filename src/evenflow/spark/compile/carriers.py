"""How values travel in the stack: as text, 64-bit integers or doubles, and how they come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.model import types as t
from evenflow.spark.compile.types import to_spark

if TYPE_CHECKING:
    from pyspark.sql import Column

LONG = st.LongType()


def to_long(value: Column, type_: t.DataType) -> Column:
    """Return a boolean, integer, date or timestamp as a 64-bit integer, order kept."""
    match type_:
        case t.DateType():
            return F.unix_date(value).cast(LONG)
        case t.TimestampType():
            return F.unix_micros(value)
        case t.BooleanType():
            return value.cast(st.IntegerType()).cast(LONG)
        case _:
            return value.cast(LONG)


def from_long(value: Column, type_: t.DataType) -> Column:
    """Return what `to_long` was given."""
    match type_:
        case t.DateType():
            return F.date_from_unix_date(value.cast(st.IntegerType()))
        case t.TimestampType():
            return F.timestamp_micros(value)
        case t.BooleanType():
            return value != 0
        case _:
            return value.cast(to_spark(type_))


def to_key(value: Column, type_: t.DataType, carrier: str) -> Column:
    """Return a key in its carrier."""
    if carrier == "long":
        return to_long(value, type_)
    if carrier == "string" and isinstance(type_, t.DecimalType):
        return value.cast(st.StringType())
    return value


def from_key(value: Column, type_: t.DataType, carrier: str) -> Column:
    """Return the key that `to_key` was given."""
    if carrier == "long":
        return from_long(value, type_)
    if carrier == "string" and isinstance(type_, t.DecimalType):
        return value.cast(to_spark(type_))
    return value


def to_slot(value: Column, given: t.DataType, slot: t.DataType) -> Column:
    """Return an aggregate's argument as the type of its slot."""
    if given == slot:
        return value
    if slot == t.BIGINT:
        return to_long(value, given)
    return value.cast(to_spark(slot))
