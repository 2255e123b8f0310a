"""The types of columns. A closed set: what is not here cannot be written in a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DataType:
    """Abstract. Equal types are equal values; `str()` gives the DDL text."""


@dataclass(frozen=True, slots=True)
class NullType(DataType):
    """The type of a bare NULL. Coerces to any other; no column has it."""

    def __str__(self) -> str:
        return "VOID"


@dataclass(frozen=True, slots=True)
class BooleanType(DataType):
    """TRUE, FALSE or NULL."""

    def __str__(self) -> str:
        return "BOOLEAN"


@dataclass(frozen=True, slots=True)
class IntegerType(DataType):
    """Signed whole numbers of 8, 16, 32 or 64 bits."""

    bits: int

    def __str__(self) -> str:
        return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[self.bits]


@dataclass(frozen=True, slots=True)
class DoubleType(DataType):
    """64-bit floating point."""

    def __str__(self) -> str:
        return "DOUBLE"


@dataclass(frozen=True, slots=True)
class DecimalType(DataType):
    """Exact numbers of at most 38 digits."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class StringType(DataType):
    """UTF-8 text."""

    def __str__(self) -> str:
        return "STRING"


@dataclass(frozen=True, slots=True)
class DateType(DataType):
    """A day without time or zone."""

    def __str__(self) -> str:
        return "DATE"


@dataclass(frozen=True, slots=True)
class TimestampType(DataType):
    """An instant in microseconds. Text is read and written in UTC."""

    def __str__(self) -> str:
        return "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class StructType(DataType):
    """Named fields inside one column."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        inner = ", ".join(f"{f.name}: {f.type}" for f in self.fields)
        return f"STRUCT<{inner}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a schema or a field of a struct."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


NULL: Final = NullType()
BOOLEAN: Final = BooleanType()
TINYINT: Final = IntegerType(8)
SMALLINT: Final = IntegerType(16)
INT: Final = IntegerType(32)
BIGINT: Final = IntegerType(64)
DOUBLE: Final = DoubleType()
STRING: Final = StringType()
DATE: Final = DateType()
TIMESTAMP: Final = TimestampType()
WINDOW: Final = StructType((Field("start", TIMESTAMP), Field("end", TIMESTAMP)))
"""What `window(ts, size)` gives."""

MAX_PRECISION: Final = 38


def is_numeric(type_: DataType) -> bool:
    """Whether arithmetic is defined on it."""
    return isinstance(type_, IntegerType | DoubleType | DecimalType)


def integer_as_decimal(type_: IntegerType) -> DecimalType:
    """Return the decimal that holds every value of an integer type."""
    return DecimalType({8: 3, 16: 5, 32: 10, 64: 20}[type_.bits], 0)
