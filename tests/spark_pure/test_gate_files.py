"""Files of gates: the control history and the shares beside answers, without a JVM."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from evenflow.spark.gate.history import ControlHistory
from evenflow.spark.gate.shares import shares_file, write_shares
from evenflow.spark.gate.whole import Window
from evenflow.spark.sink.answer_sink import DriverSink
from evenflow.spark.sink.files import remove_files

if TYPE_CHECKING:
    from pathlib import Path


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


class _Files(DriverSink):
    by_executors = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def target(self, unit: str, batch: int, part: str = "") -> Path:
        return self._folder / f"{unit}-{batch}{part}.parquet"


@pytest.mark.parametrize("end_us", [4 * 10**17, 253_402_300_799_999_999, -4 * 10**17])
def test_windows_of_years_that_have_no_text_are_written_too(tmp_path: Path, end_us: int) -> None:
    """Spark reckons with years up to 294,247; text goes from the year 1 to 9999."""
    sink = _Files(tmp_path)
    window = Window(end_us, 0.5, 3, 4, 0)
    write_shares([sink], [(10_000_000, window)], "u1", 7)  # type: ignore[list-item]
    (line,) = shares_file(sink, "u1", 7).read_text().splitlines()  # type: ignore[arg-type]
    told = json.loads(line)
    assert told["end"] is None
    assert (told["share"], told["contributed"], told["gate"]) == (0.5, 3, 4)


def test_what_cannot_be_removed_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A sink's folder may be gone or broken when answers are taken back."""
    in_the_way = tmp_path / "folder"
    in_the_way.write_text("in the way")
    stuck = tmp_path / "stuck"
    stuck.mkdir()
    removed = tmp_path / "removed"
    removed.touch()
    remove_files([in_the_way / "_shares" / "a.json", tmp_path / "none", stuck, removed])
    assert not removed.exists()
    (record,) = caplog.records
    assert str(stuck) in record.getMessage()
