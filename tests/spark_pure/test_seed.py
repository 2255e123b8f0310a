"""Seeds are there whole or not at all, wherever a process ends that keeps, sows or forgets one."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.spark.unit.seed import Around, Donation, forget_seed, keep_seed, sow, sow_stateless

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Ended(BaseException):
    """The process has ended here."""


def donor(folder: Path) -> Donation:
    """Make the checkpoint of a unit that has read four files in two batches."""
    files = {
        "offsets/1": 'v1\n{"batchWatermarkMs":5}\n{"logOffset":3}',
        "commits/1": "v1\n{}",
        **{f"sources/0/{i}": f"v1\nfile {i}" for i in range(4)},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Donation(folder, batch=1, position=0)


def ending_at(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, at whose nth call the process ends."""
    calls = iter(range(1, number))

    def called(*args: Any, **kwargs: Any) -> Any:
        if next(calls, None) is None:
            raise _Ended
        return function(*args, **kwargs)

    return called


@pytest.mark.parametrize("number", range(1, 9))
def test_a_seed_that_is_forgotten_is_whole_or_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    seed = tmp_path / "seed"
    keep_seed(seed, {"s": donor(tmp_path / "donor")}, Around(4, 5), None)
    there = {str(f.relative_to(seed)) for f in seed.rglob("*")}
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", ending_at(number, os.unlink))
        patched.setattr(os, "rmdir", ending_at(number, os.rmdir))
        with suppress(_Ended):
            forget_seed(seed)
    assert not seed.exists() or {str(f.relative_to(seed)) for f in seed.rglob("*")} == there


def test_sowing_twice_is_sowing_once(tmp_path: Path) -> None:
    seed, checkpoint = tmp_path / "seed", tmp_path / "checkpoint"
    keep_seed(seed, {"s": donor(tmp_path / "donor")}, Around(4, 5), None)
    for _ in range(2):
        sow_stateless(seed, checkpoint, ["s"])
    assert (checkpoint / "offsets" / "0").read_text().splitlines()[2] == '{"logOffset":3}'
    assert len(list((checkpoint / "sources" / "0").iterdir())) == 4
    assert json.loads((checkpoint / "metadata").read_text())["id"]


def test_a_seed_of_several_donors_goes_to_the_places_of_its_sources(tmp_path: Path) -> None:
    seed, checkpoint = tmp_path / "seed", tmp_path / "checkpoint"
    one = donor(tmp_path / "one")
    two = tmp_path / "two"
    for name, text in {
        "offsets/7": 'v1\n{"batchWatermarkMs":9}\n{"x":1}\n{"pulse":1}\n{"y":2}\n{"pulse":2}',
        "sources/2/0": "v1\nfile of y",
        # The unit that begins, after its batch over nothing.
        "../checkpoint/offsets/0": 'v1\n{"batchWatermarkMs":0,"conf":{}}\n0\np\n0\np\n0\np',
        "../checkpoint/commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "../checkpoint/sources/4/0": "v1\nnothing",
    }.items():
        (two / name).parent.mkdir(parents=True, exist_ok=True)
        (two / name).write_text(text)
    keep_seed(seed, {"s": one, "y": Donation(two, batch=7, position=2)}, Around(4, 5), Around(6, 7))
    sow(seed, checkpoint, ["y", "s", "unread"])
    assert (checkpoint / "offsets" / "0").read_text().splitlines() == [
        "v1",
        '{"batchWatermarkMs": 4, "conf": {}}',
        '{"y":2}',
        "p",
        '{"logOffset":3}',
        "p",
        "-",
        "p",
    ]
    assert json.loads((checkpoint / "commits" / "0").read_text().splitlines()[1]) == {
        "nextBatchWatermarkMs": 5
    }
    assert (checkpoint / "sources" / "0" / "0").read_text() == "v1\nfile of y"
    assert len(list((checkpoint / "sources" / "2").iterdir())) == 4
    assert not (checkpoint / "sources" / "4").exists()
    assert sow_stateless(seed, tmp_path / "other", ["s", "y"]) == Around(6, 7)
