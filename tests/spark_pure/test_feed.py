"""Feeding iterables: whole files in order, ended, gone on with, or failed."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from evenflow.errors import ConfigError, RunError
from evenflow.model.schema import parse_schema
from evenflow.spark.source.feed import FeedFolder, RowsFeed, spark_path
from evenflow.spark.source.row_table import RowTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

TABLES = RowTables("source s", parse_schema("id BIGINT"))


def feed(path: Path, rows: Iterable[Any], most: int | None = None, per_file: int = 10) -> RowsFeed:
    return RowsFeed(
        "s", FeedFolder(path), rows=rows, tables=TABLES, rows_per_file=per_file, most=most
    )


def laid(path: Path) -> list[list[int]]:
    files = sorted((path / "files").iterdir(), key=lambda f: f.stat().st_mtime_ns)
    assert files == sorted(files)
    return [pyarrow.parquet.read_table(f).column("id").to_pylist() for f in files]


def flat(path: Path) -> list[int]:
    return [each for file in laid(path) for each in file]


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_rows_are_laid_in_files_of_a_size(tmp_path: Path) -> None:
    feed(tmp_path, ((i,) for i in range(25))).start(available_now=True)
    assert laid(tmp_path) == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    assert FeedFolder(tmp_path).done


def test_what_was_laid_completely_is_not_laid_again(tmp_path: Path) -> None:
    rows = [(i,) for i in range(5)]
    feed(tmp_path, rows).start(available_now=True)
    feed(tmp_path, rows).start(available_now=True)
    assert flat(tmp_path) == list(range(5))


def test_rows_without_end_are_laid_up_to_a_bound(tmp_path: Path) -> None:
    feed(tmp_path, ((i,) for i in itertools.count()), most=23).start(available_now=True)
    assert flat(tmp_path) == list(range(23))


@pytest.mark.slow
def test_a_thread_lays_rows_as_they_come(tmp_path: Path) -> None:
    more = threading.Event()

    def rows() -> Iterator[tuple[int]]:
        yield from ((i,) for i in range(15))
        more.wait()
        yield from ((i,) for i in range(15, 20))

    made = feed(tmp_path, rows())
    made.start(available_now=False)
    wait(lambda: flat(tmp_path) == list(range(15)))
    assert not made.folder.done
    more.set()
    wait(lambda: made.folder.done)
    assert flat(tmp_path) == list(range(20))
    made.stop()
    made.raise_failure()


@pytest.mark.slow
@pytest.mark.parametrize("again", [True, False])
def test_feeding_goes_on_where_it_stopped(tmp_path: Path, again: bool) -> None:
    """A list is begun again and skipped forward; an iterator is where it is."""
    rows: Any = [(i,) for i in range(200_000)]
    rows = rows if again else iter(rows)
    for _ in range(20):
        made = feed(tmp_path, rows, per_file=500)
        made.start(available_now=False)
        time.sleep(0.1)
        made.stop()
        made.raise_failure()
    feed(tmp_path, rows, per_file=50_000).start(available_now=True)
    assert flat(tmp_path) == list(range(200_000))


@pytest.mark.slow
def test_a_failing_iterable_is_told_after_its_last_row(tmp_path: Path) -> None:
    def rows() -> Iterator[tuple[int]]:
        yield (1,)
        raise OSError("no more")

    made = feed(tmp_path, rows())
    made.start(available_now=False)
    wait(lambda: made._failure is not None)
    made.stop()
    with pytest.raises(RunError):
        made.raise_failure()
    assert flat(tmp_path) == [1]
    with pytest.raises(RunError):
        feed(tmp_path / "now", rows()).start(available_now=True)


def test_a_row_that_does_not_fit_is_told_by_its_number(tmp_path: Path) -> None:
    rows = [(i,) for i in range(15)] + [("x",)]
    with pytest.raises(ConfigError) as caught:
        feed(tmp_path, rows).start(available_now=True)
    assert "row 15" in caught.value.message
    assert flat(tmp_path) == list(range(10))


def test_a_path_for_spark_is_no_pattern(tmp_path: Path) -> None:
    assert spark_path(tmp_path / "a b[1]") == f"file://{tmp_path}/a b\\[1\\]"
