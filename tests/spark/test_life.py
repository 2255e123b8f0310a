"""Changing a flow while it runs, by hand; `test_lives` does it at random."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.bench.process_tree import descendants, heap_after_gc
from evenflow.errors import ConfigError, QueryError, RunError
from evenflow.flow import Flow
from evenflow.model.query import Sink
from evenflow.schedule.request import Subscribe, Unsubscribe
from evenflow.spark import supervisor
from evenflow.spark.run import Run
from evenflow.spark.unit.checkpoint import committed_batch, watermark_after, watermark_of
from tests.spark.flows import MEMORY, add_source, at, counts, flow_over, lay, row, until
from tests.spark.lives import NO_DATA, has_read

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


COUNT = "SELECT window.start AS w, count(*) AS c FROM s GROUP BY window(ts, '10 seconds')"
EXTREMES = "SELECT window.start AS w, max(n) AS m FROM s GROUP BY window(ts, '10 seconds')"
PLAIN = "SELECT id FROM s"


def tens(folder: Path, *numbers: int) -> None:
    """Add a file per ten seconds, with a tuple in the first and in the last of them."""
    for number in numbers:
        lay(folder / "s", row(2 * number, 10 * number), row(2 * number + 1, 10 * number + 9))


def read_all(run: Run, folder: Path) -> None:
    """Wait until all units have read all files, and closed what windows they can."""
    last = len(list((folder / "s").glob("*.parquet"))) - 1
    until(lambda: all(is_quiet(each.directory.checkpoint, last) for each in run.runs))


def is_quiet(checkpoint: Path, last: int) -> bool:
    batch = committed_batch(checkpoint)
    if batch is None:
        return False
    line = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2]
    if line == "-" or json.loads(line)["logOffset"] < last:
        return False
    return watermark_of(checkpoint, batch) == watermark_after(checkpoint, batch)


def windows(answers: pa.Table, value: str = "c") -> dict[int, Any]:
    """Return what was answered, by the second at which the window starts."""
    start = at(0)
    assert start is not None
    return {round((r["w"] - start).total_seconds()): r[value] for r in answers.to_pylist()}


def test_queries_come_go_pause_and_resume(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("a", COUNT, MEMORY, every=0.05)
    tens(tmp_path, 0, 1)
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        # One that fits, one that needs other slots, one without windows: all in one change.
        run.subscribe("b", COUNT + " HAVING count(*) > 0", MEMORY, every=0.05)
        run.subscribe("m", EXTREMES, MEMORY, every=0.05)
        run.subscribe("p", PLAIN, MEMORY, every=0.05)
        assert len(run.runs) == 3
        tens(tmp_path, 2, 3)
        read_all(run, tmp_path)
        run.pause("a")
        tens(tmp_path, 4, 5)
        read_all(run, tmp_path)
        run.resume("a")
        run.unsubscribe("b", keep=True)
        tens(tmp_path, 6, 7)
        read_all(run, tmp_path)
        run.subscribe("heir", COUNT + " HAVING count(*) > 0", MEMORY, every=0.05)
        tens(tmp_path, 8, 9)
        read_all(run, tmp_path)
        run.pause_units()
        run.drain()
        answers = {name: run.answers(name) for name in ("a", "heir", "m", "p")}
        status = run.stop()
    assert windows(answers["a"]) == {0: 2, 10: 2, 20: 2, 60: 2, 70: 2, 80: 2, 90: 2}
    assert windows(answers["m"], "m") == dict.fromkeys((20, 30, 40, 50, 60, 70, 80, 90), 1)
    assert windows(answers["heir"]) == {70: 2, 80: 2, 90: 2}
    assert sorted(answers["p"].column("id").to_pylist()) == list(range(4, 20))
    assert counts(status, "a") == {"in": 20, "contributed": 14, "cut": 2, "paused": 4}
    assert counts(status, "heir") == {"in": 16, "contributed": 16}
    assert counts(status, "m") == {"in": 16, "contributed": 16}
    assert counts(status, "p") == {"in": 16, "contributed": 16}


def test_what_a_filter_counts_on_is_not_cut_for_a_paused_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The slot that counted for it goes on for the FILTER of another."""
    grouped = "FROM s{} GROUP BY window(ts, '10 seconds')"
    flow = flow_over(tmp_path, watermark="1 second")
    some = "SELECT window.start AS w, count(*) AS c " + grouped.format(" WHERE n > 0")
    both = "SELECT window.start AS w, count(*) AS c, count(*) FILTER (WHERE n > 0) AS f "
    flow.sql("a", some, MEMORY, every=0.05)
    flow.sql("b", both + grouped.format(""), MEMORY, every=0.05)
    lay(tmp_path / "s", row(1, 1), row(2, 2, n=-1))
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        run.pause("a")
        lay(tmp_path / "s", row(3, 3), row(4, 4))
        read_all(run, tmp_path)
        run.pause_units()
        run.drain()
        answers = run.answers("b")
        status = run.stop()
    assert windows(answers) == {0: 4}
    assert windows(answers, "f") == {0: 3}
    assert counts(status, "a") == {"in": 4, "cut": 1, "filtered": 1, "paused": 2}
    assert counts(status, "b") == {"in": 4, "contributed": 4}


def test_queries_over_several_sources_begin_after_all_that_was_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The watermark is that of the slower source: it does not tell what was read of the other."""
    flow = flow_over(tmp_path, watermark="1 second")
    add_source(flow, "t", tmp_path / "t", watermark="5 seconds")
    flow.sql("both", "SELECT id, ts, n FROM s UNION ALL SELECT id, ts, n FROM t", MEMORY, every=0.1)
    grouped = "FROM both GROUP BY window(ts, '10 seconds')"
    count = f"SELECT window.start AS w, count(*) AS c {grouped}"
    flow.sql("a", count, MEMORY, every=0.1)
    for second in (0, 10, 20, 30):
        lay(tmp_path / "s", row(1, second), row(2, second + 9))
    lay(tmp_path / "t", row(100, 3))

    def in_is(tuples: int, *names: str) -> bool:
        return all(run.status(exact=True)["queries"][n]["counts"]["in"] == tuples for n in names)

    with flow.start(spark) as run:
        until(lambda: in_is(9, "a", "both"))
        run.pause("a")
        run.subscribe("same", count, MEMORY, every=0.1)
        run.subscribe(
            "other", f"SELECT window.start AS w, max(n) AS m {grouped}", MEMORY, every=0.1
        )
        run.subscribe("plain", "SELECT id FROM both", MEMORY, every=0.1)
        lay(tmp_path / "t", row(101, 35), row(102, 41))
        lay(tmp_path / "s", row(3, 38), row(4, 45))
        until(lambda: in_is(4, "same", "other", "plain"))
        run.resume("a")
        lay(tmp_path / "s", row(5, 49), row(6, 52))
        lay(tmp_path / "t", row(103, 51))
        until(lambda: in_is(7, "same", "other", "plain"))
        run.pause_units()
        run.drain()
        answers = {name: run.answers(name) for name in ("a", "same", "other", "plain")}
        status = run.stop()
    assert windows(answers["same"]) == {40: 3, 50: 2}
    assert windows(answers["other"], "m") == {40: 1, 50: 1}
    assert windows(answers["a"]) == {50: 2}
    assert sorted(answers["plain"].column("id").to_pylist()) == [3, 4, 5, 6, 101, 102, 103]
    assert counts(status, "a") == {"in": 16, "contributed": 2, "cut": 10, "paused": 4}
    for name in ("same", "other"):
        assert counts(status, name) == {"in": 7, "contributed": 5, "cut": 2}


@pytest.mark.parametrize("known", [[(7, "seven")], []])
def test_tuples_that_meet_nothing_in_a_table_have_been_read_too(
    spark: SparkSession, tmp_path: Path, known: list[tuple[int, str]]
) -> None:
    """Whose windows are whole is decided by all that was read, whatever became of it."""
    flow = flow_over(tmp_path, watermark="1 second")
    flow.table("names", data=known, schema="n INT, word STRING")
    flow.sql("p", "SELECT id, word FROM s JOIN names ON s.n = names.n", MEMORY, every=0.1)
    lay(tmp_path / "s", row(1, 1, n=7), row(2, 42, n=5))
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        run.subscribe("q", COUNT, MEMORY, every=0.1)
        lay(tmp_path / "s", row(3, 45))
        lay(tmp_path / "s", row(4, 61))
        until(lambda: counts(run.status(exact=True), "q").get("in") == 2)
        run.pause_units()
        run.drain()
        answers = run.answers("q")
        status = run.stop()
    assert windows(answers) == {60: 1}
    assert counts(status, "q") == {"in": 2, "contributed": 1, "cut": 1}


def test_changes_from_many_threads_lose_none_and_make_no_noise(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", COUNT, MEMORY, every=0.05)
    tens(tmp_path, *range(30))
    errors: list[Exception] = []
    with flow.start(spark) as run:

        def live(name: str) -> None:
            try:
                run.subscribe(name, COUNT, MEMORY, every=0.05)
                run.pause(name)
                run.resume(name)
                run.unsubscribe(name)
            except Exception as exc:  # noqa: BLE001  # told below
                errors.append(exc)

        threads = [threading.Thread(target=live, args=(f"q{i}",)) for i in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(120)
        assert not any(each.is_alive() for each in threads)
        assert not errors
        assert set(run.life.queries) == {"a"}
        # Six threads of four requests each; what came together was made together.
        assert run.life.units[0].era.number < 24
        read_all(run, tmp_path)
        status = run.stop()
    assert counts(status, "a")["in"] == 60
    noise = capfd.readouterr()
    assert "Traceback" not in noise.err + noise.out
    assert "ERROR" not in noise.err


def test_what_cannot_be_done_is_refused_and_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", COUNT, MEMORY, every=0.05)
    tens(tmp_path, 0)
    with flow.start(spark) as run:
        before = run.life
        with pytest.raises(ConfigError):
            run.subscribe("a", PLAIN, MEMORY)
        with pytest.raises(QueryError):
            run.subscribe("b", "SELECT nothing FROM s", MEMORY)
        with pytest.raises(ConfigError):
            run.pause("nobody")
        with pytest.raises(ConfigError):
            run.cursor("nobody")
        assert run.life == before
    with pytest.raises(RunError):
        run.pause("a")


def test_a_flow_is_not_changed_from_inside_its_batches(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    told: list[str] = []

    def change(_: int, __: pa.Table) -> None:
        try:
            run.pause("p")
        except RunError as exc:
            told.append(exc.message)

    flow.sql("p", PLAIN, Sink("callback", function=change), every=0.05)
    with flow.start(spark) as run:
        tens(tmp_path, 0)
        until(lambda: bool(told))
    assert "inside" in told[0]


def test_what_was_subscribed_at_run_time_survives(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("a", COUNT, MEMORY, every=0.05)
    out = Sink("json", str(tmp_path / "out"))
    tens(tmp_path, 0)
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        run.subscribe("later", COUNT, out, every=0.05)
        run.pause("a")
    tens(tmp_path, 1, 2)
    with flow.start(spark) as run:
        assert {n: q.state.value for n, q in run.life.queries.items()} == {
            "a": "paused",
            "later": "running",
        }
        read_all(run, tmp_path)
        cursor = run.cursor("later")
        tens(tmp_path, 3)
        assert (cursor.read(timeout=60) or {})["c"] == 2
    lines = [line for f in sorted((tmp_path / "out").iterdir()) for line in f.open()]
    assert [json.loads(line)["c"] for line in lines] == [2, 2]


def test_a_restart_takes_no_window_for_closed_that_the_next_batch_still_fills(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The next batch judges late tuples by the watermark of the last, not by its own."""
    flow = flow_over(tmp_path, watermark="1 second")
    flow.sql("a", COUNT, MEMORY, every=0.05)
    out = Sink("json", str(tmp_path / "out"))

    def start() -> Run:
        run = Run(flow.spec(), spark, tmp_path / "state")
        run.session.conf.set(NO_DATA, "false")
        return run.start()

    def read(run: Run, file: int) -> None:
        until(lambda: all(has_read(each.directory.checkpoint, file) for each in run.runs))

    with start() as run:
        lay(tmp_path / "s", row(0, 0), row(1, 9))
        read(run, 0)
        run.subscribe("b", COUNT + " HAVING count(*) > 0", out, every=0.05)
        lay(tmp_path / "s", row(2, 25))
        read(run, 1)
    with start() as run:
        # In the window from 0 to 10, which had begun before b, and closes in this batch.
        lay(tmp_path / "s", row(3, 5), row(4, 40))
        read(run, 2)
        status = run.stop()
    assert not (tmp_path / "out").exists()
    assert counts(status, "b") == {"in": 3, "open": 2, "cut": 1}


def test_a_source_that_cannot_be_read_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.1)
    flow = flow_over(tmp_path)
    flow.sql("p", PLAIN, MEMORY, every=0.05)
    tens(tmp_path, 0)
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        (tmp_path / "_broken").write_bytes(b"no parquet" * 10)
        (tmp_path / "_broken").rename(tmp_path / "s" / "0001.parquet")
        until(lambda: run.status()["sources"]["s"]["state"] == "failing")
        assert run.status()["sources"]["s"]["reason"]
        assert run.status()["queries"]["p"]["state"] == "running"
        lay(tmp_path / "mended", row(2, 10), row(3, 19))
        (tmp_path / "mended" / "0000.parquet").replace(tmp_path / "s" / "0001.parquet")
        until(lambda: run.answers("p").num_rows == 4)
        until(lambda: run.status()["sources"]["s"]["state"] == "running")
        status = run.stop()
    assert counts(status, "p") == {"in": 4, "contributed": 4}


def test_a_flow_over_finite_sources_ends_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow("finite", tmp_path / "state")
    rows = [(i, at(i)) for i in range(25)]
    flow.source(
        "s", data=rows, schema="id BIGINT, ts TIMESTAMP", event_time="ts", watermark="1 second"
    )
    flow.source("c", "constant", {"rate": 1000, "rows": 30})
    flow.sql("w", COUNT, MEMORY, every=0.05)
    flow.sql("p", "SELECT id FROM c", MEMORY, every=0.05)
    with flow.start(spark) as run:
        run.wait(seconds=60)
        status = run.stop()
        assert windows(run.answers("w")) == {0: 10, 10: 10, 20: 5}
        assert run.answers("p").num_rows == 30
    assert counts(status, "w") == {"in": 25, "contributed": 25}
    assert counts(status, "p") == {"in": 30, "contributed": 30}


def test_many_changes_neither_keep_others_from_answering_nor_leave_threads(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow("f", tmp_path / "state")
    flow.source("s", "constant", {"rate": 100})
    flow.sql("a", "SELECT id FROM s", MEMORY, every=0.05)
    with flow.start(spark) as run:
        until(lambda: run.runs[0].has_finished_batch)
        threads = threading.active_count()
        for _ in range(3):
            run.subscribe("b", "SELECT id FROM s WHERE id % 2 = 0", MEMORY, every=0.05)
            run.unsubscribe("b")
        (unit,) = run.runs
        # A batch between any two of six changes.
        assert (committed_batch(unit.directory.checkpoint) or 0) >= 4
        # Nothing is left of the five StreamingQueries before.
        until(lambda: run.runs[0].has_finished_batch)
        until(lambda: threading.active_count() <= threads)


def test_a_change_does_not_wait_for_a_silent_source(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", PLAIN, MEMORY, every=0.05)
    tens(tmp_path, 0)
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        began = time.monotonic()
        for _ in range(2):
            run.pause("a")
            run.resume("a")
        assert time.monotonic() - began < supervisor._SETTLING_SECONDS


def test_changes_leave_no_open_files_in_the_jvm(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", PLAIN, MEMORY, every=0.05)
    with flow.start(spark) as run:

        def change(number: int) -> None:
            tens(tmp_path, number)
            read_all(run, tmp_path)
            run.pause("a")
            run.resume("a")

        change(0)
        (java, *_) = [each for each in descendants(os.getpid()) if each.is_java]
        before = java.open_files()
        for number in range(1, 6):
            change(number)
        # A unit was started ten times, and has called this process after every other start.
        until(lambda: java.open_files() <= before + 2)


def test_nothing_is_left_of_a_unit_that_was_replaced(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", PLAIN, MEMORY, every=0.05)
    tens(tmp_path, 0)
    with flow.start(spark) as run:
        read_all(run, tmp_path)
        before = weakref.ref(run.runs[0])
        run.pause("a")
        run.resume("a")
        (java, *_) = [each for each in descendants(os.getpid()) if each.is_java]
        if heap_after_gc(java.pid) is None:
            pytest.skip("without a JDK nobody can ask the JVM to collect its garbage")

        def is_gone() -> bool:
            # Either side lets go of what the other no longer needs, one after the other.
            gc.collect()
            heap_after_gc(java.pid)
            return before() is None

        until(is_gone)


def test_a_query_that_cannot_be_built_is_refused_and_the_flow_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    def ill(frame: DataFrame) -> DataFrame:
        raise ZeroDivisionError("the function is ill")

    def well(frame: DataFrame) -> DataFrame:
        return frame.select("id")

    flow = flow_over(tmp_path)
    flow.sql("a", PLAIN, MEMORY, every=0.05)
    with flow.start(spark) as run:
        tens(tmp_path, 0)
        read_all(run, tmp_path)
        bad = flow.stream("s").apply(ill, "id BIGINT").query("bad", MEMORY, every=0.05)
        with pytest.raises(RunError) as caught:
            run.subscribe("bad", bad)
        assert "the function is ill" in caught.value.message
        run.set_gates({"a": 0.5})
        with pytest.raises(RunError):
            run.change(Unsubscribe(name="a"), Subscribe(query=bad))
        kept = {tuple(each.history.newest.values()) for each in run.runs}
        assert kept == {(0.5,)}, "a change that was refused has opened a gate"
        run.set_gates({})
        good = flow.stream("s").apply(well, "id BIGINT").query("good", MEMORY, every=0.05)
        run.subscribe("good", good)
        tens(tmp_path, 1)
        read_all(run, tmp_path)
        assert run.answers("a").num_rows == 4
        assert run.answers("good").num_rows == 2
