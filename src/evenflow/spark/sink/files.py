"""Answers as files: one whole file per query, unit and batch, in formats that any tool reads.

Runs on the driver and on executors. A file is written beside, under a name that readers ignore,
and renamed; written again it replaces itself.
"""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write_file(table: pa.Table, format_: str, target: Path) -> None:
    """Write a table so that `target` is there whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(unfinished(target.name, os.getpid()))
    try:
        _WRITERS[format_](table, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def unfinished(name: str, process: int | str) -> str:
    """Return the name of a file while a process writes it; also what it leaves if it is killed."""
    return f"_{name}.{process}.part"


def _parquet(table: pa.Table, path: Path) -> None:
    pyarrow.parquet.write_table(table, path, compression="snappy", write_statistics=False)


def _json(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as out:
        for row in table.to_pylist():
            out.write(json_text(row) + "\n")


def json_text(value: Any) -> str:
    """Return a value as Spark writes it: no NULL fields, decimals digit by digit."""
    match value:
        case dict():
            present = ((name, each) for name, each in value.items() if each is not None)
            return "{" + ", ".join(f"{_quoted(n)}: {json_text(v)}" for n, v in present) + "}"
        case Decimal():
            return format(value, "f")
        case float() if not math.isfinite(value):
            # JSON has no such numbers; this is how Spark writes and reads them.
            return '"NaN"' if math.isnan(value) else f'"{"-" * (value < 0)}Infinity"'
        case datetime():
            return f'"{_moment(value)}"'
        case date():
            return f'"{value.isoformat()}"'
        case _:
            return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _moment(value: datetime) -> str:
    moment = value.astimezone(UTC).replace(tzinfo=None)
    digits = "milliseconds" if moment.microsecond % 1000 == 0 else "microseconds"
    return moment.isoformat(timespec=digits) + "Z"


def _csv(table: pa.Table, path: Path) -> None:
    columns = [_csv_column(table.column(i)) for i in range(table.num_columns)]
    pyarrow.csv.write_csv(pa.table(columns, names=table.column_names), path)


def _csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
    if pa.types.is_floating(column.type):
        special = pc.invert(pc.is_finite(column))
        if pc.any(special).as_py():
            return pa.chunked_array([[_csv_double(v) for v in column.to_pylist()]], pa.string())
    return column


def _csv_double(value: float | None) -> str | None:
    """Return a number as Spark reads it, which is particular about what is not finite."""
    if value is None or math.isfinite(value):
        return None if value is None else repr(value)
    return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": _parquet,
    "json": _json,
    "csv": _csv,
}
