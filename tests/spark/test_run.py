"""Flows as they run: answers, counts, errors, restarts, and what a session sees of it."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from evenflow.errors import (
    ChangedQueryError,
    ConfigError,
    EnvironmentFaultError,
    StateError,
)
from evenflow.flow import Flow
from evenflow.model.query import Sink
from evenflow.spark.compile.types import struct
from evenflow.spark.run import Run, run_flow
from evenflow.spark.session import own_session
from evenflow.spark.state.status import read_status
from evenflow.spark.unit.unit_run import UnitRun
from tests.spark.flows import (
    MEMORY,
    SCHEMA,
    add_source,
    counts,
    flow_over,
    lay,
    row,
    rows_of,
    run_all,
    until,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

HUGE = 2**62
WINDOW = "window(ts, '10 seconds')"

# One flow with everything in it, run once.

PLAIN = "SELECT id, upper(k) AS k FROM s WHERE x > 1"
QUERIES = {
    "plain": PLAIN,
    "over": "SELECT id * 10 AS id FROM plain WHERE k IS NOT NULL",
    "base": "SELECT ts, k, x * 2 AS twice FROM s WHERE x > 1",
    "windowed": (
        f"SELECT k, window.start AS w, count(*) AS c, sum(x) AS x FROM s GROUP BY k, {WINDOW}"
    ),
    "windowed_over": f"SELECT window.end AS w, sum(twice) AS s FROM base GROUP BY {WINDOW}",
    "sliding": (
        "SELECT window.start AS w, count(*) AS c FROM s "
        "WHERE k = 'a' GROUP BY window(ts, '10 seconds', '5 seconds')"
    ),
    "uneven": (
        "SELECT window.start AS w, count(*) AS c FROM s "
        "WHERE k = 'a' GROUP BY window(ts, '10 seconds', '4 seconds')"
    ),
    "distinct": f"SELECT DISTINCT k, {WINDOW} AS w FROM s",
    "united": "SELECT id, 's' AS f FROM s UNION ALL SELECT id, 'r' FROM r WHERE n > 0",
    "both": "SELECT ts, n FROM s UNION ALL SELECT ts, n FROM r",
    "united_windows": f"SELECT window.start AS w, count(*) AS c FROM both GROUP BY {WINDOW}",
    "converted": "SELECT id, k, CAST(t AS INT) AS v FROM s",
    "inner": "SELECT id, place, v FROM converted JOIN names ON converted.k = names.k",
    "left_windows": (
        f"SELECT place, window.start AS w, count(*) AS c, min(id) AS i FROM s "
        f"LEFT JOIN names USING (k) GROUP BY place, {WINDOW}"
    ),
    "bad_where": "SELECT id FROM s WHERE 10 / n > 1",
    "bad_output": "SELECT id, cast(t AS INT) AS t FROM s WHERE id < 4",
    "bad_key": f"SELECT floor(10 / n) AS k, count(*) AS c FROM s GROUP BY floor(10 / n), {WINDOW}",
    "bad_argument": f"SELECT k, sum(n + 1) AS s FROM s GROUP BY k, {WINDOW}",
    "bad_filter": (
        f"SELECT k, count(*) AS c, count(*) FILTER (WHERE cast(t AS INT) > 3) AS f "
        f"FROM s GROUP BY k, {WINDOW}"
    ),
    "guarded": (
        f"SELECT k, sum(10 / n) FILTER (WHERE n <> 0) AS s FROM s GROUP BY k, {WINDOW}"
    ),
    "good": f"SELECT k, sum(x) AS s FROM s GROUP BY k, {WINDOW}",
    "bad_sum": f"SELECT k, window.start AS w, sum(big) AS s FROM s GROUP BY k, {WINDOW}",
    "bad_having": (
        f"SELECT k, window.start AS w FROM s GROUP BY k, {WINDOW} HAVING 4 / (count(*) - 1) > 1"
    ),
    "bad_answer": f"SELECT k, 4 / (count(*) - 1) AS q FROM s GROUP BY k, {WINDOW}",
    "kept_by_having": (
        f"SELECT k, window.start AS w, 4 / (count(*) - 1) AS q FROM s "
        f"GROUP BY k, {WINDOW} HAVING count(*) > 1"
    ),
}  # fmt: skip
ROWS = (
    (
        row(1, 1, "a", 1, 1.0, "1", HUGE),
        row(2, 2, "a", 0, 2.0, "x", HUGE),
        row(3, 3, None, 2, None, "3"),
        row(4, None, "b", 3, 4.0, "4"),
        row(5, 12, "b", None, 0.5, None),
        row(6, 15, "a", 2**31 - 1, 0.25, "6"),
    ),
    (row(7, 31, "a", 5, 1.5, "7"), row(8, 33, None, 0, 2.5, "8")),
    (row(9, 4, "a", 7, 8.0, "9"),),
    (row(10, 5, "a", 1, 1.0, "10"), row(11, 45, "b", 4, 3.0, "11")),
)
"""The last batch closes what ends at 35 seconds; tuple 10 comes for a window that closed."""


class Everything:
    """The outcome of the one run."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.called: list[tuple[int, list[Any]]] = []
        flow = flow_over(folder)
        add_source(flow, "r", folder / "r")
        for rows in ROWS:
            lay(folder / "s", *rows)
        lay(folder / "r", row(101, 3, n=1), row(102, 35, n=0))
        lay(folder / "r", row(103, 44, n=2))
        names = [("a", "here"), ("a", "there"), (None, "nowhere"), ("z", "far")]
        flow.table("names", data=names, schema="k STRING, place STRING")
        flow.graph.add_sql(QUERIES, sinks=(MEMORY,), options={"plain": {"sinks": self._sinks()}})
        stream = flow.stream("s").apply(_halved, "id BIGINT, ts TIMESTAMP, half DOUBLE", 0.5)
        stream.where("half > 0.2").window("10 seconds").agg("sum(half) AS s").query(
            "applied", MEMORY
        )
        self.answers, self.status = run_all(spark, flow, generated=True)

    def _sinks(self) -> tuple[Sink, ...]:
        def call(batch: int, answers: pa.Table) -> None:
            self.called.append((batch, answers.column("id").to_pylist()))

        return (
            MEMORY,
            Sink("json", str(self.folder / "out" / "json")),
            Sink("parquet", str(self.folder / "out" / "parquet")),
            Sink("callback", function=call),
        )

    def __getitem__(self, query: str) -> list[tuple[Any, ...]]:
        return self.answers[query]

    def counts(self, query: str) -> dict[str, int]:
        return counts(self.status, query)

    def rejected(self, query: str) -> int:
        return int(self.status["queries"][query]["answers_rejected"])


def _halved(frame: DataFrame, factor: float) -> DataFrame:
    return frame.select("id", "ts", (F.col("x") * factor).alias("half"))


@pytest.fixture(scope="module")
def everything(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Everything:
    return Everything(spark, tmp_path_factory.mktemp("everything"))


def test_stateless_and_windowed_queries_answer_together(everything: Everything) -> None:
    assert everything["plain"] == [(11, "B"), (2, "A"), (4, "B"), (7, "A"), (8, None), (9, "A")]
    assert everything["windowed"] == [
        ("a", 0.0, 3, 11.0),
        ("a", 10.0, 1, 0.25),
        ("b", 10.0, 1, 0.5),
        (None, 0.0, 1, None),
    ]
    assert everything["distinct"] == [
        ("a", (0.0, 10.0)),
        ("a", (10.0, 20.0)),
        ("b", (10.0, 20.0)),
        (None, (0.0, 10.0)),
    ]


def test_a_query_has_several_sinks(everything: Everything) -> None:
    ids = sorted(id_ for id_, _ in everything["plain"])
    files = sorted((everything.folder / "out" / "json").iterdir())
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == ids
    table = pa.parquet.read_table(everything.folder / "out" / "parquet")
    assert sorted(table.column("id").to_pylist()) == ids
    assert sorted(id_ for _, some in everything.called for id_ in some) == ids
    assert [batch for batch, _ in everything.called] == [0, 1, 2, 3]


def test_queries_read_queries(everything: Everything) -> None:
    assert everything["over"] == [(110,), (20,), (40,), (70,), (90,)]
    assert everything["windowed_over"] == [(10.0, 20.0)]


def test_windows_slide(everything: Everything) -> None:
    # Tuples of a: at 1, 2, 4, 15 and 31 seconds, and a late one at 5. That at 4 is judged by the
    # watermark of the batch before, 5 seconds; at the end it is 35.
    assert everything["sliding"] == [(-5.0, 2), (0.0, 3), (10.0, 1), (15.0, 1), (25.0, 1)]
    assert everything["uneven"] == [
        (-4.0, 3), (-8.0, 1), (0.0, 3), (12.0, 1), (24.0, 1), (4.0, 1), (8.0, 1)
    ]  # fmt: skip


def test_unions_answer_from_all_their_sources(everything: Everything) -> None:
    from_r = [(101, "r"), (103, "r")]
    assert everything["united"] == sorted([(i, "s") for i in range(1, 12)] + from_r, key=repr)
    # Both sources have read to 44 seconds at least, so that their watermarks pass 30.
    assert everything["united_windows"] == [(0.0, 5), (10.0, 2)]


def test_joins_multiply_and_left_joins_keep(everything: Everything) -> None:
    # Tuple 2 is rejected: its text is not a number.
    of_a = [(i, place, i) for i in (1, 6, 7, 9, 10) for place in ("here", "there")]
    assert everything["inner"] == sorted(of_a, key=repr)
    assert everything["left_windows"] == [
        ("here", 0.0, 3, 1), ("here", 10.0, 1, 6), ("there", 0.0, 3, 1), ("there", 10.0, 1, 6),
        (None, 0.0, 1, 3), (None, 10.0, 1, 5),
    ]  # fmt: skip


def test_functions_are_applied(everything: Everything) -> None:
    assert everything["applied"] == [((0.0, 10.0), 5.5), ((10.0, 20.0), 0.25)]


def test_failing_tuples_are_rejected_for_the_query_concerned(everything: Everything) -> None:
    assert everything["bad_where"] == [(1,), (10,), (11,), (3,), (4,), (7,), (9,)]
    assert everything.counts("bad_where") == {
        "in": 11, "contributed": 7, "filtered": 2, "rejected": 2
    }  # fmt: skip
    assert everything["bad_output"] == [(1, 1), (3, 3)]
    assert everything.counts("bad_output")["rejected"] == 1
    assert everything["bad_key"] == [(0, 1), (1, 1), (10, 1), (5, 1), (None, 1)]
    assert everything.counts("bad_key")["rejected"] == 2
    assert everything["bad_argument"] == [("a", 11), ("b", None), (None, 3)]
    assert everything.counts("bad_argument")["rejected"] == 1
    assert everything["bad_filter"] == [("a", 1, 1), ("a", 2, 1), ("b", 1, 0), (None, 1, 0)]
    assert everything.counts("bad_filter")["rejected"] == 1


def test_what_filter_leaves_out_cannot_fail(everything: Everything) -> None:
    assert "rejected" not in everything.counts("guarded")
    assert {(k, round(s, 6)) for k, s in everything["guarded"] if s is not None} == {
        ("a", round(10 + 10 / 7, 6)),
        ("a", round(10 / (2**31 - 1), 6)),
        (None, 5.0),
    }


def test_other_queries_are_exact_beside_failing_ones(everything: Everything) -> None:
    assert everything["good"] == [("a", 0.25), ("a", 11.0), ("b", 0.5), (None, None)]
    for query in ("good", "windowed", "distinct"):
        assert everything.counts(query) == {
            "in": 11, "contributed": 6, "filtered": 1, "late": 1, "open": 3
        }  # fmt: skip


def test_errors_after_aggregation_reject_the_answer(everything: Everything) -> None:
    assert everything["bad_sum"] == [("a", 10.0, 1), ("b", 10.0, 1), (None, 0.0, 1)]
    assert everything.rejected("bad_sum") == 1
    assert everything.counts("bad_sum") == everything.counts("good")
    assert everything["bad_having"] == [("a", 0.0)]
    assert everything.rejected("bad_having") == 3
    assert everything["bad_answer"] == [("a", 2.0)]
    assert everything.rejected("bad_answer") == 3
    assert everything["kept_by_having"] == [("a", 0.0, 2.0)]
    assert everything.rejected("kept_by_having") == 0


def test_counts_of_windows_are_by_window(everything: Everything) -> None:
    assert everything.counts("sliding") == {
        "in": 22, "contributed": 8, "filtered": 10, "late": 3, "open": 1
    }  # fmt: skip
    # A tuple is in two or three of these windows; one without event time counts as in two.
    assert everything.counts("uneven") == {
        "in": 28, "contributed": 11, "filtered": 13, "late": 3, "open": 1
    }  # fmt: skip
    status = everything.status
    assert status["sources"]["r"]["read"] == 2
    assert all(q["state"] == "stopped" for q in status["queries"].values())
    assert status["queries"]["plain"]["answers"] == 6


# One state, several runs.


def test_a_state_goes_on_from_run_to_run(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    out = Sink("json", str(tmp_path / "out"))
    query = f"SELECT window.start AS w, count(*) AS c, sum(n) AS s FROM s GROUP BY {WINDOW}"
    flow.sql("q", query, [MEMORY, out])
    flow.sql("p", "SELECT id FROM s", MEMORY)
    answers, status = run_all(spark, flow)
    assert answers == {"q": [], "p": []}
    assert counts(status, "q") == counts(status, "p") == {}

    lay(tmp_path / "s", row(1, 1), row(2, 12), row(3, 25))
    answers, status = run_all(spark, flow)
    assert answers == {"q": [(0.0, 1, 1)], "p": [(1,), (2,), (3,)]}
    assert counts(status, "q") == {"in": 3, "contributed": 1, "open": 2}

    lay(tmp_path / "s", row(4, 13), row(5, 2), row(6, 41))
    answers, status = run_all(spark, flow)
    assert answers["q"] == [(10.0, 2, 2), (20.0, 1, 1)]
    assert counts(status, "q") == {"in": 6, "contributed": 4, "late": 1, "open": 1}
    assert counts(status, "p") == {"in": 6, "contributed": 6}

    answers, status = run_all(spark, flow, drain=True)
    assert answers == {"q": [(40.0, 1, 1)], "p": []}
    assert counts(status, "q") == {"in": 6, "contributed": 5, "late": 1}

    lay(tmp_path / "s", row(7, 44), row(8, 49), row(9, 51), row(10, 75))
    lay(tmp_path / "s", row(11, 76))
    answers, status = run_all(spark, flow)
    assert answers["q"] == [(50.0, 1, 1)]
    assert counts(status, "q") == {"in": 11, "contributed": 6, "late": 3, "open": 2}
    assert status["queries"]["q"]["answers"] == 5
    written = [json.loads(x) for f in (tmp_path / "out").iterdir() for x in f.open()]
    assert sorted(w["c"] for w in written) == [1, 1, 1, 1, 2]


def test_queries_may_be_written_in_another_order(spark: SparkSession, tmp_path: Path) -> None:
    texts = {
        "a": f"SELECT k, sum(x) AS s FROM s GROUP BY k, {WINDOW}",
        "b": f"SELECT n, count(*) AS c FROM s WHERE n = 1 GROUP BY n, {WINDOW}",
        "c": f"SELECT k, max(n) AS m FROM s WHERE x > 0 GROUP BY k, {WINDOW}",
    }
    lay(tmp_path / "s", row(1, 1), row(2, 12), row(3, 25))
    found: dict[str, list[Any]] = {name: [] for name in texts}
    for order in (("a", "b", "c"), ("b", "c", "a")):
        flow = flow_over(tmp_path)
        for name in order:
            flow.sql(name, texts[name], MEMORY)
        answers, _ = run_all(spark, flow)
        for name, rows in answers.items():
            found[name] += rows
        lay(tmp_path / "s", row(4, 60, n=7, x=5.0))
    assert found == {"a": [("a", 1.0)] * 3, "b": [(1, 1)] * 3, "c": [("a", 1)] * 3}


def test_a_state_is_used_by_one_run_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("q", "SELECT id FROM s", MEMORY)
    first = Run(flow.spec(), spark, flow.state)
    with pytest.raises(StateError):
        Run(flow.spec(), spark, flow.state)
    first.stop()
    with Run(flow.spec(), spark, flow.state) as second:
        assert second.status()["flow"] == "test"


def test_changed_queries_are_refused_and_replaced(spark: SparkSession, tmp_path: Path) -> None:
    lay(tmp_path / "s", row(1, 1), row(2, 30))
    flow = flow_over(tmp_path)
    flow.sql("q", f"SELECT count(*) AS c FROM s GROUP BY {WINDOW}", MEMORY)
    assert run_all(spark, flow)[0] == {"q": [(1,)]}

    changed = flow_over(tmp_path)
    changed.sql("q", f"SELECT sum(n) + 1 AS s FROM s GROUP BY {WINDOW}", MEMORY)
    with pytest.raises(ChangedQueryError):
        run_all(spark, changed)
    # What was read is read: the new query answers from its first whole window on.
    lay(tmp_path / "s", row(3, 32), row(4, 41), row(5, 42), row(6, 60))
    answers, status = run_all(spark, changed, replace=True)
    assert answers == {"q": [(3,)]}
    assert counts(status, "q") == {"in": 4, "contributed": 2, "open": 1, "cut": 1}


def test_a_restart_follows_the_flow(spark: SparkSession, tmp_path: Path) -> None:
    text = f"SELECT count(*) AS c FROM s GROUP BY {WINDOW}"
    lay(tmp_path / "s", row(1, 1), row(2, 30))
    flow = flow_over(tmp_path)
    flow.sql("q", text, MEMORY)
    flow.sql("gone", "SELECT n FROM s", MEMORY)
    run_all(spark, flow)
    lay(tmp_path / "s", row(3, 32), row(4, 41), row(5, 60))
    more = flow_over(tmp_path)
    more.sql("q", text, MEMORY)
    more.sql("r", "SELECT id FROM s", MEMORY)
    answers, status = run_all(spark, more)
    assert answers == {"q": [(1,), (2,)], "r": [(3,), (4,), (5,)]}
    assert set(status["queries"]) == {"q", "r"}
    assert counts(status, "q") == {"in": 5, "contributed": 4, "open": 1}


# Failures and stops.


def test_a_failing_sink_is_its_querys_trouble_and_nobody_elses(
    spark: SparkSession, tmp_path: Path
) -> None:
    for batch in range(4):
        lay(tmp_path / "s", *(row(10 * batch + i, 15 * batch + i) for i in range(3)))
    broken = [True]

    def call(batch: int, _: pa.Table) -> None:
        if batch == 2 and broken[0]:
            raise ValueError("the disk of the callback is full")

    def flow() -> Flow:
        made = flow_over(tmp_path)
        sinks = [Sink("json", str(tmp_path / "out" / "p")), Sink("callback", function=call)]
        made.sql("p", "SELECT id FROM s", sinks)
        windows = f"SELECT window.start AS w, count(*) AS c FROM s GROUP BY {WINDOW}"
        made.sql("w", windows, Sink("json", str(tmp_path / "out" / "w")))
        return made

    def written(query: str) -> list[dict[str, Any]]:
        files = sorted((tmp_path / "out" / query).iterdir())
        return [json.loads(line) for file in files for line in file.open()]

    status = run_flow(flow().spec(), state=tmp_path / "state", session=spark, available_now=True)
    p = status["queries"]["p"]
    assert p["state"] == "quarantined"
    assert "the disk of the callback is full" in p["reason"]
    assert counts(status, "p") == {"in": 12, "contributed": 6, "quarantined": 6}
    assert counts(status, "w")["in"] == 12
    broken[0] = False
    lay(tmp_path / "s", *(row(40 + i, 60 + i) for i in range(3)))
    with flow().start(spark, state=tmp_path / "state") as run:
        run.resume("p")
        lay(tmp_path / "s", *(row(50 + i, 75 + i) for i in range(3)))
        until(lambda: run.status()["queries"]["p"]["counts"]["in"] == 18)
    assert {50, 51, 52} <= {x["id"] for x in written("p")}
    status = run_flow(
        flow().spec(), state=tmp_path / "state", session=spark, available_now=True, drain=True
    )
    assert status["queries"]["p"]["state"] == "stopped"
    assert sum(x["c"] for x in written("w")) == 18
    assert counts(status, "w") == {"in": 18, "contributed": 18}


def test_a_batch_that_is_done_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    for batch in range(3):
        lay(tmp_path / "s", row(batch, 15 * batch), row(9, 1, n=0))
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT id, 1 / n AS q FROM s", Sink("json", str(tmp_path / "out" / "p")))
    windows = f"SELECT window.start AS w, count(*) AS c FROM s GROUP BY {WINDOW}"
    flow.sql("w", windows, Sink("json", str(tmp_path / "out" / "w")))

    def run() -> tuple[list[str], list[dict[str, int]]]:
        status = run_flow(flow.spec(), state=flow.state, session=spark, available_now=True)
        files = sorted((tmp_path / "out").rglob("*.json"))
        # Another one may write a batch the second time; then its file has another name.
        return [f.read_text() for f in files], [counts(status, q) for q in ("p", "w")]

    before = run()
    assert before[1] == [
        {"in": 6, "contributed": 3, "rejected": 3},
        {"in": 6, "contributed": 5, "open": 1},
    ]
    uncommit(flow)
    assert run() == before


def test_a_batch_that_one_process_does_twice_counts_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Stopping came between a batch's work and its commit, and the same run goes on."""
    for batch in range(3):
        lay(tmp_path / "s", row(batch, 15 * batch), row(9, 1, n=0))
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT id, 1 / n AS q FROM s", MEMORY)
    flow.sql("w", f"SELECT count(*) AS c FROM s GROUP BY {WINDOW}", MEMORY)
    run = Run(flow.spec(), spark, flow.state)
    run.start(available_now=True).wait()
    before = run.answers("w").num_rows
    run.pause_units()
    uncommit(flow)
    run.start(available_now=True).wait()
    assert run.answers("w").num_rows == before
    status = run.stop()
    assert counts(status, "p") == {"in": 6, "contributed": 3, "rejected": 3}
    assert counts(status, "w") == {"in": 6, "contributed": 5, "open": 1}
    assert status["queries"]["p"]["answers"] == 3


def test_tuples_whose_join_key_fails_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    lay(
        tmp_path / "s",
        *(row(i, i, t=text) for i, text in enumerate(("1", "x", "3", None, "1"), start=1)),
    )
    lay(tmp_path / "s", row(6, 40, t="x"))
    flow = flow_over(tmp_path)
    flow.table("numbers", data=[(1, "one"), (2, "two")], schema="n INT, word STRING")
    flow.table("words", data=[("one", 1.0)], schema="word STRING, x DOUBLE")
    joined = "s JOIN numbers ON CAST(s.t AS INT) = numbers.n"
    flow.sql("inner", f"SELECT id, word FROM {joined}", MEMORY)
    flow.sql("left", f"SELECT id, word FROM {joined.replace('JOIN', 'LEFT JOIN')}", MEMORY)
    flow.sql(
        "twice",
        f"SELECT id, words.x FROM {joined} JOIN words ON numbers.word = words.word "
        "WHERE numbers.word <> 'two'",
        MEMORY,
    )
    flow.sql("both", "SELECT ts, CAST(t AS INT) AS v FROM s UNION ALL SELECT ts, n FROM s")
    flow.sql("united", f"SELECT count(*) AS c, sum(v) AS v FROM both GROUP BY {WINDOW}", MEMORY)
    flow.sql("windows", f"SELECT word, count(*) AS c FROM {joined} GROUP BY word, {WINDOW}", MEMORY)
    answers, status = run_all(spark, flow)
    assert answers["inner"] == [(1, "one"), (5, "one")]
    assert answers["left"] == [(1, "one"), (3, None), (4, None), (5, "one")]
    assert answers["twice"] == [(1, 1.0), (5, 1.0)]
    assert answers["windows"] == [("one", 2)]
    assert answers["united"] == [(9, 10)]
    assert counts(status, "united") == {"in": 12, "contributed": 9, "rejected": 2, "open": 1}
    assert counts(status, "inner") == {"in": 4, "contributed": 2, "rejected": 2}
    assert counts(status, "left") == {"in": 6, "contributed": 4, "rejected": 2}
    assert counts(status, "twice") == {"in": 4, "contributed": 2, "rejected": 2}
    assert counts(status, "windows") == {"in": 4, "contributed": 2, "rejected": 2}


def test_queries_that_want_nothing_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    lay(tmp_path / "s", row(1, 1), row(2, 2))
    flow = flow_over(tmp_path)
    flow.sql("never", "SELECT id FROM s WHERE 1 = 0", MEMORY)
    flow.sql("unknown", "SELECT id FROM s WHERE x = NULL", MEMORY)
    flow.sql("window", f"SELECT count(*) AS c FROM s WHERE 1 = 0 GROUP BY {WINDOW}", MEMORY)
    answers, status = run_all(spark, flow, drain=True)
    assert answers == {"never": [], "unknown": [], "window": []}
    for name in answers:
        assert counts(status, name) == {"in": 2, "filtered": 2}


def test_the_status_of_the_run_before_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    lay(tmp_path / "s", row(1, 1))
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT id FROM s", MEMORY)
    run_all(spark, flow)
    assert read_status("flow", flow.state)["queries"]["p"]["answers"] == 1
    run = Run(flow.spec(), spark, flow.state)
    with pytest.raises(StateError, match="was ended before"):
        read_status("flow", flow.state)
    run.stop()


def test_a_function_that_fails_is_its_querys_trouble(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType

    def fail(frame: DataFrame) -> DataFrame:
        broken = F.udf(lambda n: 1 // (n - 2), LongType())
        return frame.select(broken("id").alias("id"))

    lay(tmp_path / "s", row(1, 1), row(2, 2))
    flow = flow_over(tmp_path)
    flow.stream("s").apply(fail, schema="id BIGINT").query("f", sink=MEMORY)
    flow.sql("p", "SELECT id FROM s", MEMORY)
    answers, status = run_all(spark, flow)
    assert answers["p"] == [(1,), (2,)]
    assert answers["f"] == []
    assert status["queries"]["f"]["state"] == "quarantined"
    assert "ZeroDivisionError" in status["queries"]["f"]["reason"]
    assert counts(status, "p") == {"in": 2, "contributed": 2}
    assert counts(status, "f") == {}


def test_a_session_of_the_user_is_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT id FROM s", MEMORY)
    with pytest.raises(EnvironmentFaultError, match="session already"):
        flow.start()
    assert spark.range(2).count() == 2


def uncommit(flow: Flow) -> None:
    """Take back the newest commit of each unit."""
    for folder in (flow.state / "units").glob("*/checkpoint/commits"):
        newest = max((f for f in folder.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
        newest.unlink()
        (folder / f".{newest.name}.crc").unlink(missing_ok=True)


def test_stopping_waits_for_the_batch_and_repeats_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(6):
        lay(tmp_path / "s", row(batch, 15 * batch))
    seen: list[tuple[int, list[int]]] = []
    inside, onward = threading.Event(), threading.Event()

    def call(batch: int, answers: pa.Table) -> None:
        inside.set()
        onward.wait(30)
        seen.append((batch, answers.column("id").to_pylist()))

    def flow() -> Flow:
        made = flow_over(tmp_path)
        made.sql("p", "SELECT id FROM s", Sink("callback", function=call), every=0.01)
        return made

    def committed(unit: UnitRun) -> None:
        await_commit(unit)
        time.sleep(1)  # the next batch begins, and must not wait for the stop that waits for it

    await_commit = UnitRun._await_commit
    monkeypatch.setattr(UnitRun, "_await_commit", committed)
    run = Run(flow().spec(), spark, tmp_path / "state")
    run.start()
    assert inside.wait(60)
    stopping = threading.Thread(target=run.stop)
    stopping.start()
    stopping.join(0.5)
    assert stopping.is_alive(), "it did not wait for the running batch"
    onward.set()
    stopping.join(30)
    assert not stopping.is_alive()
    assert 0 < len(seen) < 6
    status = run_flow(flow().spec(), state=tmp_path / "state", session=spark, available_now=True)
    assert [batch for batch, _ in seen] == list(range(6))
    assert [ids for _, ids in seen] == [[i] for i in range(6)]
    assert counts(status, "p") == {"in": 6, "contributed": 6}


def test_an_interrupt_stops_after_the_running_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path / "s", row(1, 1))
    seen: list[int] = []
    flow = flow_over(tmp_path)
    flow.sql("p", "SELECT id FROM s", Sink("callback", function=lambda b, _: seen.append(b)))

    def interrupted(_: Run, **__: object) -> None:
        until(lambda: bool(seen))
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "wait", interrupted)
    status = run_flow(flow.spec(), state=flow.state, session=spark)
    assert seen == [0]
    assert status["running"] is False
    assert counts(status, "p") == {"in": 1, "contributed": 1}


def test_what_cannot_be_opened_releases_the_state(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow("test", tmp_path / "state")
    options = {"path": str(tmp_path / "missing")}
    flow.source("s", "parquet", options, SCHEMA, event_time="ts", watermark="1 second")
    flow.sql("q", "SELECT id FROM s", MEMORY)
    for _ in range(2):
        with pytest.raises(ConfigError):
            Run(flow.spec(), spark, flow.state)


# The user's session.


def test_a_handed_session_stays_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    lay(tmp_path / "s", row(1, 3 * 3600 + 1), row(2, 4 * 3600), row(3, 50 * 3600))
    user = own_session(spark)
    user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    user.conf.set("spark.sql.shuffle.partitions", "3")
    user.conf.set("spark.sql.ansi.enabled", "false")
    user.conf.set("spark.sql.caseSensitive", "false")
    before = {name: user.conf.get(name) for name in user.conf.getAll}
    stream = user.readStream.schema(struct(Flow("f").source("s", "parquet", schema=SCHEMA).schema))
    names = user.createDataFrame([("a", "2026-01-05 15:00:01")], "k string, since string")
    flow = Flow("test", tmp_path / "state")
    frame = stream.parquet(str(tmp_path / "s"))
    flow.source("s", data=frame, event_time="ts", watermark="0 seconds")
    flow.table("names", data=names)
    flow.sql(
        "p",
        "SELECT id, hour(ts) AS h, CAST(ts AS STRING) AS t, CAST(ts AS DATE) AS d FROM s",
        MEMORY,
    )
    flow.sql(
        "w",
        "SELECT window.start AS w, count(*) AS c FROM s WHERE ts < '2026-01-07' "
        "GROUP BY window(ts, '1 day')",
        MEMORY,
    )
    flow.sql("bad", "SELECT id, n / 0 AS q FROM s", MEMORY)
    flow.sql(
        "j",
        "SELECT id FROM s JOIN names USING (k) WHERE ts = CAST(since AS TIMESTAMP)",
        MEMORY,
    )
    with flow.start(user, available_now=True) as run:
        run.wait()
        table = run.answers("p")
        windows = rows_of(run.answers("w"))
        bad = run.answers("bad").num_rows
        joined = rows_of(run.answers("j"))
    assert sorted(table.column("h").to_pylist()) == [14, 15, 16]
    assert "2026-01-05 15:00:01" in table.column("t").to_pylist()
    assert {str(d) for d in table.column("d").to_pylist()} == {"2026-01-05", "2026-01-07"}
    assert windows == [(-12 * 3600.0, 2)]
    assert bad == 0
    assert joined == [(1,)]
    assert {name: user.conf.get(name) for name in before} == before
    assert user.range(3).count() == 3
