"""How fast a unit works, out of Spark's reports."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from evenflow.spark.unit.pace import Pace, PartCounts, batch_report


def progress(batch: int, *, began: float, seconds: float = 0.5, rows: int = 100) -> dict[str, Any]:
    """Return what Spark reports of a batch over one source and its pulse."""
    stamp = datetime.fromtimestamp(began, UTC).isoformat(timespec="milliseconds")
    return {
        "runId": "r",
        "batchId": batch,
        "timestamp": stamp.replace("+00:00", "Z"),
        "durationMs": {"triggerExecution": int(seconds * 1000)},
        "sources": [
            {
                "numInputRows": rows,
                "endOffset": {"t": {"0": 10, "1": 5}},
                "latestOffset": {"t": {"0": 12, "1": 9}},
            },
            {"numInputRows": 0, "endOffset": {"logOffset": 1}, "latestOffset": None},
        ],
        "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 2000}],
        "eventTime": {"watermark": "2026-01-05T12:00:00.000Z"},
    }


def test_a_report_has_rows_backlog_and_state() -> None:
    report = batch_report(progress(3, began=1000.0))
    assert report.rows == (100, 0)
    assert report.behind == (6, None)
    assert (report.state_rows, report.state_bytes) == (7, 2000)
    assert (report.began, report.seconds) == (1000.0, 0.5)


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        (None, {"t": {"0": 3}}, 3),
        ('{"rows": 5}', '{"rows": 9}', 4),
        ({"logOffset": 1}, None, None),
        ("-", "-", None),
        ({"t": {"0": 9}}, {"t": {"0": 4}}, 0),
    ],
)
def test_a_backlog_is_told_where_offsets_are_counts(
    end: Any, latest: Any, expected: int | None
) -> None:
    found = progress(0, began=1.0)
    found["sources"][0] |= {"endOffset": end, "latestOffset": latest}
    assert batch_report(found).behind[0] == expected


def held(batch: int, rows: int, behind: int | None) -> dict[str, Any]:
    """Return what Spark reports of a batch that left some rows behind."""
    found = progress(batch, began=1000.0 + batch, rows=rows)
    latest = None if behind is None else {"t": {"0": 10 + behind, "1": 5}}
    found["sources"][0]["latestOffset"] = latest
    return found


def test_tuples_came_since_a_batch_found_nothing_else() -> None:
    pace = Pace()
    assert pace.came_after(0) is None
    pace.note(held(0, 100, 0))
    assert pace.came_after(0) == 1000.0
    assert pace.came_after(1) is None
    pace.note(held(1, 100, None))
    assert (pace.came_after(0), pace.came_after(1)) == (1001.0, 1000.0)


def test_tuples_that_a_source_held_back_came_earlier() -> None:
    """A batch reads 100 rows at most, and 300 come before each: rows get older and older."""
    pace = Pace()
    pace.note(held(0, 100, 0))
    for batch in range(1, 10):
        pace.note(held(batch, 100, 200 * batch))
    # After 1,000 rows were read: 1,000 were there, and read or left, when batch 3 began, not 4.
    assert pace.came_after(0) == 1003.0
    assert pace.came_after(1) == 1002.0
    for batch in range(10, 40):
        pace.note(held(batch, 100, max(0, 1800 - 100 * (batch - 9))))
    assert pace.came_after(0) == 1039.0


def test_rates_are_over_the_time_that_passed() -> None:
    pace = Pace()
    start = time.time() - 100
    for batch in range(20):
        pace.note(progress(batch, began=start + batch))
        pace.note(progress(batch, began=start + batch))
    # 100 rows a second; the last batch ended half a second after it began.
    assert pace.read_rates(active=False)[0] == pytest.approx(1000 / 9.5, rel=0.01)
    # It runs, and has read nothing for a long time.
    assert pace.read_rates(active=True)[0] < 2


def test_rates_of_parts_are_differences() -> None:
    pace = Pace()
    assert pace.part_rates() == {}
    pace.count({1: PartCounts(100, 10, 1)})
    assert pace.part_rates() == {}
    time.sleep(0.1)
    pace.count({1: PartCounts(200, 60, 3), 2: PartCounts(5, 5, 5)})
    ((number, (arrived, taken, answers)),) = pace.part_rates().items()
    assert number == 1
    assert arrived / taken == pytest.approx(2.0)
    assert taken / answers == pytest.approx(25.0)
    assert arrived < 1001
