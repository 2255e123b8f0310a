"""Rows of users as tables: by place, by name, and what does not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from evenflow.errors import ConfigError
from evenflow.model.schema import parse_schema
from evenflow.spark.source.row_table import RowTables

SCHEMA = (
    "id BIGINT, name STRING, ts TIMESTAMP, day DATE, price DECIMAL(10,2), x DOUBLE, "
    "at STRUCT<lat: DOUBLE, since: TIMESTAMP>"
)
MOMENT = datetime(2026, 5, 1, 10, 30, tzinfo=UTC)
FULL = {
    "id": 1,
    "name": "a",
    "ts": MOMENT,
    "day": date(2026, 5, 1),
    "price": Decimal("1.50"),
    "x": 2.0,
    "at": {"lat": 1.0, "since": MOMENT},
}


def read(*rows: Any, schema: str = SCHEMA) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        RowTables("source s", parse_schema(schema)).table(rows).to_pylist()
    )
    return found


@pytest.mark.parametrize(
    "row",
    [
        FULL,
        tuple(FULL.values()),
        list(FULL.values()),
        Row(**{**FULL, "at": Row(lat=1.0, since=MOMENT)}),
        {**FULL, "other": 5},
        {name.upper(): value for name, value in FULL.items()},
        {**FULL, "ts": datetime(2026, 5, 1, 10, 30)},  # noqa: DTZ001  # without a zone it is UTC
        {**FULL, "ts": MOMENT.astimezone(timezone(timedelta(hours=2)))},
        {**FULL, "ts": "2026-05-01 10:30:00", "day": "2026-05-01"},
        {**FULL, "x": 2, "at": (1.0, MOMENT)},
    ],
)
def test_every_form_of_a_row_is_read(row: Any) -> None:
    assert read(row) == [FULL]


def test_what_is_missing_is_null() -> None:
    assert read({"id": 1}) == [{name: 1 if name == "id" else None for name in FULL}]
    assert read((None,) * 7) == [dict.fromkeys(FULL)]
    assert read() == []


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        ("id BIGINT", (1, 2)),
        ("id BIGINT", 1),
        ("id BIGINT", "1"),
        ("id BIGINT", ("1",)),
        ("id BIGINT", (1.5,)),
        ("id BIGINT", (True,)),
        ("x DOUBLE", ("1.5",)),
        ("price DECIMAL(4,2)", (Decimal("123.45"),)),
        ("id BIGINT", (2**63,)),
        ("id TINYINT", (300,)),
        ("name STRING", (1,)),
        ("ts TIMESTAMP", (1_700_000_000,)),
        ("ts TIMESTAMP", ("soon",)),
        ("day DATE", (MOMENT,)),
        ("at STRUCT<x: INT>", (5,)),
        ("at STRUCT<x: INT>", ((1, 2),)),
    ],
)
def test_what_does_not_fit_is_refused(schema: str, row: Any) -> None:
    with pytest.raises(ConfigError):
        read(row, schema=schema)
