"""State directories: one process at a time, manifests that are understood or refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.errors import ChangedQueryError, StateError
from evenflow.model.query import Query
from evenflow.schedule.cut import cut
from evenflow.spark.late_bound import LateBound, next_batch, watermark_of
from evenflow.spark.state_dir import (
    StateDirectory,
    check_unchanged,
    describe,
    write_json,
)
from tests.schedule.sample import graph_of, window

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = {
    "a": window("sum(kwh) AS s", "ok"),
    "b": window("max(n) AS m", keys="n % 3"),
    "c": "SELECT id FROM readings",
}


def queries_of(**texts: str) -> tuple[Query, ...]:
    return tuple(graph_of(**texts).queries.values())


def manifest_of(queries: tuple[Query, ...]) -> dict[str, Any]:
    made = describe("f", "5f3a", queries, cut(queries))
    return dict(json.loads(json.dumps(made)))


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    first, second = StateDirectory(tmp_path / "state"), StateDirectory(tmp_path / "state")
    first.acquire()
    with pytest.raises(StateError) as caught:
        second.acquire()
    assert caught.value.hint is not None
    first.release()
    second.acquire()
    assert second.held
    second.release()


def test_a_directory_of_another_process_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from evenflow.spark.state_dir import StateDirectory;"
        "d = StateDirectory(pathlib.Path(sys.argv[1])); d.acquire(); print('held', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StateError) as caught:
            StateDirectory(tmp_path).acquire()
        assert str(other.pid) in str(caught.value)
        other.kill()
    StateDirectory(tmp_path).acquire()


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError):
        StateDirectory(tmp_path / "file").acquire()


def test_manifests_are_read_back(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    assert directory.read_manifest() is None
    made = manifest_of(queries_of(**QUERIES))
    directory.write_manifest(made)
    assert directory.read_manifest() == {"evenflow": 1, **made}
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"evenflow": 2}', '{"evenflow": "1"}'])
def test_manifests_that_are_not_understood_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(StateError):
        StateDirectory(tmp_path).read_manifest()


def test_the_same_queries_are_accepted_in_any_order() -> None:
    known = manifest_of(queries_of(**QUERIES))
    again = queries_of(**dict(reversed(QUERIES.items())))
    check_unchanged(known, again, cut(again))
    spelt = queries_of(**{**QUERIES, "c": "select  readings.id from readings"})
    check_unchanged(known, spelt, cut(spelt))


@pytest.mark.parametrize(
    "changed",
    [
        {**QUERIES, "a": window("sum(kwh) AS s", "NOT ok")},
        {**QUERIES, "d": "SELECT n FROM readings"},
        {"a": QUERIES["a"], "b": QUERIES["b"]},
    ],
)
def test_other_queries_are_refused(changed: dict[str, str]) -> None:
    known = manifest_of(queries_of(**QUERIES))
    queries = queries_of(**changed)
    with pytest.raises(ChangedQueryError):
        check_unchanged(known, queries, cut(queries))


def test_another_layout_is_refused() -> None:
    queries = queries_of(**QUERIES)
    known = manifest_of(queries)
    known["units"][1]["slots"].append("sum_double_9")
    with pytest.raises(StateError):
        check_unchanged(known, queries, cut(queries))


def test_clearing_forgets_units_and_keeps_the_lock(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.acquire()
    write_json(directory.unit("u1").counts, {})
    directory.write_manifest(manifest_of(queries_of(**QUERIES)))
    directory.clear()
    assert directory.read_manifest() is None
    assert not directory.unit("u1").path.exists()
    assert directory.held
    directory.release()


# What Spark's log says about batches.


def log(checkpoint: Path, batch: int, watermark_ms: int, *, committed: bool) -> None:
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    line = json.dumps({"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1})
    (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{line}\n0")
    if committed:
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def test_the_next_batch_is_the_one_that_was_not_committed(tmp_path: Path) -> None:
    assert next_batch(tmp_path) == 0
    log(tmp_path, 9, 5, committed=True)
    assert next_batch(tmp_path) == 10
    log(tmp_path, 10, 7, committed=False)
    assert next_batch(tmp_path) == 10


def test_the_late_bound_is_the_watermark_of_the_batch_before(tmp_path: Path) -> None:
    bound = LateBound(tmp_path / "bound.txt", tmp_path)
    bound.prepare()
    assert int((tmp_path / "bound.txt").read_text()) == 1
    log(tmp_path, 0, 0, committed=True)
    log(tmp_path, 1, 4_000, committed=True)
    log(tmp_path, 2, 9_000, committed=False)
    assert watermark_of(tmp_path, 1) == 4_000
    bound.prepare()
    assert int((tmp_path / "bound.txt").read_text()) == 4_000_001
    size = (tmp_path / "bound.txt").stat().st_size
    bound.batch_done(2)
    assert int((tmp_path / "bound.txt").read_text()) == 9_000_001
    assert (tmp_path / "bound.txt").stat().st_size == size
