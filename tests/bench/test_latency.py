"""Ages and answers of the latency benchmark, without Spark."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
import pytest

from evenflow.bench.latency import DELAY_US, WINDOW_US, Trial, check, verdict
from evenflow.bench.live import SECOND_US, Arrivals, FilterQuery, WindowQuery
from evenflow.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.bench.live import LiveQuery

ARRIVALS = Arrivals(1_000, DELAY_US)


def begin_us() -> int:
    return int(time.time() - 20) * SECOND_US // WINDOW_US * WINDOW_US


def write(trial: Trial, query: LiveQuery, *answers: tuple[int, ...]) -> float:
    """Write a file as a sink does; return since when it is visible."""
    folder = trial.sinks / query.name
    folder.mkdir(parents=True, exist_ok=True)
    names = ["id"] if isinstance(query, FilterQuery) else ["w", "k", "n"]
    columns = [list(column) for column in zip(*answers, strict=True)]
    if len(names) > 1:
        columns[0] = [datetime.fromtimestamp(us / SECOND_US, UTC) for us in columns[0]]
    table = pa.table([pa.array(c) for c in columns], names=names)
    beside = folder / "_part"
    pyarrow.parquet.write_table(table, beside)
    target = folder / f"{len(list(folder.iterdir())):03d}.parquet"
    beside.rename(target)
    return target.stat().st_ctime


@pytest.mark.parametrize("query", [FilterQuery(7), WindowQuery(3, WINDOW_US)])
def test_the_age_of_an_answer_counts_from_the_tuple_that_completed_it(
    query: LiveQuery, tmp_path: Path
) -> None:
    trial = Trial([query], ARRIVALS, 1.0, tmp_path)
    begin = begin_us()
    span = begin, begin + 2 * WINDOW_US
    right = sorted(query.right(ARRIVALS, *span))
    seen = write(trial, query, *right)
    if isinstance(query, FilterQuery):
        ages = [seen - id_ / 1_000 for (id_,) in right]
    else:
        # The tuple that lies a delay behind the window's end: one arrives each millisecond.
        ages = [seen - (start + WINDOW_US + DELAY_US) / SECOND_US for start, _, _ in right]
    assert trial.has_all(query, span)
    assert trial.ages(span) == pytest.approx(ages)


def test_answers_of_other_spans_do_not_count(tmp_path: Path) -> None:
    query = FilterQuery(0)
    trial = Trial([query], ARRIVALS, 1.0, tmp_path)
    begin = begin_us()
    span = begin, begin + SECOND_US
    write(trial, query, *query.right(ARRIVALS, begin - SECOND_US, begin + 2 * SECOND_US))
    assert len(trial.ages(span)) == 20


def test_a_file_that_is_still_written_is_left_out(tmp_path: Path) -> None:
    query = FilterQuery(0)
    trial = Trial([query], ARRIVALS, 1.0, tmp_path)
    begin = begin_us()
    span = begin, begin + SECOND_US
    write(trial, query, *query.right(ARRIVALS, *span))
    whole = next((trial.sinks / query.name).glob("*.parquet"))
    whole.with_name("half.parquet").write_bytes(whole.read_bytes()[:-20])
    assert len(trial.answers(query, span)) == 20


@pytest.mark.parametrize(
    "found", [[(1,), (2,)], [(1,), (2,), (3,), (3,)], [(1,), (2,), (4,)]], ids=str
)
def test_missing_repeated_and_wrong_answers_are_told(found: list[tuple[int, ...]]) -> None:
    right: Counter[tuple[int, ...]] = Counter([(1,), (2,), (3,)])
    check("q", Counter(right), right)
    with pytest.raises(RunError, match="query q: "):
        check("q", Counter(found), right)


def test_the_bar_of_latency_is_twice_plain_spark() -> None:
    case = {"kind": "windowed", "p50": 1.0, "plain_one_query_p50": 1.0, "plain_one_query_p99": 1.5}
    report = {
        "cases": [
            {**case, "queries": 1, "p99": 9.0},
            {**case, "queries": 50, "p99": 3.0},
            {**case, "queries": 50, "p99": 3.1},
        ]
    }
    assert [line.rsplit(": ", 1)[1] for line in verdict(report)] == ["met", "missed"]
