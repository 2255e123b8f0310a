"""What is known of a table before Spark is there: the columns of parquet files."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from evenflow.errors import ConfigError
from evenflow.model import types as t
from evenflow.model.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIMPLE: dict[pa.DataType, t.DataType] = {
    pa.bool_(): t.BOOLEAN,
    pa.int8(): t.TINYINT,
    pa.int16(): t.SMALLINT,
    pa.int32(): t.INT,
    pa.int64(): t.BIGINT,
    # Spark reads whole numbers without sign as the next larger type with one.
    pa.uint8(): t.SMALLINT,
    pa.uint16(): t.INT,
    pa.uint32(): t.BIGINT,
    pa.uint64(): t.DecimalType(20, 0),
    pa.float32(): t.DOUBLE,
    pa.float64(): t.DOUBLE,
    pa.string(): t.STRING,
    pa.large_string(): t.STRING,
    pa.string_view(): t.STRING,
    pa.date32(): t.DATE,
}
_HINT = "give the columns yourself, as schema: id BIGINT, name STRING"


def parquet_schema(path: str) -> Schema:
    """Return the columns of a parquet file, or of a folder or pattern of files of one kind.

    Raises:
        ConfigError: There is no such file, or it has a column of a type that is not supported.
    """
    file = _first_file(path)
    try:
        with pyarrow.parquet.ParquetFile(file) as opened:
            schema, physical = opened.schema_arrow, opened.schema
            old = {
                physical.column(i).path
                for i in range(len(physical.names))
                if physical.column(i).physical_type == "INT96"
            }
    except (pa.ArrowException, OSError) as exc:
        raise ConfigError(f"{file} is not a parquet file", str(exc).split("\n")[0][:100]) from exc
    return Schema(tuple(_field(field, field.name, old) for field in schema))


def _first_file(path: str) -> Path:
    scheme, colon, rest = path.partition(":")
    if colon and scheme != "file" and "/" not in scheme:
        raise ConfigError(f"the columns of {path} are not known before Spark is there", _HINT)
    plain = "/" + rest.lstrip("/") if colon and scheme == "file" else path
    root = Path(plain)
    if not root.exists():
        found = sorted(glob(plain))  # noqa: PTH207  # the pattern may be absolute
        if not found:
            raise ConfigError(f"{path} does not exist")
        root = Path(found[0])
    if root.is_file():
        return root
    file = next(_visible(root), None)
    if file is None:
        raise ConfigError(f"there is no parquet file in {path}", _HINT)
    divided = [part for part in file.relative_to(root).parent.parts if "=" in part]
    if divided:
        raise ConfigError(f"{path} is divided by {divided[0].partition('=')[0]}", _HINT)
    return file


def _visible(root: Path) -> Iterator[Path]:
    """Yield the data files in a folder, as Spark sees it: names with _ or . first are left out."""
    for file in sorted(root.rglob("*.parquet")):
        parts = file.relative_to(root).parts
        if file.is_file() and not any(part.startswith(("_", ".")) for part in parts):
            yield file


def _field(field: pa.Field, place: str, old: set[str]) -> t.Field:
    """Return our field; `place` is its dotted path, `old` has those of Spark's old timestamps."""
    return t.Field(field.name, _type(field.type, place, old))


def _type(type_: pa.DataType, place: str, old: set[str]) -> t.DataType:
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    if pa.types.is_dictionary(type_):
        return _type(type_.value_type, place, old)
    if pa.types.is_decimal(type_) and type_.precision <= t.MAX_PRECISION and type_.scale >= 0:
        return t.DecimalType(type_.precision, type_.scale)
    if pa.types.is_timestamp(type_) and (type_.unit in ("us", "ms") or place in old):
        return t.TIMESTAMP
    if pa.types.is_struct(type_):
        inner = (type_.field(i) for i in range(type_.num_fields))
        return t.StructType(tuple(_field(f, f"{place}.{f.name}", old) for f in inner))
    raise ConfigError(f"column {place} has type {type_}, which is not supported", _HINT)
