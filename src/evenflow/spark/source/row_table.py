"""Rows that users give (tuples, dicts, Spark's Rows) as Arrow tables of a schema. No Spark here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.base.instant import parse_date, parse_timestamp
from evenflow.errors import ConfigError
from evenflow.model import types as t
from evenflow.spark.compile.types import to_arrow

if TYPE_CHECKING:
    from evenflow.model.schema import Schema

Convert = Callable[[Any], Any]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the schema in Arrow's types."""
    return pa.schema([pa.field(f.name, to_arrow(f.type)) for f in schema])


class RowTables:
    """Makes tables out of rows.

    A tuple gives its values in the order of the schema, a mapping or a Row with names by name; what
    a mapping does not have is NULL, and what the schema does not have is left out. Texts are
    read where a timestamp or a date is wanted, and times without a zone are UTC.
    """

    def __init__(self, owner: str, schema: Schema) -> None:
        """Prepare for a schema; `owner` names the source or table in messages."""
        self._owner = owner
        self._fields = schema.fields
        self._names = {f.name.lower(): i for i, f in enumerate(schema.fields)}
        self._converts = [_converter(f.type) for f in schema.fields]
        self.schema = arrow_schema(schema)

    def table(self, rows: Sequence[Any], first: int = 0) -> pa.Table:
        """Return rows as a table; `first` is the number of the first in messages.

        Raises:
            ConfigError: A row does not fit the schema.
        """
        columns: list[list[Any]] = [[] for _ in self._fields]
        for number, row in enumerate(rows, first):
            for column, value in zip(columns, self._values(row, number), strict=True):
                column.append(value)
        arrays = [self._array(i, values, first) for i, values in enumerate(columns)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _values(self, row: Any, number: int) -> Sequence[Any]:
        if hasattr(row, "__fields__"):
            row = dict(zip(row.__fields__, row, strict=True))
        if isinstance(row, Mapping):
            values: list[Any] = [None] * len(self._fields)
            for name, value in row.items():
                at = self._names.get(str(name).lower())
                if at is not None:
                    values[at] = value
            return values
        if not isinstance(row, Sequence) or isinstance(row, str | bytes):
            raise ConfigError(
                f"{self._owner}: row {number} is {type(row).__name__}, not a tuple or a dict"
            )
        if len(row) != len(self._fields):
            raise ConfigError(
                f"{self._owner}: row {number} has {len(row)} values, the schema {len(self._fields)}"
            )
        return row

    def _array(self, index: int, values: list[Any], first: int) -> pa.Array:
        try:
            return self._converted(index, values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        # Again one by one, to say which.
        field = self._fields[index]
        for number, value in enumerate(values, first):
            try:
                self._converted(index, [value])
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as exc:
                shown = repr(value)
                shown = shown if len(shown) <= 40 else shown[:37] + "..."
                raise ConfigError(
                    f"{self._owner}: row {number}: {shown} is no {field.type} for {field.name}"
                ) from exc
        raise ConfigError(f"{self._owner}: column {field.name} does not fit its type {field.type}")

    def _converted(self, index: int, values: list[Any]) -> pa.Array:
        convert = self._converts[index]
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        return pa.array(values, type=self.schema.field(index).type)


def _converter(type_: t.DataType) -> Convert | None:
    match type_:
        case t.IntegerType():
            return _whole
        case t.TimestampType():
            return _timestamp
        case t.DateType():
            return _date
        case t.StructType(fields):
            return _struct_converter(fields)
        case _:
            return None


def _whole(value: Any) -> Any:
    """Return a whole number. Arrow would cut 1.5 down to 1 without a word."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError("not a whole number")
    return value


def _timestamp(value: Any) -> datetime:
    """Return an instant. Numbers are refused: their unit would be a guess."""
    if isinstance(value, str):
        value = parse_timestamp(value)
    if not isinstance(value, datetime):
        raise TypeError("not a timestamp")
    return value


def _date(value: Any) -> date:
    if isinstance(value, str):
        value = parse_date(value)
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError("not a date")
    return value


def _struct_converter(fields: tuple[t.Field, ...]) -> Convert:
    names = [f.name for f in fields]
    converts = [_converter(f.type) for f in fields]

    def convert(value: Any) -> dict[str, Any]:
        if hasattr(value, "__fields__"):
            value = dict(zip(value.__fields__, value, strict=True))
        if not isinstance(value, Mapping):
            value = dict(zip(names, value, strict=True))
        found = [value.get(name) for name in names]
        return {
            name: each if each is None or change is None else change(each)
            for name, each, change in zip(names, found, converts, strict=True)
        }

    return convert
