"""Files of gates: the control history and the shares beside answers, without a JVM."""

from __future__ import annotations

import json
import os
import resource
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.spark.gate.history import ControlHistory
from evenflow.spark.gate.shares import remove_shares, shares_file, write_shares
from evenflow.spark.gate.whole import Window
from evenflow.spark.sink.answer_sink import DriverSink

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
    sink = _Files(tmp_path)
    window = Window(end_us, 0.5, 3, 4, 0)
    write_shares([sink], [(10_000_000, window)], "u1", 7)  # type: ignore[list-item]
    (line,) = shares_file(sink, "u1", 7).read_text().splitlines()  # type: ignore[arg-type]
    told = json.loads(line)
    assert told["end"] is None
    assert (told["share"], told["contributed"], told["gate"]) == (0.5, 3, 4)


def test_shares_of_a_folder_that_is_gone_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sink: Any = _Files(folder)
    remove_shares(sink, "u1", 7)
    folder.write_text("in the way")
    remove_shares(sink, "u1", 7)
    folder.unlink()
    write_shares([sink], [(10_000_000, Window(4 * 10**15, 0.5, 3, 4, 0))], "u1", 7)
    assert shares_file(sink, "u1", 7).exists()
    remove_shares(sink, "u1", 7)
    assert not shares_file(sink, "u1", 7).exists()
