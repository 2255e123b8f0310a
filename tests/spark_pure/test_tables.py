"""Columns of parquet files, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
import pytest

from evenflow.errors import ConfigError
from evenflow.spark.source.tables import parquet_schema

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, **types: pa.DataType) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([pa.field(name, type_) for name, type_ in types.items()])
    pyarrow.parquet.write_table(schema.empty_table(), path)
    return path


def test_arrow_types_become_ours(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.parquet",
        b=pa.bool_(),
        t=pa.int8(),
        i=pa.int32(),
        l=pa.int64(),
        u=pa.uint32(),
        f=pa.float32(),
        d=pa.float64(),
        p=pa.decimal128(10, 2),
        s=pa.string(),
        ls=pa.large_string(),
        day=pa.date32(),
        us=pa.timestamp("us", tz="UTC"),
        ms=pa.timestamp("ms"),
        at=pa.struct([pa.field("x", pa.int16())]),
    )
    assert parquet_schema(str(file)).ddl() == (
        "`b` BOOLEAN, `t` TINYINT, `i` INT, `l` BIGINT, `u` BIGINT, `f` DOUBLE, `d` DOUBLE, "
        "`p` DECIMAL(10,2), `s` STRING, `ls` STRING, `day` DATE, `us` TIMESTAMP, "
        "`ms` TIMESTAMP, `at` STRUCT<x: SMALLINT>"
    )


def test_a_folder_a_pattern_and_an_address_are_read_as_spark_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "sites"
    write(folder / "part-0.parquet", id=pa.int64())
    write(folder / "_temporary" / "part-0.parquet", other=pa.int64())
    (folder / "_SUCCESS").touch()
    for path in (str(folder), f"{folder}/*.parquet", f"file://{folder}", f"file:{folder}"):
        assert parquet_schema(path).names == ("id",)


def test_timestamps_as_spark_writes_them_by_default_are_known(tmp_path: Path) -> None:
    table = pa.table({"ts": pa.array([0], pa.timestamp("us"))})
    file = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table, file, use_deprecated_int96_timestamps=True)
    assert parquet_schema(str(file)).ddl() == "`ts` TIMESTAMP"


@pytest.mark.parametrize(
    "type_",
    [
        pa.binary(),
        pa.list_(pa.int32()),
        pa.timestamp("ns"),
        pa.time64("us"),
        pa.map_(*[pa.int8()] * 2),
    ],
)
def test_types_that_are_not_ours_are_refused(tmp_path: Path, type_: pa.DataType) -> None:
    file = write(tmp_path / "a.parquet", x=type_)
    with pytest.raises(ConfigError):
        parquet_schema(str(file))


def test_what_is_not_there_or_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_text("no")
    write(tmp_path / "divided" / "day=1" / "a.parquet", id=pa.int64())
    for name in ("none", "none/*.parquet", "empty", "text.parquet", "divided"):
        with pytest.raises(ConfigError):
            parquet_schema(str(tmp_path / name))
    with pytest.raises(ConfigError):
        parquet_schema("s3a://bucket/table")
