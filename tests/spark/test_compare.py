"""`compare` on recorded samples: equal answers, and a planted difference that it must find."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from evenflow.errors import ConfigError
from evenflow.flow import Flow
from evenflow.spark.compare import compare_flow
from evenflow.spark.equality import difference
from evenflow.spark.sink import demux
from evenflow.spark.unit import batch
from tests.spark.test_random import SEED, RandomSet

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_a_random_flow_is_equal(spark: SparkSession, tmp_path: Path) -> None:
    spec = RandomSet(spark, SEED + 2000, tmp_path).spec()
    result = compare_flow(spec, rows=700, session=spark)
    assert result["equal"], result["differences"]
    assert result["queries"] == len(spec.queries)
    assert result["operators_shared"] < result["operators_alone"]
    assert result["rows"] == 700
    assert result["plain_rows_per_second"] > 0
    assert result["shared_rows_per_second"] > 0


def test_a_planted_difference_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack that answers one count too many in one of its queries."""
    original = demux.take_apart

    def faulty(table: pa.Table, **others: Any) -> demux.Apart:
        apart = original(table, **others)
        for number, answers in apart.answers.items():
            if number == 1:
                at = answers.column_names.index("n")
                wrong = pc.add(answers.column(at), 1)
                apart.answers[number] = answers.set_column(at, "n", wrong)
        return apart

    monkeypatch.setattr(batch, "take_apart", faulty)
    flow = Flow("planted")
    flow.source("m", "meters", {"rows": "4000", "rate": "1000", "start": "2026-01-05 06:00:00"})
    for name in ("one", "two"):
        flow.sql(
            name,
            "SELECT district, window(ts, '1 second') AS w, count(*) AS n FROM m "
            "GROUP BY district, window(ts, '1 second')",
        )
    result = compare_flow(flow.spec(), rows=4000, session=spark)
    assert not result["equal"]
    assert [line.split(":")[0] for line in result["differences"]] == ["one"]


def test_where_pushed_predicates_change_answers_is_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A tuple that only the watermark over all tuples makes late."""
    from datetime import UTC, datetime, timedelta

    import pyarrow as pa
    import pyarrow.parquet

    begin = datetime(2026, 1, 5, tzinfo=UTC)
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("kind", pa.string())])
    files = (
        [(1, "a"), (100, "b")],
        [(101, "b")],
        [(2, "a"), (102, "b")],
        [(200, "b"), (201, "a")],
        [(202, "b"), (203, "a")],
    )
    folder = tmp_path / "sample" / "s"
    folder.mkdir(parents=True)
    for index, rows in enumerate(files):
        made = [{"ts": begin + timedelta(seconds=at), "kind": kind} for at, kind in rows]
        table = pa.Table.from_pylist(made, schema=schema)
        file = folder / f"{index:06d}.parquet"
        pyarrow.parquet.write_table(table, file)
        # Spark reads files in the order of their times, which may be equal.
        os.utime(file, (1_767_000_000 + index, 1_767_000_000 + index))
    flow = Flow("pushed")
    flow.source(
        "s",
        "parquet",
        {"path": str(folder)},
        schema="ts TIMESTAMP, kind STRING",
        event_time="ts",
        watermark="5 seconds",
    )
    for kind in ("a", "b"):
        flow.sql(
            kind,
            "SELECT window(ts, '10 seconds') AS w, count(*) AS n FROM s "
            f"WHERE kind = '{kind}' GROUP BY window(ts, '10 seconds')",
        )
    result = compare_flow(flow.spec(), sample=tmp_path / "sample", session=spark)
    assert result["equal"], result["differences"]
    assert result["pushed_down"] == {"a": 1}


def test_a_missing_sample_is_named(spark: SparkSession, tmp_path: Path) -> None:
    spec = RandomSet(spark, SEED, tmp_path).spec()
    with pytest.raises(ConfigError):
        compare_flow(spec, sample=tmp_path / "nothing", session=spark)


def test_doubles_are_equal_to_nine_digits_and_no_further() -> None:
    import pyarrow as pa

    one = pa.table({"k": ["a", "b"], "x": [1.0, 2.0]})
    near = pa.table({"k": ["b", "a"], "x": [2.0 * (1 + 1e-12), 1.0]})
    far = pa.table({"k": ["b", "a"], "x": [2.0 * (1 + 1e-6), 1.0]})
    assert difference(one, near) is None
    assert difference(one, far) is not None
