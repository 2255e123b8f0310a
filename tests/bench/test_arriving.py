"""Files of tuples: every tuple once, with the time of its schedule."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet

from evenflow.bench.arriving import arriving, write
from evenflow.bench.live import Arrivals

ARRIVALS = Arrivals(rate=200_000, delay_us=0)


def read(file: Path) -> list[tuple[int, int]]:
    table = pyarrow.parquet.read_table(file, partitioning=None)
    times = table.column("ts").cast("int64").to_pylist()
    return list(zip(table.column("id").to_pylist(), times, strict=True))


def test_event_times_are_those_of_the_schedule(tmp_path: Path) -> None:
    first = ARRIVALS.first_from(1_800_000_000_123_456)
    write(ARRIVALS, range(first, first + 7), tmp_path / "f.parquet")
    assert read(tmp_path / "f.parquet") == [
        (id_, ARRIVALS.at_us(id_)) for id_ in range(first, first + 7)
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["f.parquet"]


def test_a_process_writes_all_tuples_once_and_ends(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    with arriving(Arrivals(rate=1000, delay_us=0), folder):
        deadline = time.monotonic() + 30
        while len(list(folder.glob("*.parquet"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    files = sorted(folder.glob("0*.parquet"))
    assert len(files) >= 3
    ids = [id_ for file in files for id_, _ in read(file)]
    assert all(b == a + 1 for a, b in pairwise(ids))
    time.sleep(0.5)
    assert sorted(folder.glob("0*.parquet")) == files
