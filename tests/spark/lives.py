"""Random lives of random queries, and what plain Spark and a plain count say of them.

A life goes from file to file. Between two files queries come, go, pause and resume, and the process
may end and start again. What a query should have answered follows from plain Spark, which runs it
alone over all files: of each batch, the windows that the query owned.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
from pyspark.sql import functions as F

from evenflow.graph.graph import Graph
from evenflow.model.flow import FlowSpec, Reader
from evenflow.model.operator import Source, Table
from evenflow.model.query import Sink
from evenflow.model.schema import parse_schema
from evenflow.schedule.request import (
    Keep,
    Origin,
    Pause,
    QueryState,
    Request,
    Resume,
    Subscribe,
    Unsubscribe,
)
from evenflow.spark.compile.plain import PlainBuilder
from evenflow.spark.compile.types import struct
from evenflow.spark.run import Run
from evenflow.spark.session import own_session
from evenflow.spark.unit.checkpoint import committed_offsets
from tests.spark import random_set as rs
from tests.spark.flows import until
from tests.spark.reference import (
    AT_ONCE,
    Row,
    canonical_rows,
    generate,
    watermarks,
    windows_of,
)

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from evenflow.model.query import Query

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
"""Off on both sides: batches are then the files, whenever the process stops and starts."""


@dataclass
class Tenure:
    """What a query did from one change to the next."""

    name: str
    first: int
    """The first file that it met."""
    since: int
    """The last file before it began to take tuples; it owns windows that start later."""
    state: QueryState
    last: int | None = None
    """The last file, None if it goes on."""
    account: int = 0
    """Counts begin anew with every subscription, and go over to an heir."""


@dataclass
class Life:
    """What is asked for, file by file."""

    rng: random.Random
    names: list[str]
    fixed: set[str]
    """They are of the flow file and stay."""
    equal: dict[str, str]
    """By query, what it computes."""
    states: dict[str, QueryState] = field(default_factory=dict)
    tenures: list[Tenure] = field(default_factory=list)
    _accounts: int = 0

    def begin(self, name: str, file: int) -> None:
        """A query is subscribed before a file."""
        kept = [n for n, s in self.states.items() if s is QueryState.KEPT]
        kept = [n for n in kept if self.equal[n] == self.equal[name]]
        heir = name if name in kept else min(kept, default=None)
        if heir is None:
            self._accounts += 1
            new = Tenure(name, file, file - 1, QueryState.RUNNING, account=self._accounts)
        else:
            old = self._end(heir, file)
            del self.states[heir]
            new = Tenure(name, file, old.since, QueryState.RUNNING, account=old.account)
        self.states[name] = QueryState.RUNNING
        self.tenures.append(new)

    def move(self, name: str, state: QueryState | None, file: int) -> None:
        """A query's state changes before a file."""
        old = self._end(name, file)
        if state is None:
            del self.states[name]
            return
        since = file - 1 if old.state is QueryState.PAUSED else old.since
        self.tenures.append(Tenure(name, file, since, state, account=old.account))
        self.states[name] = state

    def _end(self, name: str, file: int) -> Tenure:
        old = next(t for t in self.tenures if t.name == name and t.last is None)
        old.last = file - 1
        return old

    def requests(self, file: int, queries: dict[str, Query]) -> list[Request]:
        """Return what is asked for before a file, and note it."""
        made: list[Request] = []
        for name in self.rng.sample(self.names, self.rng.choice((0, 1, 1, 2))):
            state = self.states.get(name)
            if state is None:
                made.append(Subscribe(query=queries[name], origin=Origin.RUN))
                self.begin(name, file)
                continue
            if name in self.fixed and state is QueryState.KEPT:
                continue
            request, after = self._change(name, state)
            if request is not None:
                made.append(request)
                self.move(name, after, file)
        return made

    def _change(self, name: str, state: QueryState) -> tuple[Request | None, QueryState | None]:
        if state is QueryState.PAUSED:
            return Resume(name=name), QueryState.RUNNING
        if state is QueryState.KEPT:
            return None, None
        if name in self.fixed or self.rng.random() < 0.4:
            return Pause(name=name), QueryState.PAUSED
        if self.rng.random() < 0.4:
            return Keep(name=name), QueryState.KEPT
        return Unsubscribe(name=name), None


class LivingSet:
    """One set of queries, its life on Evenflow, and the reference."""

    def __init__(
        self, session: SparkSession, rng: random.Random, folder: Path, queries: int, files: int
    ) -> None:
        self.session = session
        self.folder = folder
        self.rng = rng
        self.files = files
        self.restarts = 0.2
        """How likely the process ends and starts again between two files."""
        self.generated = False
        """Whether the stack runs as generated code, which takes more time here."""
        rs.write_data(rng, folder / "data", files, 150)
        rs.write_table(folder / "cities")
        (folder / "in").mkdir()
        random_queries = self._make_queries(queries)
        self.graph = Graph("random")
        schema = parse_schema(rs.SCHEMA)
        self.graph.add_source(Source("s", schema, "ts", rs.WATERMARK_US, "files"))
        self.graph.add_table(Table("cities", parse_schema(rs.TABLE_SCHEMA), "cities"))
        self.random = {q.name: q for q in random_queries}
        # A twin, so that a kept query can find an heir.
        twin = random_queries[-1]
        self.random["twin"] = twin
        for name, query in self.random.items():
            self.graph.add_sql(name, query.sql, sinks=(self._sink(name),), every=0.05)
        names = list(self.random)
        self.life = Life(
            rng,
            names,
            set(names[:2]),
            {n: q.operator.hash for n, q in self.graph.queries.items()},
        )

    def _make_queries(self, count: int) -> list[rs.RandomQuery]:
        made = rs.make_queries(self.rng, count)
        if " GROUP BY " in made[0].sql:
            # It shares all it can with the first, the slot that counts included.
            sql = made[0].sql.replace("SELECT ", "SELECT max(id) AS newest, ", 1)
            made[1] = replace(made[0], name=made[1].name, sql=sql)
            if made[0].where is None and made[0].fails is None and self.rng.random() < 0.5:
                # Or all but that: the family has two conditions.
                even = "id % 2 = 0"
                sql = sql.replace(" GROUP BY ", f" WHERE {even} GROUP BY ", 1)
                made[1] = replace(made[1], sql=sql, where=even)
        return made

    def _sink(self, name: str) -> Sink:
        return Sink("parquet", str(self.folder / "out" / name))

    # On Evenflow.

    def live(self) -> dict[str, Any]:
        """Live, and return the last status."""
        for name in sorted(self.life.fixed):
            self.life.begin(name, 0)
        run = self._start()
        try:
            for file in range(self.files):
                requests = self.life.requests(file, self.graph.queries)
                if requests:
                    run.change(*requests)
                if file and self.rng.random() < self.restarts:
                    run.stop()
                    run = self._start()
                self._lay(file)
                _wait_for(run, file)
        except BaseException:
            run.stop()
            raise
        return run.stop()

    def _start(self) -> Run:
        given = tuple(self.graph.queries[name] for name in sorted(self.life.fixed))
        run = Run(self._spec(given), self.session, self.folder / "state")
        run.session.conf.set(NO_DATA, "false")
        if self.generated:
            generate(run.session)
        return run.start()

    def _spec(self, queries: tuple[Query, ...]) -> FlowSpec:
        data, table = str(self.folder / "in"), str(self.folder / "cities")
        return FlowSpec(
            name="random",
            queries=queries,
            readers={
                "s": Reader(format="parquet", options={"path": data, "maxFilesPerTrigger": "1"}),
                "cities": Reader(format="parquet", options={"path": table}),
            },
            catalog=(*self.graph.sources.values(), *self.graph.tables.values()),
        )

    def _lay(self, file: int) -> None:
        name = f"{file:04d}.parquet"
        beside = self.folder / "in" / f"_{name}"
        shutil.copy2(self.folder / "data" / name, beside)
        beside.rename(self.folder / "in" / name)

    def answered(self, name: str) -> Counter[Row]:
        """Return what is in a query's sink."""
        folder = self.folder / "out" / name
        found: Counter[Row] = Counter()
        for file in sorted(folder.glob("*.parquet")) if folder.exists() else ():
            found.update(canonical_rows(pyarrow.parquet.read_table(file).to_pylist()))
        return found

    # The reference.

    def expected(self) -> dict[str, Counter[Row]]:
        """Return what each query should have answered, out of what plain Spark answers."""
        newest = self._newest()
        plain = self._plain()
        found: dict[str, Counter[Row]] = {name: Counter() for name in self.life.names}
        for tenure in self.life.tenures:
            if tenure.state is not QueryState.RUNNING:
                continue
            read = max((n for n in newest[: tenure.since + 1] if n is not None), default=None)
            last = self.files - 1 if tenure.last is None else tenure.last
            for file in range(tenure.first, last + 1):
                for row in plain[tenure.name].get(file, ()):
                    start = _start_us(row)
                    if start is None or read is None or start > read:
                        found[tenure.name].update(canonical_rows([row]))
        return found

    def _plain(self) -> dict[str, dict[int, list[dict[str, Any]]]]:
        """Return the answers of each query alone, by file."""
        own = own_session(self.session)
        own.conf.set("spark.sql.shuffle.partitions", "1")
        own.conf.set(NO_DATA, "false")
        stream = own.readStream.schema(struct(parse_schema(rs.SCHEMA)))
        stream = stream.option("maxFilesPerTrigger", 1)
        builder = PlainBuilder(
            source=lambda _: stream.parquet(str(self.folder / "data")),
            table=lambda _: own.read.parquet(str(self.folder / "cities")),
            applied=lambda _: lambda frame: frame,
        )
        found: dict[str, dict[int, list[dict[str, Any]]]] = {}
        running = []
        names = sorted({t.name for t in self.life.tenures})
        alike = {
            name: min(n for n in names if self.life.equal[n] == self.life.equal[name])
            for name in names
        }
        for name in sorted(set(alike.values())):
            found[name] = {}

            def keep(frame: DataFrame, batch: int, name: str = name) -> None:
                found[name][batch] = frame.toArrow().to_pylist()

            writer = builder.query(self._plain_query(name)).writeStream.foreachBatch(keep)
            writer = writer.option("checkpointLocation", str(self.folder / "plain" / name))
            running.append(writer.trigger(availableNow=True).start())
            if len(running) >= AT_ONCE:
                running.pop(0).awaitTermination()
        for each in running:
            each.awaitTermination()
        return {name: found[alike[name]] for name in names}

    def _plain_query(self, name: str) -> Query:
        """Return what plain Spark runs for a query."""
        return self.graph.queries[name]

    def _newest(self) -> list[int | None]:
        """Return the newest event time of each file."""
        found: list[int | None] = []
        for file in range(self.files):
            table = pyarrow.parquet.read_table(self.folder / "data" / f"{file:04d}.parquet")
            times = [t for t in table.column("ts").cast("int64").to_pylist() if t is not None]
            found.append(max(times, default=None))
        return found

    # Counts.

    def counted(self, name: str) -> dict[str, int] | None:
        """Return what a query should have counted, None if no plain count knows."""
        query = self.random[name]
        if query.joins:
            return None
        open_tenure = next(t for t in self.life.tenures if t.name == name and t.last is None)
        tenures = [t for t in self.life.tenures if t.account == open_tenure.account]
        newest = self._newest()
        marks = watermarks(newest, rs.WATERMARK_US)[: self.files]
        counts = dict.fromkeys(
            ("in", "contributed", "open", "late", "filtered", "rejected", "paused", "cut"), 0
        )
        for file in range(self.files):
            tenure = next((t for t in tenures if t.first <= file <= _last(t, self.files)), None)
            if tenure is None:
                continue
            for us, holds, fails in self._tuples[name][file]:
                if query.size_s is None or query.slide_s is None:
                    fates = [_plain_fate(tenure, holds, fails)]
                else:
                    size, slide = query.size_s * 1_000_000, query.slide_s * 1_000_000
                    judge = _Judge(tenure, tenures, newest, marks, self.files)
                    ends = windows_of(us, size, slide)
                    fates = [judge.fate(file, end, size, holds, fails) for end in ends]
                for fate in fates:
                    counts["in"] += 1
                    counts[fate] += 1
        return {name: value for name, value in counts.items() if value}

    @cached_property
    def _tuples(self) -> dict[str, list[list[tuple[int | None, bool, bool]]]]:
        """By query and file: event time, whether it is wanted, whether that cannot be told."""
        own = own_session(self.session)
        frame = own.read.schema(struct(parse_schema(rs.SCHEMA))).parquet(str(self.folder / "data"))
        columns = [F.col("_metadata.file_name"), F.unix_micros("ts")]
        for query in self.random.values():
            holds = F.lit(True) if query.where is None else F.expr(query.where)
            fails = F.lit(False) if query.fails is None else F.expr(query.fails)
            columns += [F.coalesce(each, F.lit(False)) for each in (holds, fails)]
        rows = frame.select(*(c.alias(f"_{i}") for i, c in enumerate(columns))).collect()
        found: dict[str, list[list[tuple[int | None, bool, bool]]]] = {}
        for at, name in enumerate(self.random):
            files: list[list[tuple[int | None, bool, bool]]] = [[] for _ in range(self.files)]
            for row in rows:
                files[int(row[0][:4])].append((row[1], row[2 + 2 * at], row[3 + 2 * at]))
            found[name] = files
        return found


@dataclass
class _Judge:
    """Says what became of a tuple in a window."""

    tenure: Tenure
    tenures: list[Tenure]
    newest: list[int | None]
    marks: list[int]
    files: int

    def fate(self, file: int, end: int | None, size: int, holds: bool, fails: bool) -> str:
        if self.tenure.state is QueryState.PAUSED:
            return "paused"
        if fails and end is not None:
            return "rejected"
        if not holds or end is None:
            return "filtered"
        late_by = self.marks[file - 1] * 1000 if file else 0
        if end - 1 <= late_by:
            return "late"
        since = self.newest[: self.tenure.since + 1]
        read = max((n for n in since if n is not None), default=None)
        if read is not None and end - size <= read:
            return "cut"
        closing = next(
            (f for f in range(file, self.files) if end - 1 <= self.marks[f] * 1000), None
        )
        # A change after the last file still cuts what is open.
        until_ = closing if closing is not None else self.files
        paused = any(
            t.state is QueryState.PAUSED and file < t.first <= until_ for t in self.tenures
        )
        if paused:
            return "cut"
        return "open" if closing is None else "contributed"


def _plain_fate(tenure: Tenure, holds: bool, fails: bool) -> str:
    if tenure.state is QueryState.PAUSED:
        return "paused"
    if fails:
        return "rejected"
    return "contributed" if holds else "filtered"


def _last(tenure: Tenure, files: int) -> int:
    return files - 1 if tenure.last is None else tenure.last


def _start_us(row: dict[str, Any]) -> int | None:
    start = row["w"]["start"] if "w" in row else row.get("w0")
    return None if start is None else round(start.timestamp() * 1_000_000)


def _wait_for(run: Run, file: int) -> None:
    until(lambda: all(has_read(each.directory.checkpoint, file) for each in run.runs))


def has_read(checkpoint: Path, file: int) -> bool:
    """Whether a unit has finished a file."""
    read = committed_offsets(checkpoint)
    return bool(read) and read[0] != "-" and json.loads(read[0])["logOffset"] == file
