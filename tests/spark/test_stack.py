"""The idioms that the stack stands on: if Spark changes, these tests say so first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.spark.compile.expand import AT, CHUNK, VALUE, expand, guarded_from
from tests.spark.flows import MEMORY, counts, flow_over, lay, row, run_all

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize("entries", [1, CHUNK, CHUNK + 1, 3 * CHUNK + 2])
def test_a_tuple_becomes_a_row_per_value_at_its_position(spark: SparkSession, entries: int) -> None:
    frame = spark.range(5).withColumn("other", F.col("id") * 7)
    values = [
        F.when(F.col("id") % (at + 1) == 0, F.col("id") * 100 + at).cast(st.LongType())
        for at in range(entries)
    ]
    rows = expand(frame, ["other"], values).collect()
    found = sorted((row["other"] // 7, row[AT], row[VALUE]) for row in rows)
    assert found == sorted(
        (id_, at, id_ * 100 + at)
        for id_ in range(5)
        for at in range(entries)
        if id_ % (at + 1) == 0
    )


@pytest.mark.parametrize("some", [True, False])
@pytest.mark.parametrize(
    ("entries", "more"), [(3, 4), (9, 8), (16, 8), (16, 17), (17, 1), (32, 10), (40, 30)]
)
def test_guarded_values_have_positions_of_their_own(
    spark: SparkSession, entries: int, more: int, some: bool
) -> None:
    """Whatever chunks they come in: none is left out, and none is there unless some are."""
    values = [F.lit(at).cast(st.LongType()) for at in range(entries)]
    guarded = [F.lit(1000 + at).cast(st.LongType()) for at in range(more)]
    frame = spark.range(1).withColumn("some", F.lit(some) & (F.col("id") == 0))
    rows = expand(frame, ["id"], values, (F.col("some"), guarded)).collect()
    start = guarded_from(entries, more)
    wanted = [(at, at) for at in range(entries)]
    wanted += [(start + at, 1000 + at) for at in range(more) if some]
    assert start >= entries
    assert sorted((row[AT], row[VALUE]) for row in rows) == wanted


def test_null_and_what_stands_for_it_are_different_groups(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Group keys of the stack hold a constant where a key is NULL, and a bit says so."""
    lay(
        tmp_path / "s",
        row(1, 1, k=None, n=None, x=None),
        row(2, 1, k="", n=0, x=0.0),
        row(3, 1, k="", n=None, x=0.0),
        row(4, 1, k="", n=None, x=0.0),
    )
    flow = flow_over(tmp_path)
    keys = {"text": "k", "whole": "n", "real": "x", "sum": "n + id * 0", "all": "k, n, x"}
    for name, key in keys.items():
        flow.sql(
            name,
            f"SELECT {key}{' AS v' if name == 'sum' else ''}, count(*) AS c FROM s "
            f"GROUP BY {key}, window(ts, '10 seconds')",
            sink=MEMORY,
        )
    # A second condition on the same keys: rows carry masks instead of keys.
    flow.sql(
        "masked",
        "SELECT n, count(*) AS c FROM s WHERE id > 0 GROUP BY n, window(ts, '20 seconds')",
        sink=MEMORY,
    )
    flow.sql(
        "masked_too",
        "SELECT n, count(*) AS c FROM s WHERE id > 1 GROUP BY n, window(ts, '20 seconds')",
        sink=MEMORY,
    )
    answers, _ = run_all(spark, flow, drain=True)
    assert answers["text"] == [("", 3), (None, 1)]
    assert answers["whole"] == answers["masked"] == [(0, 1), (None, 3)]
    assert answers["masked_too"] == [(0, 1), (None, 2)]
    assert answers["real"] == [(0.0, 3), (None, 1)]
    assert answers["sum"] == [(0, 1), (None, 3)]
    assert answers["all"] == [("", 0, 0.0, 1), ("", None, 0.0, 2), (None, None, None, 1)]


def test_the_unit_without_masks_keeps_null_keys_too(spark: SparkSession, tmp_path: Path) -> None:
    lay(tmp_path / "s", row(1, 1, n=None), row(2, 1, n=0), row(3, 1, n=None))
    flow = flow_over(tmp_path)
    for name, key in {"plain": "n", "computed": "n * 2 + 1", "other": "big"}.items():
        flow.sql(
            name,
            f"SELECT {key} AS v, count(*) AS c FROM s GROUP BY {key}, window(ts, '10 seconds')",
            sink=MEMORY,
        )
    answers, _ = run_all(spark, flow, drain=True)
    assert answers["plain"] == [(0, 1), (None, 2)]
    assert answers["computed"] == [(1, 1), (None, 2)]
    assert answers["other"] == [(1, 3)]


def test_finely_sliding_windows_answer_every_window(spark: SparkSession, tmp_path: Path) -> None:
    lay(tmp_path / "s", row(1, 30.5), row(2, 31.5), row(3, None))
    flow = flow_over(tmp_path)
    flow.sql(
        "fine",
        "SELECT window.start AS w, count(*) AS c FROM s "
        "GROUP BY window(ts, '20 seconds', '1 second')",
        sink=MEMORY,
    )
    flow.sql(
        "uneven",
        "SELECT window.start AS w, count(*) AS c FROM s "
        "GROUP BY window(ts, '31 seconds', '2 seconds')",
        sink=MEMORY,
    )
    answers, status = run_all(spark, flow, drain=True)
    assert sorted(answers["fine"]) == [
        (11.0, 1),
        *((float(second), 2) for second in range(12, 31)),
        (31.0, 1),
    ]
    # 30.5 s is in the windows of 0, 2, ... 30; 31.5 s in those of 2, ... 30.
    assert sorted(answers["uneven"]) == [(0.0, 1), *((float(s), 2) for s in range(2, 32, 2))]
    assert status["queries"]["fine"]["counts"]["in"] == 3 * 20
    assert status["queries"]["fine"]["counts"]["contributed"] == 2 * 20


def test_counts_that_spark_would_merge_are_found_in_the_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    lay(tmp_path / "s", row(1, 1, x=5.0), row(2, 1, x=5.0), row(3, 1, x=0.5), row(4, 1, x=None))
    flow = flow_over(tmp_path)
    ask = "SELECT {} FROM s {} GROUP BY window(ts, '1 hour')"
    flow.sql(
        "all",
        ask.format("count(*) AS c, avg(coalesce(x, 0)) AS a, count(nullif(1, 1)) AS z", ""),
        sink=MEMORY,
    )
    flow.sql("some", ask.format("count(*) AS c", "WHERE x > 1"), sink=MEMORY)
    _, status = run_all(spark, flow)
    assert status["queries"]["all"]["counts"]["open"] == 4
    assert status["queries"]["some"]["counts"]["open"] == 2
    answers, status = run_all(spark, flow, drain=True)
    assert answers["all"] == [(4, 2.625, 0)]
    assert answers["some"] == [(2,)]
    assert status["queries"]["some"]["counts"]["filtered"] == 2


def test_more_keys_than_there_are_bits(spark: SparkSession, tmp_path: Path) -> None:
    lay(tmp_path / "s", row(1, 1, k=None), row(2, 1, k=""), row(3, 1, k="b"))
    flow = flow_over(tmp_path)
    keys = [f"concat(k, '{'x' * i}')" for i in range(34)]
    items = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
    flow.sql(
        "wide",
        f"SELECT {items}, count(*) AS c FROM s GROUP BY {', '.join(keys)}, "
        "window(ts, '10 seconds')",
        sink=MEMORY,
    )
    answers, _ = run_all(spark, flow, drain=True)
    found = sorted(answers["wide"], key=repr)
    assert [(r[0], r[33], r[34]) for r in found] == [
        ("", "x" * 33, 1),
        ("b", "b" + "x" * 33, 1),
        (None, None, 1),
    ]


@pytest.mark.parametrize("keys", [["n"], ["n", "k"], ["x", ""]])
def test_keys_of_the_state_are_never_null_whatever_the_queries(
    spark: SparkSession, tmp_path: Path, keys: list[str]
) -> None:
    """Spark refuses keys that could be NULL for a state whose keys could not."""
    lay(tmp_path / "s", row(1, 1))
    flow = flow_over(tmp_path)
    for at, key in enumerate(keys):
        grouped = f"{key}, " if key else ""
        flow.sql(
            f"q{at}",
            f"SELECT count(*) AS c FROM s GROUP BY {grouped}window(ts, '{10 + at} seconds')",
            sink=MEMORY,
        )
    run_all(spark, flow)
    (checkpoint,) = tmp_path.glob("**/checkpoint")
    state = spark.read.format("statestore").load(str(checkpoint)).schema["key"].dataType
    assert isinstance(state, st.StructType)
    assert [field.name for field in state.fields if field.nullable] == []


@pytest.mark.parametrize("queries", [1, 2])
def test_event_times_at_the_ends_of_time_end_no_batch(
    spark: SparkSession, tmp_path: Path, queries: int
) -> None:
    """One query is a narrow unit, two are not. The watermark follows the tuple, as in Spark."""
    ends = [{**row(9 + at, 0), "ts": us} for at, us in enumerate((-(2**63), 2**63 - 1))]
    lay(tmp_path / "s", row(1, 1), row(2, 2), *ends)
    flow = flow_over(tmp_path)
    for size in range(1, 1 + queries):
        flow.sql(
            f"q{size}",
            f"SELECT count(*) AS c FROM s GROUP BY window(ts, '{size}0 seconds')",
            sink=MEMORY,
        )
    answers, status = run_all(spark, flow)
    assert answers == {f"q{size}": [(2,)] for size in range(1, 1 + queries)}
    for name in answers:
        assert counts(status, name) == {"in": 4, "contributed": 2, "filtered": 2}
