"""What the offset log of a checkpoint tells of a batch that is not done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from evenflow.spark.unit.under_way import batch_under_way, offset_lines, rows_between

if TYPE_CHECKING:
    from pathlib import Path


def log(checkpoint: Path, batch: int, *offsets: str, committed: bool = False) -> None:
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *offsets]))
    os.utime(checkpoint / "offsets" / str(batch), (1000.0 + batch, 1000.0 + batch))
    if committed:
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [
        ('{"t": {"0": 5, "1": 7}}', '{"t": {"0": 9, "1": 7}}', 4),
        ('{"t": {"0": 5}}', '{"t": {"0": 5, "1": 8}}', 8),
        ('{"tick": 3, "index": 1, "rows": 10}', '{"tick": 9, "index": 0, "rows": 25}', 15),
        ("-", '{"rows": 25, "tick": 1}', 25),
        ('{"logOffset": 4}', '{"logOffset": 5}', None),
        ("-", "-", None),
        ("4", "5", None),
        ("{}", "{}", None),
        ('{"t": {"0": 5}}', '{"t": {"0": "x"}}', None),
    ],
)
def test_rows_are_told_where_offsets_count_them(start: str, end: str, rows: int | None) -> None:
    assert rows_between(start, end) == rows


def test_offsets_of_a_batch_that_is_not_there_are_unknown(tmp_path: Path) -> None:
    assert offset_lines(tmp_path, 3) == []
    log(tmp_path, 3, '{"rows": 10}')
    assert offset_lines(tmp_path, 3) == ['{"rows": 10}']


def test_a_batch_that_has_begun_is_found(tmp_path: Path) -> None:
    log(tmp_path, 3, '{"rows": 10}', '{"logOffset": 0}', committed=True)
    assert batch_under_way(tmp_path, 3) is None
    log(tmp_path, 4, '{"rows": 60}', '{"logOffset": 0}')
    found = batch_under_way(tmp_path, 3)
    assert found is not None
    assert (found.number, found.began, found.rows) == (4, 1004.0, (50, None))


def test_one_that_is_committed_is_done_though_not_reported(tmp_path: Path) -> None:
    log(tmp_path, 0, '{"rows": 10}', committed=True)
    assert batch_under_way(tmp_path, -1) is None


def test_the_first_batch_has_all_that_waited(tmp_path: Path) -> None:
    log(tmp_path, 0, '{"rows": 10}')
    found = batch_under_way(tmp_path, -1)
    assert found is not None
    assert found.rows == (10,)
