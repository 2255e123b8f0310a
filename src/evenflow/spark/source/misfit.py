"""Rows that do not fit a source's schema: formats of text can tell them, with the row's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as st

from evenflow.model import kafka
from evenflow.spark.compile.trunk import MISFIT
from evenflow.spark.compile.types import struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenflow.model import types as t
    from evenflow.model.flow import Reader

_TEXT_FORMATS = ("json", "csv", "kafka")

TELL_MISFITS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MISFIT}
"""Options with which Spark puts the text of a row that does not fit into the column `MISFIT`."""


def tells_misfits(reader: Reader) -> bool:
    """Whether a reader tells rows that do not fit; not if the user says what becomes of them."""
    said = {name.lower() for name in reader.options}
    if reader.format.lower() not in _TEXT_FORMATS:
        return False
    if kafka.is_kafka(reader.format) and kafka.value_kind(reader.options) != "json":
        return False
    return said.isdisjoint(name.lower() for name in TELL_MISFITS)


def with_misfit(schema: Iterable[t.Field]) -> st.StructType:
    """Return a schema with the column `MISFIT`."""
    return st.StructType([*struct(schema).fields, st.StructField(MISFIT, st.StringType())])
