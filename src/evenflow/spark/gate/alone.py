"""A gate for anybody's streaming DataFrame, without the rest of Evenflow.

    query = frame.transform(gate, "gate.txt", by=["id"]).writeStream...
    set_gate("gate.txt", 0.3)

The file holds the last fractions with the times from which they hold, which are always to come when
they are written. A batch chooses by its own time, which Spark keeps in the offset log: done again
it keeps the same tuples. A lower fraction keeps a subset.

The time stands in a higher-order function, which Spark does not compile: elsewhere it would be
written into the generated code, and every batch would compile its own.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.errors import ConfigError
from evenflow.spark.compile.gates import ONE, positive_hash, threshold
from evenflow.spark.compile.trunk import quoted
from evenflow.spark.source.feed import spark_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_KNOWN = 16
"""Fractions that the file remembers: so many changes may come between the beginning of a batch and
its end, also if it is done again only after a restart."""
_DIGITS = 20
_AHEAD_US = 200_000
"""How long after it is written a fraction begins to hold."""


def gate(frame: DataFrame, file: str | Path, *, by: Sequence[str] | None = None) -> DataFrame:
    """Return the tuples of a streaming DataFrame that a gate keeps: all, until `set_gate`.

    Args:
        frame: A streaming DataFrame.
        file: Keeps the gate's fractions, where the driver and all executors find it. It is made
            if it is not there.
        by: Columns that tell what is kept together: an id, or a key. All columns if not given.
    """
    path = Path(file).absolute()
    if not path.exists():
        _write(path, [(0, ONE - 1)] * _KNOWN)
    told = frame.sparkSession.read.text(spark_path(path))
    values = F.split(F.col("value"), ",").cast(st.ArrayType(st.LongType()))
    limit = _in_force(told.select(values).scalar())
    columns = [F.col(quoted(name)) for name in by or frame.columns]
    return frame.filter(positive_hash(columns) <= limit)


def _in_force(told: Column) -> Column:
    """Return the limit that holds at the batch's time."""
    moments = F.transform(F.array(F.lit(0)), lambda _: F.unix_micros(F.current_timestamp()))
    now = F.element_at(moments, 1)
    limit = F.get(told, F.lit(1))
    for at in range(1, _KNOWN):
        since = F.get(told, F.lit(2 * at))
        limit = F.when(now >= since, F.get(told, F.lit(2 * at + 1))).otherwise(limit)
    return limit


def set_gate(file: str | Path, keep: float) -> None:
    """Have a gate keep a fraction from the next batch on that begins in a moment.

    Raises:
        ConfigError: The fraction is not between 0 and 1, or there is no such gate.
    """
    if not 0 <= keep <= 1:
        raise ConfigError(f"a gate keeps 0 to 1, not {keep:g}")
    path = Path(file)
    if not path.exists():
        raise ConfigError(f"there is no gate {file}", "the query makes it")
    numbers = [int(text) for text in path.read_text().split(",")]
    known = list(zip(numbers[::2], numbers[1::2], strict=True))
    since = time.time_ns() // 1000 + _AHEAD_US
    _write(path, [*known[1:], (since, threshold(keep))])


def _write(path: Path, known: Sequence[tuple[int, int]]) -> None:
    line = ",".join(f"{number:0{_DIGITS}d}" for each in known for number in each)
    beside = path.with_name(f"_{path.name}.new")
    beside.write_text(line + "\n")
    beside.replace(path)
