"""What a batch that is done again does to the files of its first attempt. No session, no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.model.operator import Source
from evenflow.model.query import Query, Sink
from evenflow.model.schema import parse_schema
from evenflow.spark.sink.demux import Apart
from evenflow.spark.sink.sinks import FileSink, open_sinks
from evenflow.spark.unit.batch import Delivery

if TYPE_CHECKING:
    from pathlib import Path


def test_files_of_an_earlier_attempt_go_and_no_others(tmp_path: Path) -> None:
    source = Source("s", parse_schema("id BIGINT"), None, 0, "x")
    sink = Sink("json", path=str(tmp_path))
    query = Query(name="q", operator=source, schema=source.schema, sinks=(sink,))
    files = FileSink(sink, query, "abcd")
    stale = files.target("u1", 7, "-1-00002")
    unfinished = tmp_path / "_q-abcd-u1-000000007.json.4711.part"
    written = files.target("u1", 7, "")
    others = [files.target("u1", 6, ""), files.target("u2", 7, ""), tmp_path / "mine.json"]
    for file in (stale, unfinished, written, *others):
        file.write_text("{}\n")
    delivery = Delivery("u1", {1: "q"}, {"q": (files,)}, on_cluster=False)
    delivery._remove_others(7, {str(written)})
    assert not stale.exists()
    assert not unfinished.exists()
    assert all(file.exists() for file in (written, *others))


def test_the_parts_of_a_union_are_delivered_as_one() -> None:
    source = Source("s", parse_schema("id BIGINT"), None, 0, "x")
    seen: list[tuple[int, list[int]]] = []

    def keep(batch: int, answers: pa.Table) -> None:
        seen.append((batch, answers.column("id").to_pylist()))

    sink = Sink("callback", function=keep)
    query = Query(name="q", operator=source, schema=source.schema, sinks=(sink,))
    delivery = Delivery("u1", {1: "q", 2: "q"}, {"q": open_sinks(query, "abcd")}, on_cluster=False)
    apart = Apart(answers={2: pa.table({"id": [3]}), 1: pa.table({"id": [1, 2]})})
    delivery._write(apart, 5, remote=False)
    assert seen == [(5, [1, 2, 3])]
