"""Whether two sets of answers are the same multiset, doubles to nine digits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from evenflow.spark.sink.demux import answer_schema

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.model.schema import Schema

TOLERANCE = 1e-9
"""Relative. Sums of doubles depend on the order in which partitions are merged."""


def read_answers(folder: Path, schema: Schema) -> pa.Table:
    """Return all answers in a folder of parquet files."""
    wanted = answer_schema([(f.name, f.type) for f in schema])
    tables = [
        pyarrow.parquet.ParquetFile(p).read().cast(wanted)
        for p in sorted(folder.glob("*.parquet"))
        if not p.name.startswith(("_", "."))
    ]
    return pa.concat_tables([wanted.empty_table(), *tables])


def difference(left: pa.Table, right: pa.Table) -> str | None:
    """Return how two tables differ, or None if they hold the same rows."""
    if left.num_rows != right.num_rows:
        return f"{left.num_rows} answers by plain Spark, {right.num_rows} shared"
    if left.num_rows == 0:
        return None
    one, other = _sorted(left), _sorted(right)
    for name in one.column_names:
        wrong = _unequal(one.column(name), other.column(name))
        if wrong is not None:
            shown = one.slice(wrong, 1).to_pylist()[0], other.slice(wrong, 1).to_pylist()[0]
            return f"{name} differs: plain Spark {shown[0]}, shared {shown[1]}"
    return None


def not_in(left: pa.Table, right: pa.Table) -> int:
    """Return how many rows of a table are not in another; doubles must be equal to the bit."""
    held = Counter(map(repr, right.to_pylist()))
    return (Counter(map(repr, left.to_pylist())) - held).total()


def _sorted(table: pa.Table) -> pa.Table:
    """Return flat columns, sorted by those that are exact and only then by doubles."""
    while any(pa.types.is_struct(f.type) for f in table.schema):
        table = table.flatten()
    exact = [f.name for f in table.schema if not pa.types.is_floating(f.type)]
    rest = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    order = pc.sort_indices(table, sort_keys=[(n, "ascending") for n in (*exact, *rest)])
    return table.take(order)


def _unequal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int | None:
    """Return the first place at which two columns differ."""
    if not pa.types.is_floating(left.type):
        if left.equals(right):
            return None
        same = pc.fill_null(pc.equal(left, right), False)
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        wrong = ~np.asarray(pc.or_(same, both))
    else:
        a = left.to_numpy(zero_copy_only=False)
        b = right.to_numpy(zero_copy_only=False)
        nulls = np.asarray(left.is_null()) != np.asarray(right.is_null())
        wrong = nulls | ~np.isclose(a, b, rtol=TOLERANCE, atol=0.0, equal_nan=True)
    places = np.flatnonzero(wrong)
    return int(places[0]) if len(places) else None
