"""`Flow`: the Python edge. A graph of queries, and how its sources and tables are read.

Nothing runs until `start`, and only `start` and DataFrames given as data bring in Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from evenflow.base.duration import parse_duration_us
from evenflow.base.paths import local_path
from evenflow.control.mode import chosen_mode
from evenflow.errors import ConfigError
from evenflow.graph.explain import explain
from evenflow.graph.graph import Graph, QueryOptions
from evenflow.model import types as t
from evenflow.model.flow import FlowSpec, Reader
from evenflow.model.kafka import check_kafka_source, is_kafka
from evenflow.model.operator import Source, Table
from evenflow.model.query import FILE_FORMATS, Sink
from evenflow.model.schema import Schema, parse_schema
from evenflow.model.sources import (
    BUILTIN,
    DEFAULT_WATERMARK_US,
    builtin_schema,
    reader_identity,
)
from evenflow.schedule.cut import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from evenflow.graph.builder import Stream
    from evenflow.model.query import Query
    from evenflow.model.unit import Unit
    from evenflow.spark.run import Run

Option = str | int | float | bool
_log = logging.getLogger(__name__)


class Flow:
    """Sources, tables and queries that run together."""

    def __init__(self, name: str, state: str | Path | None = None) -> None:
        """Make an empty flow.

        Args:
            name: The flow's name.
            state: Directory of checkpoints, manifests and counters; `.evenflow/NAME` under the
                current directory if not given. Another run on the same state goes on where the
                one before ended: finite data that was read is not read again.

        Raises:
            ConfigError: The name is not allowed.
        """
        self.graph = Graph(name)
        self.state = Path(".evenflow") / name if state is None else local_path(str(state))
        self._readers: dict[str, Reader] = {}
        self._given: list[Any] = []

    @classmethod
    def read(cls, path: str | Path) -> Flow:
        """Return the flow that a file describes.

        Raises:
            ConfigError: The file is wrong.
            QueryError: One of its queries is wrong.
        """
        from evenflow.cli.flow_file import read_flow

        return read_flow(Path(path))

    @property
    def name(self) -> str:
        """The flow's name."""
        return self.graph.name

    # What it reads.

    def source(
        self,
        name: str,
        format: str | None = None,  # noqa: A002  # as in the flow file and in Spark
        options: Mapping[str, Option] | None = None,
        schema: str | Schema | None = None,
        *,
        data: Any = None,
        event_time: str | None = None,
        watermark: str | float | None = None,
        id: str | None = None,  # noqa: A002  # as in the flow file
    ) -> Stream:
        """Add a source and return its stream.

        Args:
            name: What queries call it.
            format: A streaming format of Spark, or one of ours: meters, constant, poisson,
                burst, replay.
            options: The format's options.
            schema: The columns, as `id BIGINT, ts TIMESTAMP`. Ours and DataFrames have their own.
            data: Instead of a format: a DataFrame, or an iterable of rows (tuples or dicts).
            event_time: The TIMESTAMP column by which windows are cut.
            watermark: How far event times may lag behind the newest, as "10 seconds".
            id: A column of whole numbers that tells tuples apart.

        Raises:
            ConfigError: Something about it is wrong.
            QueryError: The name is taken.
        """
        reader, columns = self._reader("source", name, format, options, schema, data)
        known = BUILTIN.get(reader.format)
        if known is not None:
            event_time, id = event_time or known.event_time, id or known.id  # noqa: A001
        if watermark is None and event_time is not None and known is None:
            raise ConfigError(
                f"source {name}: an event time needs a watermark",
                "say how late tuples may come, as watermark: 10 seconds",
            )
        _check_generator(name, reader)
        delay = DEFAULT_WATERMARK_US if watermark is None else _watermark_us(watermark)
        reader = changed(reader, id=_id_column(name, columns, id))
        source = Source(name, columns, event_time, delay, self._identity(reader))
        stream = self.graph.add_source(source)
        self._readers[name] = reader
        return stream

    def table(
        self,
        name: str,
        format: str | None = None,  # noqa: A002
        path: str | Path | None = None,
        options: Mapping[str, Option] | None = None,
        schema: str | Schema | None = None,
        *,
        data: Any = None,
    ) -> Table:
        """Add finite data to join with.

        Args:
            name: What queries call it.
            format: A batch format of Spark: parquet, csv, json ...
            path: Where it lies.
            options: The format's options.
            schema: The columns. Parquet and DataFrames have their own.
            data: Instead of a format: a DataFrame, or an iterable of rows (tuples or dicts).

        Raises:
            ConfigError: Something about it is wrong.
            QueryError: The name is taken.
        """
        given = dict(options or {})
        if path is not None:
            given["path"] = str(path)
        if isinstance(data, Iterator):
            data = list(data)  # each unit that joins with it reads it, and so does calibration
        reader, columns = self._reader("table", name, format, given, schema, data)
        table = Table(name, columns, self._identity(reader))
        self.graph.add_table(table)
        self._readers[name] = reader
        return table

    # What it answers.

    def sql(
        self,
        name: str,
        text: str,
        sink: Sink | Sequence[Sink] = (),
        **options: Unpack[QueryOptions],
    ) -> Query:
        """Add a query written in SQL.

        Args:
            name: The query's name; other queries can read it.
            text: One SELECT, or several with UNION ALL.
            sink: Where its answers go.
            options: weight, floor, every, deadline, on_error.

        Raises:
            ConfigError: The name or an option is wrong.
            QueryError: The text is wrong, or the name is taken.
        """
        sinks = (sink,) if isinstance(sink, Sink) else tuple(sink)
        options["sinks"] = (*options.get("sinks", ()), *sinks)
        return self.graph.add_sql(name, text, **options)[name]

    def stream(self, name: str) -> Stream:
        """Return a source or a query as a stream to build on.

        Raises:
            QueryError: There is none of that name.
        """
        return self.graph.stream(name)

    # What becomes of it.

    def spec(self) -> FlowSpec:
        """Return everything a shell needs to run the flow.

        Raises:
            ConfigError: There is no query, or two write to the same place.
        """
        queries = tuple(self.graph.queries.values())
        if not queries:
            raise ConfigError(f"flow {self.name} has no queries")
        _check_paths(queries)
        return FlowSpec(
            name=self.name,
            queries=queries,
            readers=dict(self._readers),
            applied=self.graph.applied,
            catalog=(*self.graph.sources.values(), *self.graph.tables.values()),
        )

    def units(self) -> tuple[Unit, ...]:
        """Return the units that the queries become."""
        return cut(tuple(self.graph.queries.values()))

    def explain(self, format: str = "text") -> str:  # noqa: A002
        """Return the graph and its units as `text`, `json`, `dot` or `svg`.

        Raises:
            ConfigError: The format is not known.
        """
        return explain(self.graph, self.units(), format)

    def start(
        self,
        spark: SparkSession | None = None,
        *,
        state: str | Path | None = None,
        available_now: bool = False,
        master: str | None = None,
        replace: bool = False,
        shed: str | None = None,
    ) -> Run:
        """Start the flow and return its run, which is also a context manager that stops it.

        The control loop runs beside it and stops with it. Before the units start it measures what
        queries cost, a few seconds each, unless that is known.

        Args:
            spark: The session to run in, which is never stopped here. Without it one is made,
                tuned for Evenflow and stopped with the flow.
            state: State directory, instead of the flow's.
            available_now: End when all that is there has been read.
            master: Where a session that is made here runs.
            replace: Accept changed queries under known names, and forget their state.
            shed: `on`, `off` or `dry-run`: whether the control loop may drop tuples when load does
                not fit. If not given, it may if a query has a deadline, unless `available_now`.

        Raises:
            ConfigError: There is no query, two write to the same place, or `shed` is none of these.
            EnvironmentFaultError: No session was given and Java is missing.
            StateError: Another process uses the state directory.
            ChangedQueryError: The state was made by other queries.
        """
        spec = self.spec()
        mode = chosen_mode(shed, spec.queries, available_now=available_now)
        if spark is None:
            from evenflow.spark.java import use_java

            use_java()
        from evenflow.control.shell import Control
        from evenflow.control.stored import surveyor
        from evenflow.spark.run import Run

        directory = self.state if state is None else local_path(str(state))
        run = Run(spec, spark, directory, master=master, replace=replace)
        survey = surveyor(spec, directory, _log.info)
        beside = Control(directory, mode=mode, survey=survey)
        return run.start(available_now=available_now, beside=beside)

    # Inside.

    def _reader(
        self,
        kind: str,
        name: str,
        format_: str | None,
        options: Mapping[str, Option] | None,
        schema: str | Schema | None,
        data: Any,
    ) -> tuple[Reader, Schema]:
        if (format_ is None) == (data is None):
            raise ConfigError(f"{kind} {name}: give either a format or data")
        texts = {key: _option_text(value) for key, value in (options or {}).items()}
        columns = parse_schema(schema) if isinstance(schema, str) else schema
        if format_ is not None:
            reader = Reader(format=format_, options=texts)
            return reader, _format_schema(kind, name, reader, columns)
        is_frame = hasattr(data, "sparkSession")
        if is_frame and columns is None:
            from evenflow.spark.compile.types import schema_of

            columns = schema_of(data.schema)
        if columns is None:
            raise ConfigError(f"{kind} {name}: rows need a schema", "add schema='id BIGINT, ...'")
        format_ = "dataframe" if is_frame else "rows"
        return Reader(format=format_, options=texts, data=data), columns

    def _identity(self, reader: Reader) -> str:
        if reader.data is None:
            return reader_identity(reader.format, reader.options)
        serial = next((i for i, each in enumerate(self._given) if each is reader.data), None)
        if serial is None:
            serial = len(self._given)
            self._given.append(reader.data)
        return f"{reader.format}#{serial}"


def _format_schema(kind: str, name: str, reader: Reader, given: Schema | None) -> Schema:
    own = builtin_schema(reader.format, reader.options)
    if own is not None:
        if given is not None and given != own:
            raise ConfigError(
                f"{kind} {name}: format {reader.format} has columns of its own",
                f"leave the schema out; it has {', '.join(own.names)}",
            )
        return own
    if given is not None:
        if is_kafka(reader.format):
            check_kafka_source(f"{kind} {name}", given, reader.options)
        return given
    path = reader.options.get("path")
    if kind == "table" and reader.format == "parquet" and path is not None:
        from evenflow.spark.source.tables import parquet_schema

        return parquet_schema(path)
    raise ConfigError(
        f"{kind} {name}: format {reader.format} needs a schema",
        "write it as schema: id BIGINT, ts TIMESTAMP, kwh DOUBLE",
    )


def _option_text(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_generator(name: str, reader: Reader) -> None:
    """Refuse options that a source which makes tuples does not have.

    Raises:
        ConfigError: There are some.
    """
    if reader.format not in BUILTIN:
        return
    from evenflow.spark.source.generator_options import GENERATORS, generator_settings

    if reader.format in GENERATORS:
        try:
            generator_settings(reader.format, reader.options, 1)
        except ConfigError as exc:
            raise ConfigError(f"source {name}: {exc.message}", exc.hint) from exc


def _watermark_us(text: str | float) -> int:
    """Return microseconds. Unlike other durations it may be zero: no tuple may be late."""
    if isinstance(text, int | float):
        text = f"{text:.6f} seconds"
    number, _, unit = text.strip().partition(" ")
    if unit and number.replace(".", "", 1).isdigit() and float(number) == 0:
        parse_duration_us(f"1 {unit}")
        return 0
    return parse_duration_us(text)


def _id_column(name: str, columns: Schema, id_: str | None) -> str | None:
    if id_ is None:
        return None
    found = columns.find(id_)
    if found is None or not isinstance(found.type, t.IntegerType):
        raise ConfigError(f"source {name}: id {id_} is not a column of whole numbers")
    return found.name


def _check_paths(queries: Iterable[Query]) -> None:
    writers: dict[str, str] = {}
    for query in queries:
        for sink in query.sinks:
            if sink.format not in FILE_FORMATS or sink.path is None:
                continue
            place = sink.path.rstrip("/")
            if place in writers:
                raise ConfigError(
                    f"queries {writers[place]} and {query.name} write to the same path {place}",
                    "give each sink a directory of its own",
                )
            writers[place] = query.name
