"""State directories: one process at a time, manifests that are understood or refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from evenflow.errors import StateError
from evenflow.model.query import Query
from evenflow.model.unit import Kind, Unit
from evenflow.schedule.cut import begin
from evenflow.spark.compile.gates import GatePlan
from evenflow.spark.compile.stack import NOT_YET
from evenflow.spark.gate.history import ControlHistory
from evenflow.spark.state.directory import StateDirectory
from evenflow.spark.state.manifest import Manifest, read_manifest, write_manifest
from evenflow.spark.state.sealed import VERSION, write_json
from evenflow.spark.unit.checkpoint import next_batch, watermark_of
from evenflow.spark.unit.told import Told
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


def manifest_of(queries: tuple[Query, ...]) -> Manifest:
    return Manifest(flow="f", id="5f3a", life=begin(queries))


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


def test_nothing_is_left_of_units_that_are_gone(tmp_path: Path) -> None:
    """Shares of theirs neither: others have other names."""
    directory = StateDirectory(tmp_path)
    for unit in ("u1", "u2", "u11"):
        folder = directory.unit(unit)
        folder.pulse("s")
        folder.shares.mkdir(exist_ok=True)
        (folder.shares / f"{unit}-000000007.json").write_text("{}\n")
    directory.keep_units({"u2", "u11"})
    assert [unit.path.name for unit in directory.units()] == ["u11", "u2"]
    left = sorted(file.name for file in (tmp_path / "shares").iterdir())
    assert left == ["u11-000000007.json", "u2-000000007.json"]


def test_a_directory_of_another_process_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from evenflow.spark.state.directory import StateDirectory;"
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
    file = tmp_path / "manifest.json"
    assert read_manifest(file) is None
    made = manifest_of(queries_of(**QUERIES))
    write_manifest(file, made)
    assert read_manifest(file) == made
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"evenflow": 3}', '{"evenflow": "2"}'])
def test_manifests_that_are_not_understood_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "manifest.json"
    file.write_text(text)
    with pytest.raises(StateError) as caught:
        read_manifest(file)
    assert str(file) in str(caught.value)
    assert file.read_text() == text


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    write_manifest(file, manifest_of(queries_of(**QUERIES)))
    file.write_text(
        file.read_text().replace(f'"evenflow": {VERSION}', f'"evenflow": {VERSION + 1}')
    )
    with pytest.raises(StateError, match="newer"):
        read_manifest(file)


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_or_altered_manifest_is_named(tmp_path: Path, at: float) -> None:
    file = tmp_path / "manifest.json"
    write_manifest(file, manifest_of(queries_of(**QUERIES)))
    whole = file.read_text()
    file.write_text(whole[: int(len(whole) * at)])
    with pytest.raises(StateError, match=re.escape(str(file))):
        read_manifest(file)
    digits = [m.start() for m in re.finditer(r"\d", whole)]
    where = digits[int(len(digits) * at)]
    file.write_text(whole[:where] + str((int(whole[where]) + 1) % 10) + whole[where + 1 :])
    with pytest.raises(StateError, match=re.escape(str(file))):
        read_manifest(file)


def test_clearing_forgets_units_and_keeps_the_lock(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.acquire()
    write_json(directory.unit("u1").counts, {})
    write_manifest(directory.manifest, manifest_of(queries_of(**QUERIES)))
    directory.clear()
    assert read_manifest(directory.manifest) is None
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


OPEN = [0, 0]
"""What a batch is told of gates where there are none: version and closed bits."""


def bounds(file: Path) -> list[int]:
    return [int(value) for value in file.read_text().split(",")]


def test_the_late_bound_is_the_watermark_of_the_batch_before(tmp_path: Path) -> None:
    file = tmp_path / "bound.txt"
    history = ControlHistory(tmp_path / "gates.jsonl")
    trunk = queries_of(**QUERIES)[0].operator
    bound = Told(file, tmp_path, history, GatePlan(Unit("u1", Kind.HASH, trunk, (), 1.0)))
    bound.prepare()
    assert bounds(file) == [1, 0, *OPEN]
    size = file.stat().st_size
    log(tmp_path, 0, 0, committed=True)
    log(tmp_path, 1, 4_000, committed=True)
    log(tmp_path, 2, 9_000, committed=False)
    assert watermark_of(tmp_path, 1) == 4_000
    bound.ensure()
    assert bounds(file) == [1, 0, *OPEN]
    bound.prepare()
    assert bounds(file) == [4_000_001, 0, *OPEN]
    bound.since_us = NOT_YET
    bound.batch_done(2)
    assert bounds(file) == [9_000_001, NOT_YET, *OPEN]
    assert file.stat().st_size == size
