"""Files of gates: the control history and the shares beside answers, without a JVM."""

from __future__ import annotations

import json
import os
import resource
from typing import TYPE_CHECKING, Any, cast

import pytest

from evenflow.errors import StateError
from evenflow.spark.gate.history import ControlHistory, read_rows
from evenflow.spark.gate.shares import (
    KEPT_BATCHES,
    batch_record,
    has_no_place,
    remove_in_state,
    remove_shares,
    shares_file,
    state_file,
    window_records,
    write_beside,
    write_in_state,
)
from evenflow.spark.gate.whole import Window
from evenflow.spark.sink.answer_sink import DriverSink

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.spark.sink.answer_sink import AnswerSink


def test_half_a_row_does_not_stand_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gates.jsonl"
    history = ControlHistory(file)
    history.ask({1: 0.5})
    history.begin(0)
    history.ask({1: 0.2})

    def full(descriptor: int) -> None:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - 5)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            history.begin(1)
    assert history.begin(1).keep == {1: 0.2}
    again = ControlHistory(file)
    assert [again.of(batch).keep for batch in (0, 1)] == [{1: 0.5}, {1: 0.2}]


def test_a_row_of_which_the_disk_took_half_was_not_written(tmp_path: Path) -> None:
    file = tmp_path / "gates.jsonl"
    history = ControlHistory(file)
    history.ask({1: 0.5})
    history.begin(0)
    history.ask({1: 0.2})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 40, before[1]))
    try:
        with pytest.raises(OSError, match="half a row"):
            history.begin(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert history.begin(1).keep == {1: 0.2}
    assert ControlHistory(file).of(1).keep == {1: 0.2}


class _Files(DriverSink):
    by_executors = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def target(self, unit: str, batch: int, part: str = "") -> Path:
        return self._folder / f"{unit}-{batch}{part}.parquet"


@pytest.mark.parametrize("end_us", [4 * 10**17, 253_402_300_799_999_999, -4 * 10**17])
def test_windows_of_years_that_have_no_text_are_written_too(tmp_path: Path, end_us: int) -> None:
    """Spark reckons with years up to 294,247; text goes from the year 1 to 9999."""
    sink: Any = _Files(tmp_path)
    window = Window(end_us, 0.5, 3, 4, 3)
    write_beside([sink], window_records("q", [(10_000_000, window)]), "u1", 7)
    (line,) = shares_file(sink, "u1", 7).read_text().splitlines()
    told = json.loads(line)
    assert told["end"] is None
    assert (told["query"], told["fraction"], told["share"]) == ("q", 0.5, 0.3)
    assert (told["contributed"], told["dropped"], told["cut"]) == (3, 4, 3)


def test_shares_of_a_folder_that_is_gone_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sink: Any = _Files(folder)
    remove_shares(sink, "u1", 7)
    folder.write_text("in the way")
    remove_shares(sink, "u1", 7)
    folder.unlink()
    write_beside([sink], [batch_record("q", 7, 0.5, 3, 4)], "u1", 7)
    assert shares_file(sink, "u1", 7).exists()
    remove_shares(sink, "u1", 7)
    assert not shares_file(sink, "u1", 7).exists()


def test_a_window_of_several_parts_is_one() -> None:
    """Parts of which nothing was dropped have tuples in it, too. Other sizes are other windows."""
    end = 10_000_000 - 1
    parts = [Window(end, 0.5, 6, 2, 0), Window(end, 1.0, 8, 0, 0), Window(end, 0.25, 1, 2, 1)]
    others = [(20_000_000, Window(end, 0.5, 0, 4, 0)), (10_000_000, Window(end + 5, 1.0, 9, 0, 0))]
    found = window_records("q", [*((10_000_000, each) for each in parts), *others])
    assert [each["start"] for each in found] == [
        "1970-01-01T00:00:00+00:00",
        "1969-12-31T23:59:50+00:00",
    ]
    first, second = found
    assert (first["fraction"], first["share"]) == (0.25, 0.75)
    assert (first["contributed"], first["dropped"], first["cut"]) == (15, 4, 1)
    assert (second["share"], second["contributed"]) == (0.0, 0)


def test_the_state_has_the_last_batches_once(tmp_path: Path) -> None:
    folder = tmp_path / "shares"
    write_in_state(folder, [], "u1", 0)
    assert not folder.exists()
    for attempt in range(2):
        write_in_state(folder, [batch_record("q", 7, 0.5, 3, 4 + attempt)], "u1", 7)
    write_in_state(folder, [batch_record("q", 7, 0.5, 3, 4)], "u2", 7)
    told = json.loads(state_file(folder, "u1", 7).read_text())
    assert (told["batch"], told["kept"], told["dropped"], told["share"]) == (7, 3, 5, 0.375)
    write_in_state(folder, [], "u1", 7 + KEPT_BATCHES)
    assert [file.name for file in folder.iterdir()] == [state_file(folder, "u2", 7).name]
    write_in_state(folder, [], "u2", 7)
    assert list(folder.iterdir()) == []
    remove_in_state(folder, "u2", 7)


def test_answers_that_are_not_files_have_no_place_beside_them(tmp_path: Path) -> None:
    files, elsewhere = cast("list[AnswerSink]", [_Files(tmp_path), DriverSink()])
    assert not has_no_place([files])
    assert all(map(has_no_place, ([elsewhere], [files, elsewhere], [])))


def close_each_batch(history: ControlHistory, batches: range, stay_ms: int | None) -> list[int]:
    """Change gates in each batch, whose watermark is its number in seconds; return how many rows
    each batch was handed."""
    handed = []
    for batch in batches:
        history.ask({1: 1 / (batch + 2)})
        history.begin(batch)
        late_ms, watermark_ms = max(0, 1000 * (batch - 1)), 1000 * batch
        rows = history.needed(batch, late_ms=late_ms, watermark_ms=watermark_ms, stay_ms=stay_ms)
        handed.append(len(rows))
        # What was dropped in batch b is of event times before its watermark plus the delay.
        open_since = next(
            b for b in range(batch + 1) if stay_ms is None or late_ms < 1000 * (b + 1) + stay_ms
        )
        assert {row.batch for row in rows.values()} >= set(range(open_since, batch + 1))
    return handed


def test_a_batch_is_handed_only_what_may_still_be_in_the_state(tmp_path: Path) -> None:
    file = tmp_path / "gates.jsonl"
    history = ControlHistory(file)
    handed = close_each_batch(history, range(40), stay_ms=5_000)
    assert max(handed) == handed[-1] == 7
    # The next process does not know when the rows ended, and takes it that they end now.
    again = ControlHistory(file)
    assert [again.of(batch) for batch in range(40)] == read_rows(file)
    handed = close_each_batch(again, range(40, 60), stay_ms=5_000)
    assert handed[0] == 41
    assert handed[-1] == 7


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"{}\n", b"null\n"])
def test_a_history_that_is_damaged_is_one_clear_error(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "gates.jsonl"
    history = ControlHistory(file)
    history.ask({1: 0.5})
    history.begin(0)
    file.write_bytes(damage + file.read_bytes())
    with pytest.raises(StateError, match=r"gates\.jsonl"):
        ControlHistory(file)
    assert file.read_bytes().startswith(damage)


def test_the_history_does_not_grow_while_a_unit_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenflow.spark.gate.history.MOST_ROWS", 50)
    monkeypatch.setattr("evenflow.spark.gate.history.SPARE_ROWS", 20)
    for name, stay_ms, most in (("told", 3_000, 5), ("never told", None, 50)):
        file = tmp_path / name
        history = ControlHistory(file)
        batches = range(300)
        for batch in batches:
            history.ask({1: 1 / (batch + 2)})
            assert history.begin(batch).batch == batch
            late_ms, watermark_ms = 1000 * (batch - 1), 1000 * batch
            handed = history.needed(
                batch, late_ms=late_ms, watermark_ms=watermark_ms, stay_ms=stay_ms
            )
            assert len(handed) <= most
            assert len(read_rows(file)) <= most + 21
            # Reports of the last batches are looked at when their gates are long forgotten.
            told = range(max(0, batch - 99), batch + 1)
            assert [history.of(each).batch for each in told] == [*told] or name != "told"
            assert len(history._rows) <= most + 201
        # What is left is what a process that starts now needs.
        assert ControlHistory(file).of(299) == history.of(299)
        assert [row.version for row in read_rows(file)] == list(
            range(301 - len(read_rows(file)), 301)
        )


def test_a_history_is_on_disk_before_it_replaces_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And if it cannot be written, the one before stays."""
    monkeypatch.setattr("evenflow.spark.gate.history.SPARE_ROWS", 2)
    history = ControlHistory(tmp_path / "gates.jsonl")
    for batch in range(4):
        history.ask({1: 1 / (batch + 2)})
        history.begin(batch)
    before = (tmp_path / "gates.jsonl").read_text()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        history.needed(3, late_ms=0, watermark_ms=0, stay_ms=0)
    assert (tmp_path / "gates.jsonl").read_text() == before
    history.needed(3, late_ms=0, watermark_ms=0, stay_ms=0)
    assert len(read_rows(tmp_path / "gates.jsonl")) == 1
    assert ControlHistory(tmp_path / "gates.jsonl").of(3) == history.of(3)


def test_what_was_asked_for_and_no_batch_has_had_is_there_for_the_next_process(
    tmp_path: Path,
) -> None:
    """Also if the next batch has a row already, which it keeps."""
    history = ControlHistory(tmp_path / "gates.jsonl")
    history.ask({1: 0.5})
    assert history.begin(7).keep == {1: 0.5}
    history.ask({})
    history.keep_asked(7)
    again = ControlHistory(tmp_path / "gates.jsonl")
    assert again.newest == {}
    assert again.of(7).keep == {1: 0.5}
    assert again.of(8).keep == {}
    again.keep_asked(9)
    assert again.newest == {}
