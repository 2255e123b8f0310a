"""Writing answers where they are: tasks take their rows apart, write files, and report counts.

A task that is run twice writes the same files again under the same names. What executors need is
pickled by value: nothing of Evenflow has to be installed there.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import types as st

import evenflow
from evenflow.spark.sink.demux import Apart
from evenflow.spark.sink.files import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from evenflow.spark.sink.sinks import AnswerSink

_REPORT = st.StructType([st.StructField("report", st.BinaryType(), False)])
_SCHEMA = pa.schema([pa.field("report", pa.binary(), nullable=False)])

cloudpickle.register_pickle_by_value(evenflow)  # type: ignore[no-untyped-call]


def deliver_remotely(
    frame: DataFrame,
    take: Callable[[pa.Table], Apart],
    queries: Mapping[int, str],
    sinks: Mapping[str, tuple[AnswerSink, ...]],
    unit: str,
    batch: int,
) -> tuple[Apart, dict[int, int], set[str]]:
    """Run the job that writes all file sinks.

    Returns what is left for the driver, the number of answers per member, and the files written.

    The answers that come back are those of queries with a sink that only the driver can serve.
    """
    targets: dict[int, list[tuple[str, str]]] = {}
    inline: set[int] = set()
    for number, query in queries.items():
        for sink in sinks.get(query, ()):
            if sink.by_executors:
                target = sink.target(unit, batch, f"-{number}")
                targets.setdefault(number, []).append((sink.format, str(target)))
            else:
                inline.add(number)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _work(batches, take, targets, inline)

    total = Apart()
    rows: dict[int, int] = {}
    written: set[str] = set()
    for row in frame.mapInArrow(work, _REPORT).collect():
        apart, counts, files = pickle.loads(row["report"])
        written.update(files)
        total.add(_revived(apart))
        for number, count in counts.items():
            rows[number] = rows.get(number, 0) + count
    return total, rows, written


def _work(
    batches: Iterator[pa.RecordBatch],
    take: Callable[[pa.Table], Apart],
    targets: Mapping[int, list[tuple[str, str]]],
    inline: set[int],
) -> pa.RecordBatch:
    """Do one task's share."""
    parts = list(batches)
    apart = take(pa.Table.from_batches(parts)) if parts else Apart()
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    rows = {number: table.num_rows for number, table in apart.answers.items()}
    files = []
    for number, table in apart.answers.items():
        for format_, target in targets.get(number, ()):
            path = Path(target)
            path = path.with_stem(f"{path.stem}-{task:05d}")
            write_file(table, format_, path)
            files.append(str(path))
    kept = {n: _bytes(t) for n, t in apart.answers.items() if n in inline}
    report = pickle.dumps(((kept, apart.answers_rejected, apart.totals), rows, files))
    return pa.record_batch([pa.array([report], pa.binary())], schema=_SCHEMA)


def _bytes(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _revived(report: tuple[dict[int, bytes], dict[int, int], dict[int, dict[str, int]]]) -> Apart:
    kept, rejected, totals = report
    answers = {n: pa.ipc.open_stream(data).read_all() for n, data in kept.items()}
    return Apart(answers, rejected, totals)
