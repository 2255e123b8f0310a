"""The file of a gate that stands alone, without a JVM."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from evenflow.errors import ConfigError
from evenflow.spark.compile.gates import ONE, threshold
from evenflow.spark.gate.alone import set_gate
from evenflow.spark.gate.gate_file import AHEAD_US, KNOWN, add_fraction, gate_path, make_gate

if TYPE_CHECKING:
    from pathlib import Path


def told(file: Path) -> list[tuple[int, int]]:
    """Return times and thresholds that are not those of the beginning."""
    numbers = [int(text) for text in file.read_text().split(",")]
    known = list(zip(numbers[:KNOWN], numbers[KNOWN:], strict=True))
    return [each for each in known if each != (0, ONE - 1)]


@pytest.mark.parametrize("name", ["_gate.txt", ".gate"])
def test_names_that_spark_passes_over_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        gate_path(tmp_path / name)
    with pytest.raises(ConfigError):
        set_gate(tmp_path / name, 0.5)


@pytest.mark.parametrize("text", ["", "garbage\n", "1,2\n", "1," * (2 * KNOWN - 1) + "\n", "\xff"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "gate.txt"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError):
        set_gate(file, 0.5)
    with pytest.raises(ConfigError):
        make_gate(file)
    assert file.read_text(encoding="latin-1") == text


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        make_gate(tmp_path / "nowhere" / "gate.txt")
    with pytest.raises(ConfigError):
        set_gate(tmp_path / "nowhere" / "gate.txt", 0.5)
    with pytest.raises(ConfigError):
        set_gate(tmp_path, 0.5)


def test_the_file_keeps_its_length_and_forgets_the_oldest(tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    make_gate(file)
    size = file.stat().st_size
    for number in range(KNOWN + 5):
        add_fraction(file, number, lambda: 10 * AHEAD_US + number)  # noqa: B023
    assert file.stat().st_size == size
    assert told(file)[0] == (11 * AHEAD_US + 5, 5)
    assert len(told(file)) == KNOWN
    make_gate(file)  # as a query does that is started again
    assert told(file)[-1] == (11 * AHEAD_US + KNOWN + 4, KNOWN + 4)


def test_what_is_set_by_a_clock_that_is_behind_holds_last(tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    make_gate(file)
    now = time.time_ns() // 1000
    add_fraction(file, threshold(0.5), lambda: now + 10**9)
    add_fraction(file, threshold(0.2), lambda: now)
    ahead = now + 10**9 + AHEAD_US
    assert told(file) == [(ahead, threshold(0.5)), (ahead + 1, threshold(0.2))]


def test_what_takes_long_to_write_still_begins_later(tmp_path: Path) -> None:
    """Who waits for others, or for the disk, must not change a batch that has begun meanwhile."""
    file, times = tmp_path / "gate.txt", iter([0, 900_000, 1_000_000, 1_100_000])
    make_gate(file)
    add_fraction(file, threshold(0.5), lambda: next(times))
    assert told(file) == [(1_000_000 + 2 * AHEAD_US, threshold(0.5))]
    slow = iter(range(0, 10**12, 10**9))
    with pytest.raises(ConfigError, match="takes seconds"):
        add_fraction(file, threshold(0.2), lambda: next(slow))
    assert told(file) == [(1_000_000 + 2 * AHEAD_US, threshold(0.5))]


def test_the_same_fraction_again_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    make_gate(file)
    for _ in range(3):
        set_gate(file, 0.5)
    assert len(told(file)) == 1


def test_writers_do_not_lose_what_others_write(tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    make_gate(file)

    def write(first: int) -> None:
        for number in range(20):
            add_fraction(file, 1000 * first + number, lambda: 0)

    writers = [threading.Thread(target=write, args=(each,)) for each in range(1, 7)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    known = told(file)
    assert {limit for _, limit in known} == {1000 * i + n for i in range(1, 7) for n in range(20)}
    assert len({since for since, _ in known}) == len(known) == 120
