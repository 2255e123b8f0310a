"""Recording a sample of every source as numbered files, so that it can be read twice alike."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyspark.sql import functions as F

from evenflow.errors import ConfigError, RunError
from evenflow.model import kafka
from evenflow.model.flow import FlowSpec, Reader
from evenflow.spark.compile.trunk import MISFIT
from evenflow.spark.interrupt import end_if_interrupted
from evenflow.spark.sink.demux import answer_schema
from evenflow.spark.source.generator_options import GENERATORS
from evenflow.spark.source.sources import Sources
from evenflow.spark.state.directory import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from evenflow.model.operator import Source
    from evenflow.spark.interrupt import AnyOf

_END = "end.parquet"
_AHEAD = timedelta(days=30)
FILES = 6
"""Files per source: the first warms both sides up, the others are measured."""
_FIRST_FILE_S = 1_700_000_000
"""Modification time of the first file, in seconds; the others follow by one."""
_FIRST_SECONDS = 60.0
"""How long a source may take to give its first tuples."""
_PATIENCE_SECONDS = 10.0
"""How long it may give nothing after that, before what there is must do."""


def record(
    session: SparkSession,
    spec: FlowSpec,
    folder: Path,
    rows: int,
    interrupted: AnyOf | None = None,
) -> FlowSpec:
    """Record up to `rows` tuples of each source; return the flow reading them instead.

    Raises:
        KeyboardInterrupt: `interrupted` was set.
    """
    state = StateDirectory(folder / "recording")
    sources = Sources(session, _bounded(spec, rows), state)
    sources.start(available_now=False)
    try:
        for source in spec.sources():
            finite = _is_finite(spec.readers[source.name])
            recorder = _Recorder(rows, interrupted)
            _record_source(sources, source, folder / source.name, recorder, finite=finite)
    finally:
        sources.stop()
    return recorded(spec, folder)


def _bounded(spec: FlowSpec, rows: int) -> FlowSpec:
    """Return the flow with sources that give just the sample, as fast as they can."""
    readers = {
        name: replace(reader, options=_bounds(reader, rows))
        for name, reader in spec.readers.items()
    }
    return replace(spec, readers=readers)


def _bounds(reader: Reader, rows: int) -> dict[str, str]:
    """Return a source's options; of a topic the sample is its oldest records."""
    bounds: dict[str, str] = {}
    if reader.format in GENERATORS:
        bounds = {"rows": str(rows)}
    elif kafka.is_kafka(reader.format):
        bounds = {kafka.START: "earliest", kafka.MOST: str(rows)}
    missing = {k: v for k, v in bounds.items() if kafka.option(reader.options, k) is None}
    return {**missing, **reader.options}


def _is_finite(reader: Reader) -> bool:
    """Whether the sample ends with what is there, without waiting for more."""
    if kafka.is_kafka(reader.format):
        return (kafka.option(reader.options, kafka.START) or "").lower() != "latest"
    return reader.format in GENERATORS


def recorded(spec: FlowSpec, folder: Path) -> FlowSpec:
    """Return the flow with its sources read from recorded files, one file per batch.

    Raises:
        ConfigError: A source was not recorded there.
    """
    readers = dict(spec.readers)
    for source in spec.sources():
        path = folder / source.name
        if not any(path.glob("*.parquet")):
            raise ConfigError(f"no sample of source {source.name} in {folder}")
        options = {"path": str(path), "maxFilesPerTrigger": "1"}
        readers[source.name] = Reader(format="parquet", options=options)
    return FlowSpec(name=spec.name, queries=spec.queries, readers=readers, applied=spec.applied)


def recorded_rows(spec: FlowSpec, folder: Path) -> dict[str, list[int]]:
    """Return the number of rows in each recorded file, by source."""
    return {
        source.name: [
            pyarrow.parquet.read_metadata(file).num_rows
            for file in recorded_files(folder / source.name)
        ]
        for source in spec.sources()
    }


def recorded_files(folder: Path) -> list[Path]:
    """Return the files of a source's tuples, without the last, which was never in the source."""
    return [file for file in sorted(folder.glob("*.parquet")) if file.name != _END]


class _Recorder:
    """Keeps the tuples of a stream until there are enough."""

    def __init__(self, rows: int, interrupted: AnyOf | None) -> None:
        self._left = rows
        self._interrupted = interrupted
        self.tables: list[pa.Table] = []
        self.last_at = time.monotonic()

    def __call__(self, frame: DataFrame, _: int) -> None:
        if self._left <= 0:
            return
        table = frame.limit(self._left).toArrow()
        if table.num_rows:
            self.tables.append(table)
            self._left -= table.num_rows
            self.last_at = time.monotonic()

    def is_done(self) -> bool:
        """Return whether there are enough, or no more to be expected."""
        end_if_interrupted(self._interrupted)
        patience = _PATIENCE_SECONDS if self.tables else _FIRST_SECONDS
        return self._left <= 0 or time.monotonic() - self.last_at > patience


def _record_source(
    sources: Sources, source: Source, folder: Path, recorder: _Recorder, *, finite: bool
) -> None:
    frame = sources.open(source)
    if MISFIT in frame.columns:
        frame = frame.filter(F.col(MISFIT).isNull())
    writer = frame.writeStream.foreachBatch(recorder)
    query = (writer.trigger(availableNow=True) if finite else writer).start()
    try:
        while query.isActive and not recorder.is_done():
            time.sleep(0.05)
        failure = query.exception()
        if failure is not None:
            raise RunError(f"source {source.name} cannot be read: {failure}") from failure
    finally:
        query.stop()
    if not recorder.tables:
        raise ConfigError(f"source {source.name} gave no tuples to compare on")
    schema = answer_schema([(f.name, f.type) for f in source.schema])
    table = pa.concat_tables(recorder.tables).select(list(schema.names)).cast(schema)
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-table.num_rows // FILES)
    for index, start in enumerate(range(0, table.num_rows, size)):
        _lay(table.slice(start, size), folder / f"{index:06d}.parquet", index)
    if source.event_time is not None:
        _write_end(table, source.event_time, folder)


def _write_end(table: pa.Table, event_time: str, folder: Path) -> None:
    """Write one last tuple, far ahead in time: it closes all windows, on both sides alike."""
    newest = pc.max(table.column(event_time)).as_py()
    if newest is None:
        return
    row = dict.fromkeys(table.column_names)
    row[event_time] = newest + _AHEAD
    end = pa.Table.from_pylist([row], schema=table.schema)
    _lay(end, folder / _END, FILES)


def _lay(table: pa.Table, file: Path, index: int) -> None:
    """Write a file and date it, because Spark reads files in the order of their times."""
    pyarrow.parquet.write_table(table, file)
    os.utime(file, (_FIRST_FILE_S + index, _FIRST_FILE_S + index))
