"""Our types as Spark's and as Arrow's, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from evenflow.errors import ConfigError
from evenflow.model import types as t
from evenflow.model.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPARK: dict[t.DataType, st.DataType] = {
    t.BOOLEAN: st.BooleanType(),
    t.TINYINT: st.ByteType(),
    t.SMALLINT: st.ShortType(),
    t.INT: st.IntegerType(),
    t.BIGINT: st.LongType(),
    t.DOUBLE: st.DoubleType(),
    t.STRING: st.StringType(),
    t.DATE: st.DateType(),
    t.TIMESTAMP: st.TimestampType(),
}
_ARROW: dict[t.DataType, pa.DataType] = {
    t.BOOLEAN: pa.bool_(),
    t.TINYINT: pa.int8(),
    t.SMALLINT: pa.int16(),
    t.INT: pa.int32(),
    t.BIGINT: pa.int64(),
    t.DOUBLE: pa.float64(),
    t.STRING: pa.string(),
    t.DATE: pa.date32(),
    t.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}
_OURS = {type(spark): ours for ours, spark in _SPARK.items()}


def to_spark(type_: t.DataType) -> st.DataType:
    """Return Spark's type."""
    match type_:
        case t.DecimalType(precision, scale):
            return st.DecimalType(precision, scale)
        case t.StructType(fields):
            return struct(fields)
        case _:
            return _SPARK[type_]


def struct(fields: Iterable[t.Field]) -> st.StructType:
    """Return Spark's struct of some fields, all of which may be NULL."""
    return st.StructType([st.StructField(f.name, to_spark(f.type), True) for f in fields])


def to_arrow(type_: t.DataType) -> pa.DataType:
    """Return Arrow's type, as answers are written in it."""
    match type_:
        case t.DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case t.StructType(fields):
            return pa.struct([pa.field(f.name, to_arrow(f.type)) for f in fields])
        case _:
            return _ARROW[type_]


def from_spark(type_: st.DataType) -> t.DataType:
    """Return our type.

    Raises:
        ConfigError: There is no such type in Evenflow.
    """
    if isinstance(type_, st.DecimalType):
        return t.DecimalType(type_.precision, type_.scale)
    if isinstance(type_, st.StructType):
        return t.StructType(tuple(t.Field(f.name, from_spark(f.dataType)) for f in type_.fields))
    if type(type_) not in _OURS:
        raise ConfigError(f"type {type_.simpleString()} is not supported")
    return _OURS[type(type_)]


def schema_of(spark_schema: st.StructType) -> Schema:
    """Return our schema of a DataFrame."""
    return Schema(tuple(t.Field(f.name, from_spark(f.dataType)) for f in spark_schema.fields))
