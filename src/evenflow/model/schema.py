"""The columns of a stream or table, and the DDL text that users write them in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import ConfigError
from evenflow.model import types as t

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_TEXT = 100_000
_MAX_DEPTH = 16
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|`([^`]+)`|(\d+)|([<>(),:]))")
_SIMPLE: dict[str, t.DataType] = {
    "BOOLEAN": t.BOOLEAN,
    "TINYINT": t.TINYINT,
    "BYTE": t.TINYINT,
    "SMALLINT": t.SMALLINT,
    "SHORT": t.SMALLINT,
    "INT": t.INT,
    "INTEGER": t.INT,
    "BIGINT": t.BIGINT,
    "LONG": t.BIGINT,
    "DOUBLE": t.DOUBLE,
    "STRING": t.STRING,
    "DATE": t.DATE,
    "TIMESTAMP": t.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class Schema:
    """Ordered columns. Names are compared without regard to case and never repeat."""

    fields: tuple[t.Field, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for field in self.fields:
            if field.name.lower() in seen:
                raise ConfigError(f"column {field.name} stands twice in the schema")
            seen.add(field.name.lower())

    def __iter__(self) -> Iterator[t.Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(field.name for field in self.fields)

    def find(self, name: str) -> t.Field | None:
        """Return the column of that name in any case, if there is one."""
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)

    def ddl(self) -> str:
        """Return the text that `parse_schema` reads back."""
        return ", ".join(f"`{f.name}` {f.type}" for f in self.fields)


def parse_type(text: str) -> t.DataType:
    """Return the type that a DDL text such as `DECIMAL(10,2)` names."""
    reader = _Reader(text)
    type_ = reader.read_type(0)
    reader.expect_end()
    return type_


def parse_schema(text: str) -> Schema:
    """Return the schema that `id BIGINT, at STRUCT<x: INT, y: INT>` describes.

    Raises:
        ConfigError: The text is not a schema or names a type that is not supported.
    """
    reader = _Reader(text)
    fields = reader.read_fields(0, end=None)
    reader.expect_end()
    return Schema(tuple(fields))


class _Reader:
    """A recursive-descent reader of DDL. Nothing of it reaches Spark as text."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_TEXT:
            raise ConfigError("the schema is too long")
        self._text = text
        self._tokens = list(self._tokenise(text))
        self._at = 0

    def _tokenise(self, text: str) -> Iterator[str]:
        at, end = 0, len(text.rstrip())
        while at < end:
            token = _TOKEN.match(text, at)
            if token is None:
                raise ConfigError(f"schema: unexpected {text[at : at + 10]!r} at column {at + 1}")
            yield next(group for group in token.groups() if group is not None)
            at = token.end()

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self, wanted: str | None = None) -> str:
        token = self._peek()
        if token is None or (wanted is not None and token != wanted):
            found = "the end" if token is None else repr(token)
            raise ConfigError(f"schema: expected {wanted or 'more'}, found {found}")
        self._at += 1
        return token

    def expect_end(self) -> None:
        if self._peek() is not None:
            raise ConfigError(f"schema: unexpected {self._peek()!r}")

    def read_fields(self, depth: int, end: str | None) -> list[t.Field]:
        fields: list[t.Field] = []
        while True:
            name = self._next()
            if self._peek() == ":":
                self._next()
            fields.append(t.Field(name, self.read_type(depth)))
            if self._peek() == "NOT":
                self._next("NOT")
                self._next("NULL")
            if self._peek() != ",":
                break
            self._next(",")
        if end is not None:
            self._next(end)
        return fields

    def read_type(self, depth: int) -> t.DataType:
        if depth > _MAX_DEPTH:
            raise ConfigError("schema: nested too deeply")
        name = self._next().upper()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in ("DECIMAL", "NUMERIC", "DEC"):
            return self._read_decimal()
        if name == "STRUCT":
            self._next("<")
            fields = tuple(self.read_fields(depth + 1, end=">"))
            Schema(fields)  # refuses repeated names
            return t.StructType(fields)
        raise ConfigError(
            f"schema: type {name} is not supported",
            "use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DOUBLE, DECIMAL(p,s), STRING, DATE, "
            "TIMESTAMP or STRUCT<...>",
        )

    def _read_decimal(self) -> t.DecimalType:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._next("(")
            precision = self._read_number()
            if self._peek() == ",":
                self._next(",")
                scale = self._read_number()
            self._next(")")
        if not 1 <= precision <= t.MAX_PRECISION or not 0 <= scale <= precision:
            raise ConfigError(f"schema: DECIMAL({precision},{scale}) is out of range")
        return t.DecimalType(precision, scale)

    def _read_number(self) -> int:
        token = self._next()
        if not token.isdigit() or len(token) > 4:
            raise ConfigError(f"schema: expected a number, found {token!r}")
        return int(token)
