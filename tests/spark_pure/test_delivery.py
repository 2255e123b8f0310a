"""What a batch that is done again does to the files of its first attempt. No session, no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.model.operator import Source
from evenflow.model.query import Query, Sink
from evenflow.model.schema import parse_schema
from evenflow.spark.batch import Delivery
from evenflow.spark.sink.sinks import FileSink

if TYPE_CHECKING:
    from pathlib import Path


def test_files_of_an_earlier_attempt_go_and_no_others(tmp_path: Path) -> None:
    source = Source("s", parse_schema("id BIGINT"), None, 0, "x")
    sink = Sink("json", path=str(tmp_path))
    query = Query(name="q", operator=source, schema=source.schema, sinks=(sink,))
    files = FileSink(sink, query, "abcd")
    stale = files.target("u1", 7, "-1-00002")
    written = files.target("u1", 7, "")
    others = [files.target("u1", 6, ""), files.target("u2", 7, ""), tmp_path / "mine.json"]
    for file in (stale, written, *others):
        file.write_text("{}\n")
    delivery = Delivery("u1", {1: "q"}, {"q": (files,)}, on_cluster=False)
    delivery._remove_others(7, {str(written)})
    assert not stale.exists()
    assert all(file.exists() for file in (written, *others))
