"""Sources on Spark: what is read, in which order, over restarts, and what is refused."""

from __future__ import annotations

import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from evenflow import Flow, Sink
from evenflow.errors import ConfigError, RunError
from tests.spark.flows import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from evenflow.spark.run import Run

START = datetime(2026, 5, 1, tzinfo=UTC)
SCHEMA = "id BIGINT, ts TIMESTAMP, value DOUBLE"


def moment(second: float) -> datetime:
    return START + timedelta(seconds=second)


def flow(
    state: Path, format_: str | None = None, sql: str = "SELECT id, ts FROM s", **source: Any
) -> Flow:
    made = Flow("sources", state=state)
    made.source("s", format_, **source)
    made.sql("q", sql, Sink("memory"))
    return made


def finish(made: Flow, spark: SparkSession) -> list[dict[str, Any]]:
    """Run what is available now and return the answers of this run."""
    run = made.start(spark, available_now=True)
    try:
        run.wait()
        return rows(run)
    finally:
        run.stop()


def rows(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.answers("q").to_pylist()
    return found


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return answers by event time. Files that Spark reads in one batch come in any order."""
    return sorted(found, key=lambda row: row["ts"])


def ids(found: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in found]


def wait(run: Run, until: Callable[[list[dict[str, Any]]], bool]) -> None:
    deadline = time.monotonic() + 60
    while not until(rows(run)):
        assert time.monotonic() < deadline
        run.wait(seconds=0.1)


# Generators.


@pytest.mark.parametrize("format_", ["constant", "poisson", "burst", "meters"])
def test_a_finite_generator_gives_all_its_tuples_and_then_no_more(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    options = {"rows": 2500, "seed": 3, "start": "2026-05-01", "max_rows_per_batch": 1000}
    first = finish(flow(tmp_path / "a", format_, options=options), spark)
    assert len(set(ids(first))) == 2500
    assert finish(flow(tmp_path / "a", format_, options=options), spark) == []
    cut_otherwise = {**options, "partitions": 1, "max_rows_per_batch": 7000}
    again = finish(flow(tmp_path / "b", format_, options=cut_otherwise), spark)
    assert sorted(map(str, again)) == sorted(map(str, first))


def test_a_live_generator_goes_on_over_a_restart_without_gap_or_repeat(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = flow(tmp_path, "constant", options={"rate": 500})
    with made.start(spark) as run:
        wait(run, lambda found: len(found) > 300)
        run.pause_units()
        first = rows(run)
    time.sleep(1)
    second = finish(made, spark)
    seen = sorted(ids(first) + ids(second))
    assert len(second) >= 500
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    newest = max(row["ts"] for row in second)
    assert abs(datetime.now(UTC) - newest) < timedelta(seconds=30)


def test_all_units_see_the_same_tuples(spark: SparkSession, tmp_path: Path) -> None:
    made = flow(tmp_path, "poisson", options={"rows": 3000})
    hours = "GROUP BY window(ts, '1 hour')"
    count = f"SELECT window(ts, '1 hour') AS w, count(*) AS n, min(id) AS low FROM s {hours}"
    made.sql("n", count, Sink("memory"))
    run = made.start(spark, available_now=True)
    run.wait()
    run.pause_units()
    run.drain()
    counted = run.answers("n").to_pylist()
    found = ids(rows(run))
    run.stop()
    assert sum(row["n"] for row in counted) == 3000 == len(found)
    assert min(row["low"] for row in counted) == min(found)


def test_a_wrong_option_of_a_generator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="meters has no option rte"):
        flow(tmp_path, "meters", options={"rte": 5})


# Replays.


def nab(folder: Path) -> list[dict[str, Any]]:
    """Write two csv files whose event times overlap, as those of NAB do."""
    folder.mkdir()
    found = []
    for number in range(2):
        lines = ["id,ts,value"]
        for i in range(100):
            row = {"id": number * 100 + i, "ts": moment(7 * (99 - i) + number), "value": i / 4}
            found.append(row)
            lines.append(f"{row['id']},{row['ts']:%Y-%m-%d %H:%M:%S},{row['value']}")
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n")
    return sorted(found, key=lambda row: row["ts"])


def replay(state: Path, path: Path, **options: Any) -> Flow:
    options = {"path": str(path), "source_format": "csv", "header": True, **options}
    return flow(
        state,
        "replay",
        "SELECT * FROM s",
        options=options,
        schema=SCHEMA,
        event_time="ts",
        watermark=0,
    )


def test_a_replay_is_in_the_order_of_event_times_and_not_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    wanted = nab(tmp_path / "data")
    made = replay(tmp_path / "state", tmp_path / "data", rows_per_file=30)
    batches: list[list[dict[str, Any]]] = []
    made.sql(
        "b",
        "SELECT * FROM s",
        Sink("callback", function=lambda _, t: batches.append(t.to_pylist())),
    )
    assert finish(made, spark) == wanted
    batches = [batch for batch in batches if batch]
    assert len(batches) >= 7
    assert all(len(batch) <= 30 for batch in batches)
    assert [row for batch in batches for row in batch] == wanted
    assert finish(made, spark) == []


def test_no_tuple_of_a_replay_is_late(spark: SparkSession, tmp_path: Path) -> None:
    nab(tmp_path / "data")
    made = replay(tmp_path / "state", tmp_path / "data", rows_per_file=50)
    size = "window(ts, '10 seconds')"
    made.sql("n", f"SELECT {size} AS w, count(*) AS n FROM s GROUP BY {size}")
    run = made.start(spark, available_now=True)
    run.wait()
    counts = run.stop()["queries"]["n"]["counts"]
    assert (counts["in"], counts["late"]) == (200, 0)


def test_a_replay_with_a_speed_comes_as_time_passes(spark: SparkSession, tmp_path: Path) -> None:
    wanted = nab(tmp_path / "data")  # 700 seconds, played in 23
    made = replay(tmp_path / "state", tmp_path / "data", speed=30)
    with made.start(spark) as run:
        wait(run, lambda found: len(found) >= 10)
        run.pause_units()
        part = rows(run)
    assert len(part) < 200
    assert in_order(part) == wanted[: len(part)]
    assert in_order(part + finish(made, spark)) == wanted


def test_a_replay_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    nab(tmp_path / "data")
    frame = spark.read.schema(SCHEMA).csv(str(tmp_path / "data"), header=True)
    frame.write.saveAsTable("played", path=str(tmp_path / "table"), mode="overwrite")
    source: dict[str, Any] = {
        "options": {"table": "played"},
        "schema": SCHEMA,
        "event_time": "ts",
        "watermark": 0,
    }
    found = finish(flow(tmp_path / "state", "replay", **source), spark)
    assert [row["ts"] for row in found] == sorted(row["ts"] for row in found)
    assert len(found) == 200
    bad = {**source, "options": {"table": "parquet.`/tmp`"}}
    with pytest.raises(ConfigError):
        flow(tmp_path / "bad", "replay", **bad).start(spark)


# Iterables and DataFrames.


def test_an_iterable_is_a_source_and_is_laid_once(spark: SparkSession, tmp_path: Path) -> None:
    given = [(i, moment(i), i / 2) for i in range(25)]
    source: dict[str, Any] = {"data": given, "schema": SCHEMA, "options": {"rows_per_file": 10}}
    assert sorted(ids(finish(flow(tmp_path, **source), spark))) == list(range(25))
    assert finish(flow(tmp_path, **source), spark) == []


def test_an_iterable_without_end_needs_a_bound(spark: SparkSession, tmp_path: Path) -> None:
    given = ({"id": i, "ts": moment(i)} for i in itertools.count())
    source: dict[str, Any] = {"data": given, "schema": SCHEMA, "options": {"max_rows": 1234}}
    assert ids(finish(flow(tmp_path, **source), spark)) == list(range(1234))


def test_rows_of_an_iterable_are_answered_as_they_come(spark: SparkSession, tmp_path: Path) -> None:
    more = threading.Event()

    def given() -> Iterator[dict[str, Any]]:
        yield from ({"id": i} for i in range(5))
        more.wait(30)
        yield {"id": 5}

    with flow(tmp_path, data=given(), schema=SCHEMA).start(spark) as run:
        wait(run, lambda found: sorted(ids(found)) == list(range(5)))
        more.set()
        wait(run, lambda found: sorted(ids(found)) == list(range(6)))


def test_a_failing_iterable_is_told(spark: SparkSession, tmp_path: Path) -> None:
    def given() -> Iterator[tuple[int]]:
        yield (1,)
        raise OSError("gone")

    with pytest.raises(RunError):
        flow(tmp_path, sql="SELECT id FROM s", data=given(), schema="id BIGINT").start(
            spark, available_now=True
        )


def test_a_finite_dataframe_is_played_in_the_order_of_event_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(i, moment(50 - i), 0.5) for i in range(50)], SCHEMA)
    made = flow(tmp_path, data=frame, event_time="ts", watermark=0)
    assert ids(finish(made, spark)) == list(reversed(range(50)))
    assert finish(made, spark) == []


def _files(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.json").write_text(text + "\n")
    return folder


@pytest.mark.parametrize("windowed", [True, False])
def test_a_streaming_dataframe_runs_under_our_settings(
    spark: SparkSession, tmp_path: Path, windowed: bool
) -> None:
    """The user's session has another time zone; texts of ours are UTC all the same."""
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    folder = _files(tmp_path / "in", '{"ID": 1, "ts": "2026-05-01T00:00:01Z"}')
    stream: DataFrame = theirs.readStream.schema("ID INT, ts TIMESTAMP").json(str(folder))
    source: dict[str, Any] = {
        "data": stream,
        "schema": "id BIGINT, ts TIMESTAMP",
        "event_time": "ts",
        "watermark": 0,
    }
    if windowed:
        text = (
            "count(*) AS id, min(CAST(ts AS STRING)) AS ts FROM s GROUP BY window(ts, '1 second')"
        )
        sql = f"SELECT window(ts, '1 second') AS w, {text}"
    else:
        sql = "SELECT id, CAST(ts AS STRING) AS ts FROM s"
    run = flow(tmp_path / "state", sql=sql, **source).start(spark, available_now=True)
    run.wait()
    run.pause_units()
    run.drain()
    found = rows(run)
    run.stop()
    assert [(row["id"], row["ts"]) for row in found] == [(1, "2026-05-01 00:00:01")]


def test_a_table_may_be_rows_or_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    names = [(0, "even"), (1, "odd")]
    for kind, data in (
        ("rows", names),
        ("frame", spark.createDataFrame(names, "k INT, name STRING")),
    ):
        made = Flow("joined", state=tmp_path / kind)
        made.source("s", data=[(i,) for i in range(4)], schema="id BIGINT")
        made.table("t", data=data, schema="k INT, name STRING")
        made.sql("q", "SELECT s.id, t.name FROM s JOIN t ON s.id = t.k", Sink("memory"))
        found = finish(made, spark)
        assert sorted((row["id"], row["name"]) for row in found) == names


# Spark's formats.


def test_a_format_of_sparks_own_with_columns_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    source: dict[str, Any] = {
        "options": {"rowsPerSecond": 5},
        "schema": "value BIGINT, timestamp TIMESTAMP",
    }
    sql = "SELECT value AS id, timestamp AS ts FROM s"
    with flow(tmp_path, "rate", sql, **source).start(spark) as run:
        wait(run, lambda found: set(range(5)) <= set(ids(found)))


@pytest.mark.parametrize(
    ("format_", "options"),
    [
        ("nonsense", {}),
        ("json", {"path": "{}/none"}),
        ("json", {"path": "{}/none/*.json"}),
        ("json", {}),
        ("json", {"path": "{}", "maxFilesPerTrigger": "few"}),
        ("rate", {"rowsPerSecond": "many"}),
        ("replay", {}),
        ("replay", {"path": "{}/none"}),
        ("replay", {"path": "{}", "source_format": "nonsense"}),
        ("replay", {"path": "{}", "speed": "1"}),
        ("replay", {"path": "{}", "speed": "fast"}),
        ("replay", {"path": "{}", "rows_per_file": "0"}),
    ],
)
def test_what_cannot_be_opened_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, format_: str, options: dict[str, str]
) -> None:
    given = {name: value.replace("{}", str(tmp_path)) for name, value in options.items()}
    made = flow(tmp_path / "state", format_, options=given, schema=SCHEMA)
    with pytest.raises(ConfigError) as caught:
        made.start(spark)
    assert "\n" not in caught.value.message
    assert caught.value.message.startswith("source s: ") or format_ == "replay"


@pytest.mark.parametrize(
    ("format_", "path"), [("nonsense", "{}"), ("parquet", "{}/none"), ("parquet", None)]
)
def test_a_table_that_cannot_be_opened_is_refused(
    spark: SparkSession, tmp_path: Path, format_: str, path: str | None
) -> None:
    made = Flow("joined", state=tmp_path / "state")
    made.source("s", data=[(1,)], schema="id BIGINT")
    place = None if path is None else path.replace("{}", str(tmp_path))
    made.table("t", format_, place, schema="k INT")
    made.sql("q", "SELECT s.id FROM s JOIN t ON s.id = t.k", Sink("memory"))
    with pytest.raises(ConfigError):
        made.start(spark)


def test_a_state_directory_may_have_blanks_and_brackets(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = flow(tmp_path / "a b[1]", sql="SELECT id FROM s", data=[(1,)], schema="id BIGINT")
    assert ids(finish(made, spark)) == [1]


def test_columns_of_a_table_that_spark_wrote_are_found(spark: SparkSession, tmp_path: Path) -> None:
    from evenflow.spark.source.tables import parquet_schema

    path = tmp_path / "table"
    spark.createDataFrame([(1, moment(0), 0.5)], SCHEMA).write.parquet(str(path))
    assert parquet_schema(str(path)).ddl() == "`id` BIGINT, `ts` TIMESTAMP, `value` DOUBLE"
    small = pa.table({"x": pa.array([1.5], pa.float32())})
    pyarrow.parquet.write_table(small, tmp_path / "small.parquet")
    assert parquet_schema(str(tmp_path / "small.parquet")).ddl() == "`x` DOUBLE"
    assert spark.read.schema("x DOUBLE").parquet(str(tmp_path / "small.parquet")).first() == (1.5,)


def test_what_a_batch_reads_is_limited_while_a_flow_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow("f", tmp_path / "state")
    flow.source("c", "constant", {"rate": 2000})
    flow.sql("q", "SELECT id FROM c", Sink("memory"), every=0.1)
    with flow.start(spark) as run:
        until(lambda: run.answers("q").num_rows > 100)
        assert run.set_limit("c", 7)

        until(lambda: last_rows(run) == 7)
        until(lambda: (run.status()["sources"]["c"]["rows_behind"] or 0) > 100)
        assert run.set_limit("c", None)
        until(lambda: last_rows(run) != 7)
        assert run.set_limit("c", 7)
    # The limit was left: a process that is killed takes nothing away. The next one has none.
    with flow.start(spark) as run:
        # The first batch may have been planned before.
        until(lambda: last_rows(run) not in (None, 7))


def test_rows_that_a_source_holds_back_make_answers_older(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow("f", tmp_path / "state")
    flow.source("c", "constant", {"rate": 2000})
    flow.sql("q", "SELECT id FROM c", Sink("memory"), every=0.1, deadline=2.0)
    with flow.start(spark, shed="off") as run:
        until(lambda: run.answers("q").num_rows > 100)
        assert run.set_limit("c", 7)
        until(lambda: last_rows(run) == 7)
        # Batches are short: only what they leave behind tells how old their rows are.
        until(lambda: "rows wait, of which a batch" in (run.status()["queries"]["q"]["late"] or ""))
        assert run.status()["queries"]["q"]["delay_seconds"] > 2.0


def last_rows(run: Run) -> int | None:
    """Return how many rows the newest batch has read."""
    run.status()
    last = run.runs[0].pace.last
    return None if last is None else last.rows[0]
