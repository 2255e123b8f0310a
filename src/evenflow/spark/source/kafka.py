"""Topics as streams: what Spark's connector is told, and the columns of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.model import kafka
from evenflow.spark.compile.trunk import MISFIT
from evenflow.spark.source.misfit import TELL_MISFITS, with_misfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame

    from evenflow.model import types as t
    from evenflow.model.schema import Schema

_PATIENCE = (
    # Kafka refuses one of these two that does not fit the other.
    {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "10000"},
    {"fetchOffset.numRetries": "1"},
    {"kafkaConsumer.pollTimeoutMs": "30000"},
)
"""How long Spark waits for a broker that is away, instead of its minutes: Evenflow shows it as a
failing source and tries again. Of each group all are set, or none if the user gives one."""


def kafka_options(schema: Schema, options: Mapping[str, str]) -> dict[str, str]:
    """Return what Spark's Kafka source is told."""
    told = {name: text for name, text in options.items() if name.lower() != kafka.VALUE}
    if schema.find("_headers") is not None:
        told["includeHeaders"] = "true"
    return with_defaults(told, _PATIENCE)


def with_defaults(
    options: Mapping[str, str], groups: Iterable[Mapping[str, str]]
) -> dict[str, str]:
    """Return options with those groups of defaults of which none is given."""
    told = dict(options)
    for group in groups:
        if all(kafka.option(options, name) is None for name in group):
            told.update(group)
    return told


def kafka_columns(frame: DataFrame, schema: Schema, options: Mapping[str, str]) -> DataFrame:
    """Return the records of topics, as Spark's connector gives them, with a schema's columns."""
    fields = kafka.value_columns(schema)
    is_text = kafka.value_kind(options) == "text"
    value = _text(F.col("value")) if is_text else json_value(F.col("value"), fields)
    records = frame.withColumn("value", value) if fields else frame
    columns = []
    for field in schema:
        column = _record_column(field.name.lower())
        if column is None:
            column = F.col("value") if is_text else F.col("value").getField(field.name)
        columns.append(column.alias(field.name))
    if fields and not is_text:
        columns.append(F.col("value").getField(MISFIT).alias(MISFIT))
    return records.select(*columns)


def json_value(value: Column, fields: Iterable[t.Field]) -> Column:
    """Return the JSON in a record's value as a struct.

    As in files of JSON, what is missing is NULL, and a value that does not fit says so.
    """
    return F.from_json(value.cast("string"), with_misfit(fields), TELL_MISFITS)


def _record_column(name: str) -> Column | None:
    """Return what a column that begins with `_` stands for; None if it is one of the value's."""
    if name not in kafka.RECORD_COLUMNS:
        return None
    own = F.col(name.removeprefix("_"))
    if name == "_key":
        return _text(own)
    if name == "_headers":
        return F.to_json(F.transform(own, _header))
    return own


def _header(header: Column) -> Column:
    return F.struct(
        header.getField("key").alias("key"), _text(header.getField("value")).alias("value")
    )


def _text(bytes_: Column) -> Column:
    """Return bytes as text. What is not UTF-8 would end the batch when it leaves Spark."""
    return F.make_valid_utf8(bytes_.cast("string"))
