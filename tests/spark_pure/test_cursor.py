"""Cursors: a bounded buffer between batches and readers. No session, no JVM."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from evenflow.errors import ConfigError
from evenflow.spark.sink.cursor import Cursor


def table(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)})


def test_answers_come_in_order_and_then_end() -> None:
    cursor = Cursor()
    cursor.write(table(1, 2), "u1", 0)
    cursor.write(table(3), "u1", 1)
    cursor.close()
    assert [answer["n"] for answer in cursor] == [1, 2, 3]
    assert cursor.read() is None


def test_a_batch_that_is_done_again_is_taken_once() -> None:
    cursor = Cursor()
    for _ in range(2):
        cursor.write(table(1), "u1", 4)
    cursor.write(table(2), "u2", 4)
    cursor.close()
    assert [answer["n"] for answer in cursor] == [1, 2]


def test_the_flow_does_not_wait_for_a_slow_reader() -> None:
    cursor = Cursor(size=3)
    cursor.write(table(*range(10)), "u1", 0)
    assert cursor.missed == 7
    assert cursor.read() == {"n": 0}
    cursor.write(table(10, 11), "u1", 1)
    assert cursor.missed == 8
    cursor.close()
    assert [answer["n"] for answer in cursor] == [1, 2, 10]


def test_reading_waits_for_the_next_answer() -> None:
    cursor = Cursor()
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(a["n"] for a in cursor))
    reader.start()
    cursor.write(table(5), "u1", 0)
    cursor.write(table(6), "u1", 1)
    cursor.close()
    reader.join(5)
    assert found == [5, 6]


def test_reading_gives_up_in_time() -> None:
    assert Cursor().read(timeout=0.01) is None


def test_a_closed_cursor_takes_nothing() -> None:
    with Cursor() as cursor:
        pass
    cursor.write(table(1), "u1", 0)
    assert list(cursor) == []


def test_a_cursor_holds_something() -> None:
    with pytest.raises(ConfigError):
        Cursor(size=0)
