"""Writing answers where they are: tasks take their rows apart, write files, and report counts.

A task that is run twice writes the same files again under the same names. What executors need is
pickled by value: nothing of Evenflow has to be installed there.
"""

from __future__ import annotations

import pickle
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import types as st

import evenflow
from evenflow.spark.gate.whole import Window
from evenflow.spark.sink.demux import Apart
from evenflow.spark.sink.files import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

_REPORT = st.StructType([st.StructField("report", st.BinaryType(), False)])
_SCHEMA = pa.schema([pa.field("report", pa.binary(), nullable=False)])

cloudpickle.register_pickle_by_value(evenflow)  # type: ignore[no-untyped-call]


@dataclass(slots=True)
class Done:
    """What the tasks of a batch have done."""

    apart: Apart = field(default_factory=Apart)
    """What is left for the driver: answers of the parts that it asked for."""
    rows: dict[int, int] = field(default_factory=dict)
    """Answers, by part."""
    files: set[str] = field(default_factory=set)
    failures: dict[int, str] = field(default_factory=dict)
    """Why a part's answers could not be written."""


def deliver_remotely(
    frame: DataFrame,
    take: Callable[[pa.Table], Apart],
    targets: Mapping[int, list[tuple[str, str]]],
    inline: frozenset[int],
) -> Done:
    """Run the job that writes answers to files.

    Args:
        frame: The batch.
        take: Takes a table of its rows apart.
        targets: Format and file, by part.
        inline: Parts whose answers come back.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _work(batches, take, targets, inline)

    done = Done()
    for row in frame.mapInArrow(work, _REPORT).collect():
        kept, said, dropped, counts, files, failures = pickle.loads(row["report"])
        answers = {n: pa.ipc.open_stream(data).read_all() for n, data in kept.items()}
        done.files.update(files)
        done.failures.update(failures)
        part = Apart(answers, *said)
        for number, windows in dropped.items():
            part.windows[number] = [Window(*each) for each in windows]
        done.apart.add(part)
        for number, count in counts.items():
            done.rows[number] = done.rows.get(number, 0) + count
    return done


def _work(
    batches: Iterator[pa.RecordBatch],
    take: Callable[[pa.Table], Apart],
    targets: Mapping[int, list[tuple[str, str]]],
    inline: frozenset[int],
) -> pa.RecordBatch:
    """Do one task's share."""
    parts = list(batches)
    apart = take(pa.Table.from_batches(parts)) if parts else Apart()
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    rows = {number: table.num_rows for number, table in apart.answers.items()}
    files = []
    failures: dict[int, str] = {}
    for number, table in apart.answers.items():
        for format_, target in targets.get(number, ()):
            path = Path(target)
            path = path.with_stem(f"{path.stem}-{task:05d}")
            try:
                write_file(table, format_, path)
            except OSError as exc:
                # A task that fails would take the answers of all queries with it.
                failures[number] = f"cannot write to {path.parent}: {exc.strerror or exc}"
            else:
                files.append(str(path))
    kept = {n: _bytes(t) for n, t in apart.answers.items() if n in inline}
    said = (
        apart.answers_rejected,
        apart.totals,
        apart.samples,
        apart.answer_samples,
        apart.cut,
    )
    # As plain data: the driver cannot unpickle what is of classes that were sent by value.
    dropped = {n: [astuple(window) for window in found] for n, found in apart.windows.items()}
    report = pickle.dumps((kept, said, dropped, rows, files, failures))
    return pa.record_batch([pa.array([report], pa.binary())], schema=_SCHEMA)


def _bytes(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]
