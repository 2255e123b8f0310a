"""Random sets of queries: shared answers equal those of plain Spark, counts equal a plain count."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.base.duration import MICROSECONDS
from evenflow.graph.graph import Graph
from evenflow.model.flow import FlowSpec, Reader
from evenflow.model.operator import Source, Table
from evenflow.model.query import Sink
from evenflow.model.schema import parse_schema
from evenflow.model.unit import Kind
from evenflow.schedule.cut import cut
from evenflow.spark.compile.types import struct
from evenflow.spark.run import Run
from evenflow.spark.session import own_session
from tests.conftest import TALLY
from tests.spark import random_set as rs
from tests.spark.reference import PlainRun, canonical_rows, count_windows, generate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SETS = int(os.environ.get("EVENFLOW_RANDOM_SETS", "20"))
SEED = int(os.environ.get("EVENFLOW_SEED", "20261115"))
QUERIES, FILES = (5, 4) if SETS > 20 else (4, 3)
"""Of a set: fewer where they are only a part of all tests."""
ROWS = 250


class RandomSet:
    """One set: data on disk, queries in a graph, both ways to run them."""

    def __init__(self, session: SparkSession, seed: int, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.generated = seed % 8 == 3
        """Whether the stack runs as generated code, which takes twice the time here."""
        rng = random.Random(seed)
        rs.write_data(rng, folder / "data", FILES, ROWS)
        rs.write_table(folder / "cities")
        self.queries = rs.make_queries(rng, QUERIES)
        self.graph = Graph("random")
        schema = parse_schema(rs.SCHEMA)
        self.graph.add_source(Source("s", schema, "ts", rs.WATERMARK_US, "files"))
        self.graph.add_table(Table("cities", parse_schema(rs.TABLE_SCHEMA), "cities"))
        self.graph.add_sql({q.name: q.sql for q in self.queries}, sinks=(Sink("memory"),))

    def spec(self) -> FlowSpec:
        data, table = str(self.folder / "data"), str(self.folder / "cities")
        return FlowSpec(
            name="random",
            queries=tuple(self.graph.queries.values()),
            readers={
                "s": Reader(format="parquet", options={"path": data, "maxFilesPerTrigger": "1"}),
                "cities": Reader(format="parquet", options={"path": table}),
            },
        )

    def shared(
        self, state: str = "state", alone: str | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return answers per query and the final status of a run of all queries, or of one."""
        spec = self.spec()
        if alone is not None:
            spec = replace(spec, queries=(self.graph.queries[alone],))
        run = Run(spec, self.session, self.folder / state)
        if self.generated:
            generate(run.session)
        run.start(available_now=True)
        run.wait()
        answers = {q.name: canonical_rows(run.answers(q.name).to_pylist()) for q in spec.queries}
        return answers, run.stop()

    def narrow(self) -> list[str]:
        """Return the queries that are not expanded when they run alone."""
        units = [cut((query,)) for query in self.graph.queries.values()]
        stacks = [
            unit for (unit, *others) in units if not others and unit.kind is not Kind.STATELESS
        ]
        return [unit.queries[0] for unit in stacks if unit.narrow]

    def plain(self) -> dict[str, Any]:
        """Return answers per query of plain Spark."""
        folder = self.folder / "plain"
        return PlainRun(self._own(), self.spec(), self._open, self._table, folder).answers()

    def _own(self) -> SparkSession:
        """Return a session for the plain side: small data, so compiling would cost the most."""
        own = own_session(self.session)
        own.conf.set("spark.sql.shuffle.partitions", "1")
        return own

    def _open(self, source: Source) -> DataFrame:
        stream = self._own().readStream.schema(struct(source.schema))
        stream = stream.option("maxFilesPerTrigger", 1)
        return stream.parquet(str(self.folder / "data"))

    def _table(self, table: Table) -> DataFrame:
        return self._own().read.parquet(str(self.folder / "cities"))

    def files(self) -> list[DataFrame]:
        """Return the files as finite data, in order."""
        own = self._own()
        schema = struct(parse_schema(rs.SCHEMA))
        paths = sorted((self.folder / "data").iterdir())
        return [own.read.schema(schema).parquet(str(p)) for p in paths]


def differences(set_: RandomSet, shared: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    """Return one line per query whose answers differ."""
    found = []
    for query in set_.queries:
        if shared[query.name] != plain[query.name]:
            more = list((shared[query.name] - plain[query.name]).items())[:3]
            less = list((plain[query.name] - shared[query.name]).items())[:3]
            found.append(f"{query.sql}\n  only shared: {more}\n  only plain: {less}")
    return found


def wrong_counts(set_: RandomSet, status: dict[str, Any]) -> list[str]:
    """Return one line per query whose counts differ from a plain count."""
    found = []
    files = set_.files()
    for query in set_.queries:
        counts = status["queries"][query.name]["counts"]
        total = sum(v for k, v in counts.items() if k not in ("in", "shed"))
        if counts["in"] != total + sum(counts["shed"].values()):
            found.append(f"{query.name}: does not add up: {counts}")
        if query.joins or query.size_s is None or query.slide_s is None:
            continue
        size, slide = query.size_s * MICROSECONDS, query.slide_s * MICROSECONDS
        wanted = count_windows(files, query.where, size, slide, rs.WATERMARK_US)
        given = (counts["in"], counts["late"], counts["contributed"], counts["open"])
        if given != (wanted.tuples_in, wanted.late, wanted.contributed, wanted.open):
            found.append(f"{query.sql}\n  counted {given}, expected {wanted}")
    return found


@pytest.mark.parametrize("number", range(SETS))
def test_shared_answers_equal_plain_answers(
    spark: SparkSession, tmp_path: Path, number: int, record_property: Callable[[str, str], None]
) -> None:
    record_property(TALLY, f"random sets (seeds from {SEED})")
    set_ = RandomSet(spark, SEED + number, tmp_path)
    shared, status = set_.shared()
    plain = set_.plain()
    assert not differences(set_, shared, plain)
    assert not wrong_counts(set_, status)
    for name in set_.narrow()[: number % 4 == 1]:
        answers, alone = set_.shared("state-alone", alone=name)
        assert answers[name] == plain[name], name
        assert alone["queries"][name]["counts"] == status["queries"][name]["counts"], name
