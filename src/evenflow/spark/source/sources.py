"""Opening sources and tables: Spark's formats, ours, and what the builder was given.

This is where Spark's faults about formats, paths and options become ours.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from evenflow.errors import ConfigError
from evenflow.model.kafka import is_kafka
from evenflow.model.operator import Source
from evenflow.spark.compile.trunk import positional
from evenflow.spark.compile.types import struct
from evenflow.spark.connector import CONNECTOR_HINT, NO_CONNECTOR
from evenflow.spark.source import generator_source
from evenflow.spark.source.feed import Feed, FeedFolder, RowsFeed, spark_path
from evenflow.spark.source.generator_options import (
    GENERATORS,
    begin,
    check_options,
    generator_settings,
    number,
    parse_option,
    whole,
)
from evenflow.spark.source.kafka import kafka_columns, kafka_options
from evenflow.spark.source.misfit import TELL_MISFITS, tells_misfits, with_misfit
from evenflow.spark.source.replay import ReplayFeed
from evenflow.spark.source.row_table import RowTables
from evenflow.spark.state.sealed import write_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructType

    from evenflow.model.flow import FlowSpec, Reader
    from evenflow.model.operator import Operator, Table
    from evenflow.spark.state.directory import StateDirectory

_FILE_FORMATS = ("json", "csv", "parquet", "orc", "text", "avro", "xml")
"""Formats that are told their columns and need a path. Others know their columns themselves."""
_ROWS_PER_FILE = "10000"
_MOST_FILES = "100"
"""Files per batch where files come as time passes; finite data is streamed file by file."""
_FILES = whole(1, 1_000_000_000)
_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}\Z", re.ASCII)


class Sources:
    """The sources and tables of a flow, opened for one run."""

    def __init__(self, session: SparkSession, spec: FlowSpec, directory: StateDirectory) -> None:
        self._session = session
        self._spec = spec
        self._directory = directory
        self._feeds: dict[str, Feed] = {}
        self._settings: dict[str, str] = {}
        """Of the sources of ours that are open."""
        self._clocks: dict[str, dict[str, Any]] = {}
        """The same, with when they began, of those that were asked for."""
        self._started: bool | None = None
        """What `start` was called with, if it was."""

    def open(self, source: Source) -> DataFrame:
        """Return a source's stream under the names of its schema.

        Raises:
            ConfigError: Spark does not know the format, a path is missing or an option is refused.
        """
        reader = self._spec.readers[source.name]
        if reader.format in GENERATORS:
            return self._open_generator(source, reader)
        if reader.format == "dataframe" and reader.data.isStreaming:
            return self._open_stream(source, reader.data)
        if reader.format in ("replay", "rows", "dataframe"):
            return self._open_feed(source, reader)
        return self._open_format(source, reader)

    def has_misfits(self, source: Source) -> bool:
        """Whether a source's stream has the column `MISFIT` beside those of its schema."""
        return tells_misfits(self._spec.readers[source.name])

    def identity(self, operator: Operator) -> str | None:
        """Return the column that tells an operator's tuples apart, if there is one."""
        if not isinstance(operator, Source):
            return None
        return self._spec.readers[operator.name].id

    def open_nothing(self, source: Source) -> DataFrame:
        """Return a stream with a source's columns and no tuples."""
        folder = self._directory.feed(source.name) / "nothing"
        folder.mkdir(parents=True, exist_ok=True)
        return self._stream_files(source, folder, "1")

    def open_table(self, table: Table) -> DataFrame:
        """Return a table under the names of its schema.

        Raises:
            ConfigError: Spark does not know the format, a path is missing or an option is refused.
        """
        reader = self._spec.readers[table.name]
        owner = f"table {table.name}"
        if reader.format == "dataframe":
            if reader.data.isStreaming:
                raise ConfigError(f"{owner} is a stream", "add it as a source")
            return reader.data  # type: ignore[no-any-return]
        if reader.format == "rows":
            rows = RowTables(owner, table.schema).table(list(reader.data))
            return self._session.createDataFrame(rows, struct(table.schema))
        return _load(owner, self._session.read, reader.format, reader.options, table)

    def begin_now(self, read: Collection[str]) -> None:
        """Let the clocks of sources of ours begin: units start only now.

        Args:
            read: Sources of which a unit has read before. Their clocks go on.
        """
        for source in self._settings.keys() - set(read):
            self._begin(source, json.loads(self._settings[source]))

    def start(self, *, available_now: bool) -> None:
        """Begin to feed sources that this process feeds; finite ones completely if `available_now`.

        An iterable without an end needs the option `max_rows` then.

        Raises:
            EvenflowError: One of them cannot be fed.
        """
        self._started = available_now
        for feed in self._feeds.values():
            feed.start(available_now=available_now)

    def stop(self) -> None:
        """Stop feeding."""
        self._started = None
        for feed in self._feeds.values():
            feed.stop()

    def is_finite(self, source: str) -> bool:
        """Whether a source gives nothing more, once all that is there of it has been read."""
        feed = self._feeds.get(source)
        if feed is not None:
            return feed.folder.done
        return self._rows(source) is not None

    def is_dry(self, source: str, offset: str) -> bool:
        """Whether a unit that has read a finite source up to an offset has read it all."""
        read = {} if offset == "-" else json.loads(offset)
        feed = self._feeds.get(source)
        if feed is not None:
            files = sum(1 for _ in feed.folder.files.glob("*.parquet"))
            return bool(read.get("logOffset", -1) == files - 1)
        return bool(read.get("rows", 0) >= (self._rows(source) or 0))

    def _rows(self, source: str) -> int | None:
        """Return how many tuples a generator gives, None if it has no end or is none."""
        settings = self._settings.get(source)
        return None if settings is None else json.loads(settings)["rows"]

    def raise_failure(self) -> None:
        """Raise what ended the feeding of a source, if something did.

        Raises:
            RunError: An iterable of the user's failed.
        """
        for feed in self._feeds.values():
            feed.raise_failure()

    # Ours.

    def _open_generator(self, source: Source, reader: Reader) -> DataFrame:
        if not self._settings:
            generator_source.register(self._session)
        if source.name not in self._settings:
            tasks = self._session.sparkContext.defaultParallelism
            settings = generator_settings(reader.format, reader.options, tasks)
            settings["clock_file"] = str(self._clock_file(source.name))
            if not self._clock_file(source.name).exists():
                self._begin(source.name, settings)
            limit = self._limit_file(source.name)
            # That of a process which was killed: nobody would take it away any more.
            limit.unlink(missing_ok=True)
            settings["limit_file"] = str(limit)
            self._settings[source.name] = json.dumps(settings)
        stream = self._session.readStream.format(generator_source.FORMAT)
        stream = stream.schema(struct(source.schema))
        return stream.option("settings", self._settings[source.name]).load()

    def set_limit(self, source: str, rows: int | None) -> bool:
        """Limit what a batch reads of a source, from the next batch on; None takes it away.

        Returns:
            Whether that can be done: sources of ours, which make their tuples.
        """
        if source not in self._settings:
            return False
        file = self._limit_file(source)
        if rows is None:
            file.unlink(missing_ok=True)
            return True
        beside = file.with_suffix(".new")
        beside.write_text(str(max(1, rows)))
        beside.replace(file)
        return True

    def clock(self, source: str) -> float | None:
        """Return the wall-clock seconds of tick 0 of a source of ours, by which it is due."""
        if source not in self._settings:
            return None
        return int(self._with_clock(source)["wall_us"]) / 1e6

    def waiting(self, source: str, offset: str, at: float) -> int | None:
        """Return how many tuples wait behind an offset, if that is known at any time.

        Sources of ours know it. Of others Spark asks when a batch begins, and tells at its end.
        """
        if source not in self._settings:
            return None
        return generator_source.rows_waiting(self._with_clock(source), offset, at)

    def _limit_file(self, source: str) -> Path:
        return self._directory.feed(source) / "limit.txt"

    def _clock_file(self, source: str) -> Path:
        """Return the file of when a stream began: the same for all units and all later runs."""
        return self._directory.feed(source) / "begin.json"

    def _begin(self, source: str, settings: Mapping[str, Any]) -> None:
        write_json(self._clock_file(source), begin(settings, time.time_ns() // 1000))
        self._clocks.pop(source, None)

    def _with_clock(self, source: str) -> dict[str, Any]:
        """Return the settings of a source of ours, with when it began."""
        if source not in self._clocks:
            clock = json.loads(self._clock_file(source).read_text())
            self._clocks[source] = {**json.loads(self._settings[source]), **clock}
        return self._clocks[source]

    # What this process feeds.

    def _open_feed(self, source: Source, reader: Reader) -> DataFrame:
        feed = self._feeds.get(source.name)
        if feed is None:
            folder = FeedFolder(self._directory.feed(source.name))
            feed = self._feed(source, reader, folder)
            self._feeds[source.name] = feed
            if self._started is not None:
                feed.start(available_now=self._started)
        paced = reader.format == "rows" or _speed(reader) > 0
        files = _option(reader, "maxFilesPerTrigger") or (_MOST_FILES if paced else "1")
        parse_option(f"source {source.name}", "maxFilesPerTrigger", files, _FILES)
        return self._stream_files(source, feed.folder.files, files)

    def _stream_files(self, source: Source, folder: Path, files: str) -> DataFrame:
        stream = self._session.readStream.schema(struct(source.schema))
        return stream.option("maxFilesPerTrigger", files).parquet(spark_path(folder))

    def _feed(self, source: Source, reader: Reader, folder: FeedFolder) -> Feed:
        owner = f"source {source.name}"
        own = ("rows_per_file", "maxFilesPerTrigger")
        if reader.format == "rows":
            options = check_options(owner, reader.options, (*own, "max_rows"))
            return RowsFeed(
                source.name,
                folder,
                rows=reader.data,
                tables=RowTables(owner, source.schema),
                rows_per_file=_rows_per_file(owner, options),
                most=_parsed(owner, options, "max_rows", whole(1, 2**62)),
            )
        if reader.format == "dataframe":
            options = check_options(owner, reader.options, own)
            frame = positional(reader.data, source).toDF(*source.schema.names)
        else:
            options = {name: _option(reader, name) or "" for name in own if _option(reader, name)}
            frame = self._finite(owner, source, reader)
        names = source.schema.names
        return ReplayFeed(
            source.name,
            folder,
            read=lambda: frame,
            event_time=None if source.event_time is None else names.index(source.event_time),
            speed=_checked_speed(owner, source, reader),
            rows_per_file=_rows_per_file(owner, options),
        )

    def _finite(self, owner: str, source: Source, reader: Reader) -> DataFrame:
        """Return what a replay plays, as finite data."""
        ours = ("source_format", "speed", "rows_per_file", "maxfilespertrigger", "table")
        options = {k: v for k, v in reader.options.items() if k.lower() not in ours}
        name, path = _option(reader, "table"), _option(reader, "path")
        if (name is None) == (path is None):
            raise ConfigError(f"{owner}: replay needs a path or a table", "give one of them")
        if name is None:
            format_ = _option(reader, "source_format") or "parquet"
            return _load(owner, self._session.read, format_, options, source)
        if not _TABLE_NAME.match(name):
            raise ConfigError(f"{owner}: {name[:80]!r} is not the name of a table")
        with _faults(owner, "table"):
            frame = self._session.read.table(name)
        return positional(frame, source).toDF(*source.schema.names)

    # The user's, and Spark's.

    def _open_stream(self, source: Source, frame: DataFrame) -> DataFrame:
        """Return a stream of the user's session in ours.

        A plan runs in the session of its leftmost part, with that session's settings; so an empty
        stream of ours stands there.
        """
        return self.open_nothing(source).union(positional(frame, source))

    def _open_format(self, source: Source, reader: Reader) -> DataFrame:
        owner = f"source {source.name}"
        path, files = _option(reader, "path"), _option(reader, "maxFilesPerTrigger")
        if files is not None:
            parse_option(owner, "maxFilesPerTrigger", files, _FILES)
        if path is not None and re.search(r"[*?\[{]", path):
            # A pattern without files is an empty stream to Spark; more often it is a mistake.
            with _faults(owner, reader.format, path):
                self._session.read.text(path)
        options, schema = dict(reader.options), struct(source.schema)
        if tells_misfits(reader) and not is_kafka(reader.format):
            options |= TELL_MISFITS
            schema = with_misfit(source.schema)
        return _load(owner, self._session.readStream, reader.format, options, source, schema)


def _load(
    owner: str,
    reader: DataFrameReader | DataStreamReader,
    format_: str,
    options: Mapping[str, str],
    wanted: Source | Table,
    schema: StructType | None = None,
) -> DataFrame:
    if is_kafka(format_):
        told = reader.format(format_).options(**kafka_options(wanted.schema, options))
        with _faults(owner, format_):
            return kafka_columns(told.load(), wanted.schema, options)
    path = next((v for k, v in options.items() if k.lower() == "path"), None)
    schema = schema or struct(wanted.schema)
    told = reader.format(format_).options(**options)
    with _faults(owner, format_, path):
        if format_.lower() in _FILE_FORMATS:
            if path is None:
                raise ConfigError(f"{owner}: format {format_} needs a path")
            return told.schema(schema).load()
        try:
            return told.load()
        except PySparkException as exc:
            # Some sources have to be told their columns, others must not be.
            if "schema" not in str(exc).lower():
                raise
            return told.schema(schema).load()


@contextmanager
def _faults(owner: str, format_: str, path: str | None = None) -> Iterator[None]:
    """Turn what Spark says about formats, paths and options into a `ConfigError`."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as exc:
        condition = exc.getCondition() if isinstance(exc, PySparkException) else None
        text = str(exc)
        if condition == "PATH_NOT_FOUND":
            raise ConfigError(f"{owner}: {path} does not exist") from exc
        if "DATA_SOURCE_NOT_FOUND" in text or "Failed to find data source" in text:
            if is_kafka(format_):
                raise ConfigError(f"{owner}: {NO_CONNECTOR}", CONNECTOR_HINT) from exc
            raise ConfigError(
                f"{owner}: Spark does not know the format {format_[:80]}",
                "check its name, or give Spark the connector's jar in spark.jars",
            ) from exc
        raise ConfigError(
            f"{owner}: format {format_} cannot be opened: {_reason(exc)}",
            "check the options; Spark's documentation of the format lists them",
        ) from exc


def _reason(exc: PySparkException | Py4JJavaError) -> str:
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    # The first line of a fault that PySpark does not know only says where it was called.
    at = 1 if isinstance(exc, Py4JJavaError) and len(lines) > 1 else 0
    return lines[at].removeprefix(": ")[:300] if lines else "unknown reason"


# Options.


def _option(reader: Reader, name: str) -> str | None:
    return next((v for k, v in reader.options.items() if k.lower() == name.lower()), None)


def _parsed(owner: str, options: Mapping[str, str], name: str, parse: Any) -> Any:
    return parse_option(owner, name, options[name], parse) if name in options else None


def _rows_per_file(owner: str, options: Mapping[str, str]) -> int:
    text = options.get("rows_per_file", _ROWS_PER_FILE)
    return int(parse_option(owner, "rows_per_file", text, whole(1, 100_000_000)))


def _speed(reader: Reader) -> float:
    text = _option(reader, "speed") if reader.format == "replay" else None
    return 0.0 if text is None else float(parse_option("replay", "speed", text, number(0, 1e9)))


def _checked_speed(owner: str, source: Source, reader: Reader) -> float:
    speed = _speed(reader)
    if speed > 0 and source.event_time is None:
        raise ConfigError(f"{owner}: a replay with a speed needs an event_time")
    return speed
