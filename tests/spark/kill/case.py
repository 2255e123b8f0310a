"""A life of a flow with kills in it, and what should have come of it all the same.

The queries, what plain Spark answers and what a plain count counts are those of the random lives;
here the flow is another process, which is killed and started again until all is read.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.csv
import pyarrow.parquet

from evenflow.model.query import Sink
from evenflow.schedule.request import QueryState
from evenflow.spark.compile.types import struct, to_arrow
from evenflow.spark.gate.shares import FOLDER
from evenflow.spark.session import own_session
from evenflow.spark.state.manifest import definition_to_json, read_manifest
from tests.spark import random_set as rs
from tests.spark.flows import counts
from tests.spark.kill.change import PendingChange
from tests.spark.kill.input import FileInput
from tests.spark.kill.process import FlowProcess, Kill, Killed
from tests.spark.kill.report import Report
from tests.spark.lives import LivingSet
from tests.spark.reference import canonical_rows

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.model.query import Query
    from evenflow.schedule.life import Life as KeptLife
    from tests.spark.kill.input import Input
    from tests.spark.reference import Row

ROWS = 150
"""Tuples in a file."""
MOVES = {
    "pause": QueryState.PAUSED,
    "resume": QueryState.RUNNING,
    "unsubscribe": None,
    "keep": QueryState.KEPT,
}
_SAFE = "CASE WHEN n <> 0 THEN 10 / n > 2 ELSE FALSE END"
_SLIDING = "SELECT n % 3 AS k, window.start AS w0, window.end AS w1, count(*) AS c FROM s WHERE "
_SORTED = "SELECT max(name) AS a, min(x) AS b, window.start AS w0, window.end AS w1 FROM s "


class KilledSet(LivingSet):
    """A set of queries that lives in a process which is killed."""

    def __init__(
        self,
        session: SparkSession,
        rng: random.Random,
        folder: Path,
        *,
        fixed: Sequence[str],
        files: int,
        input_: Callable[[KilledSet], Input] | None = None,
        faults: Sequence[str] = (),
    ) -> None:
        """Write data and flow file.

        Args:
            session: For the reference.
            rng: Draws queries and data.
            folder: For everything.
            fixed: Queries of the flow file; the others can be subscribed.
            files: How many there are to read.
            input_: Makes what the flow reads; files if it is not given.
            faults: What to break in the flow's process.
        """
        super().__init__(session, rng, folder, queries=0, files=files)
        self.life.fixed = set(fixed)
        self.input = FileInput(self) if input_ is None else input_(self)
        self.process = FlowProcess(self.graph.name, folder, faults)
        self.laid = 0
        self.report = Report([], [])
        self._write_flow()
        for name in sorted(fixed):
            self.life.begin(name, 0)

    def _make_queries(self, count: int) -> list[rs.RandomQuery]:
        rng = self.rng
        common = rng.choice(rs.KEYS), rng.choice(rs.WINDOWS[:7])
        made = [rs._windowed(rng, name, common) for name in ("q0", "q1")]
        made += [rs._stateless(rng, "plain"), rs._distinct(rng, "distinct")]
        group = "GROUP BY n % 3, window(ts, '15 seconds', '5 seconds')"
        made.append(
            rs.RandomQuery(
                "rejects", f"{_SLIDING}10 / n > 2 {group}", _SAFE, 15, 5, joins=False, fails="n = 0"
            )
        )
        # The last one has a twin. No other has such slots: it opens a unit.
        sql = f"{_SORTED}GROUP BY window(ts, '10 seconds')"
        return [*made, rs.RandomQuery("sorted", sql, None, 10, 10, joins=False)]

    def _plain_query(self, name: str) -> Query:
        query = self.random[name]
        if query.fails is None:
            return super()._plain_query(name)
        # Plain Spark would end at the first tuple that fails.
        safe = f"{name}-safe"
        if safe not in self.graph.queries:
            self.graph.add_sql(safe, query.sql.replace("10 / n > 2", _SAFE))
        return self.graph.queries[safe]

    def _sink(self, name: str) -> Sink:
        sql = self.random[name].sql
        has_struct = " as w," in sql.replace(" as w F", " as w, F") or " AS w " in sql
        formats = ("parquet", "json") if has_struct else ("csv", "json", "parquet")
        format_ = formats[list(self.random).index(name) % len(formats)]
        return Sink(format_, str(self._out(name)))

    def _out(self, name: str) -> Path:
        return self.folder / "out" / name

    def _write_flow(self) -> None:
        times = {"schema": rs.SCHEMA, "event_time": "ts", "watermark": "10 seconds"}
        queries = {}
        for name in sorted(self.life.fixed):
            sink = self.graph.queries[name].sinks[0]
            queries[name] = {
                "sql": self.random[name].sql,
                "every": "50 ms",
                "sink": {"format": sink.format, "path": sink.path},
            }
        flow = {
            "evenflow": 1,
            "flow": self.graph.name,
            "state": str(self.process.state),
            "sources": {"s": {**self.input.source(), **times}},
            "queries": queries,
        }
        (self.folder / "flow.yaml").write_text(json.dumps(flow))

    # Living.

    def begin(self, *kills: Kill) -> None:
        """Start the flow."""
        self.process.start(kills[0] if kills else None)
        self._do(lambda: None, kills)

    def read(self, files: int, *kills: Kill) -> None:
        """Have it read some more files."""
        last = self.laid + files - 1
        self.process.arm(kills[0] if kills else None)
        for file in range(self.laid, last + 1):
            self.input.lay(file)
        self.laid = last + 1
        self._do(lambda: self.process.wait_until(lambda: self._has_read(last)), kills)

    def _has_read(self, file: int) -> bool:
        units = self.process.state / "units"
        running = [unit.id for unit in self.kept().units if unit.numbers]
        return all(self.input.has_read(units / id_ / "checkpoint", file) for id_ in running)

    def change(self, move: str, name: str, *kills: Kill, again: bool = True) -> None:
        """Have a query subscribed, paused, resumed, kept or unsubscribed.

        Args:
            move: What to ask for.
            name: The query.
            kills: When to kill meanwhile.
            again: Ask again if the change was killed before it happened.
        """
        before, after = self.life, copy.deepcopy(self.life)
        if move == "subscribe":
            after.begin(name, self.laid)
        else:
            after.move(name, MOVES[move], self.laid)
        change = PendingChange(self, before, after, self._request(move, name), again)
        self.process.arm(kills[0] if kills else None)
        self._do(change.make, kills, change.killed)
        self.life = after if change.happened else before

    def _request(self, move: str, name: str) -> dict[str, Any]:
        if move == "subscribe":
            query = definition_to_json(self.graph.queries[name])
            return {"ask": "subscribe", "name": name, "query": query}
        if move == "keep":
            return {"ask": "unsubscribe", "name": name, "keep": True}
        return {"ask": move, "name": name}

    def stop(self, *kills: Kill) -> dict[str, Any]:
        """Stop the flow and return its last status."""
        found: dict[str, Any] = {}
        self.process.arm(kills[0] if kills else None)
        self._do(lambda: found.update(self.process.stop()), kills)
        return found

    def _do(
        self,
        work: Callable[[], None],
        kills: Sequence[Kill],
        killed: Callable[[Kill], None] = lambda _: None,
    ) -> None:
        """Do something, over as many lives as it takes. The first kill is armed."""
        left = list(kills)
        kill = left.pop(0) if left else None
        while True:
            try:
                self.process.wait_until_up()
                work()
                if kill is None:
                    return
                self.report.missed.append(str(kill))
                self.process.arm(Kill(None))
                self.process.wait_until(lambda: False)
            except Killed:
                assert kill is not None
                self.report.kills.append(str(kill))
                killed(kill)
                kill = left.pop(0) if left else None
                for unit in (self.process.state / "units").glob("*"):
                    self.input.forget_unplanned(unit / "checkpoint")
                self.process.start(kill)

    def kept(self) -> KeptLife:
        """Return the life that the manifest holds."""
        manifest = read_manifest(self.process.state / "manifest.json")
        assert manifest is not None
        return manifest.life

    # What came of it.

    def judge(self, status: dict[str, Any]) -> Report:
        """Compare answers and counts, after all files were read and the flow has stopped."""
        assert self.laid == self.files
        report = self.report
        wanted, given = self.expected(), {n: self.answered(n) for n in self.life.names}
        for name in self.life.names:
            lost, repeated = wanted[name] - given[name], given[name] - wanted[name]
            report.expected += wanted[name].total()
            report.lost += lost.total()
            report.repeated += repeated.total()
            if lost or repeated:
                some = f"lost {list(lost.items())[:3]}\n  repeated {list(repeated.items())[:3]}"
                report.details.append(f"{name}: {self.random[name].sql}\n  {some}")
        for name in sorted(self.life.states):
            expected, counted = self.counted(name), counts(status, name)
            if name in self.life.fixed:
                counted["answers"] = status["queries"][name]["answers"]
                expected = {**(expected or {}), "answers": wanted[name].total()}
            if expected != counted:
                both = {*(expected or {}), *counted}
                report.counters_wrong += sum(
                    1 for field_ in both if (expected or {}).get(field_) != counted.get(field_)
                )
                report.details.append(f"{name}: counted {counted}\n  expected {expected}")
        parts = [file.name for name in self.life.fixed for file in self._out(name).glob("_*")]
        report.details += [f"left behind: {name}" for name in parts]
        if report.details:
            report.details += [str(tenure) for tenure in self.life.tenures]
            report.details.append(f"killed: {report.kills}")
        return report

    def told(self, name: str) -> Counter[str]:
        """Return what is told beside a query's answers of what gates left."""
        files = (self._out(name) / FOLDER).glob("*.json")
        return Counter(line for file in files for line in file.read_text().splitlines())

    def answered(self, name: str) -> Counter[Row]:
        """Return what is in a query's sink."""
        query = self.graph.queries[name]
        (sink,) = query.sinks
        files = sorted(self._out(name).glob(f"*.{sink.format}"))
        if not files:
            return Counter()
        if sink.format == "json":
            reader = own_session(self.session).read.schema(struct(query.schema))
            frame = reader.option("mode", "FAILFAST").json([str(file) for file in files])
            return canonical_rows(frame.toArrow().to_pylist())
        types = {each.name: to_arrow(each.type) for each in query.schema}
        # Spark's reader takes an empty text for NULL.
        as_written = pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        tables = [
            pyarrow.parquet.read_table(file)
            if sink.format == "parquet"
            else pyarrow.csv.read_csv(file, convert_options=as_written)
            for file in files
        ]
        return canonical_rows(row for table in tables for row in table.to_pylist())
