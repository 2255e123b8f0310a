"""Random sets of queries over random data, and what plain Spark and a plain count say of them."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = (
    "id BIGINT, ts TIMESTAMP, flag BOOLEAN, tiny TINYINT, small SMALLINT, n INT, big BIGINT, "
    "x DOUBLE, y DOUBLE, money DECIMAL(10,2), wide DECIMAL(20,4), name STRING, day DATE, "
    "at TIMESTAMP, place STRUCT<city: STRING, zone: INT>"
)
TABLE_SCHEMA = "city STRING, region STRING, factor INT"
WATERMARK_US = 10_000_000
START = datetime(2026, 1, 5, 12, 0, 0, tzinfo=UTC)

_ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("money", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(20, 4)),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("place", pa.struct([("city", pa.string()), ("zone", pa.int32())])),
    ]
)
_TABLE = pa.schema([("city", pa.string()), ("region", pa.string()), ("factor", pa.int32())])
_CITIES = ("bern", "graz", "oslo", "riga", "bonn")


@dataclass(frozen=True)
class RandomQuery:
    """A query as SQL, and its parts for the plain count."""

    name: str
    sql: str
    where: str | None
    size_s: int | None
    slide_s: int | None
    joins: bool
    fails: str | None = None
    """Holds for tuples of which it cannot be told whether they are wanted. `where` is FALSE."""


def write_data(rng: random.Random, folder: Path, files: int, rows: int) -> None:
    """Write numbered files: 10 % disorder, some rows far too late, NULLs everywhere."""
    folder.mkdir(parents=True)
    number = 0
    for index in range(files):
        made = []
        for _ in range(rows):
            number += 1
            made.append(_row(rng, number, index))
        table = pa.Table.from_pylist(made, schema=_ARROW)
        file = folder / f"{index:04d}.parquet"
        pyarrow.parquet.write_table(table, file)
        # Spark reads files in the order of their times, which may else be equal.
        os.utime(file, (1_767_000_000 + index, 1_767_000_000 + index))


def _row(rng: random.Random, number: int, index: int) -> dict[str, Any]:
    now = START + timedelta(seconds=index * 12) + timedelta(microseconds=rng.randrange(12_000_000))
    chance = rng.random()
    if chance < 0.1:
        now -= timedelta(microseconds=rng.randrange(9_000_000))
    elif chance < 0.16:
        now -= timedelta(microseconds=rng.randrange(60_000_000))

    def maybe(value: Any, share: float = 0.12) -> Any:
        return None if rng.random() < share else value

    return {
        "id": number,
        "ts": maybe(now, 0.02),
        "flag": maybe(rng.random() < 0.5),
        "tiny": maybe(rng.randrange(-5, 6)),
        "small": maybe(rng.randrange(-300, 300)),
        "n": maybe(rng.randrange(20)),
        "big": maybe(rng.randrange(-(10**12), 10**12)),
        "x": maybe(rng.randrange(-4096, 4096) / 1024),
        "y": maybe(rng.randrange(8192) / 1024),
        "money": maybe(Decimal(rng.randrange(-10_000, 10_000)) / 100),
        "wide": maybe(Decimal(rng.randrange(-(10**9), 10**9)) / 10_000),
        "name": maybe(rng.choice(("ann", "bob", "cyd", "Dan", "eve", ""))),
        "day": maybe(date(2026, 1, 1) + timedelta(days=rng.randrange(4))),
        "at": maybe(START + timedelta(minutes=rng.randrange(4))),
        "place": maybe({"city": maybe(rng.choice(_CITIES)), "zone": maybe(rng.randrange(3))}),
    }


def write_table(folder: Path) -> None:
    """Write the finite table: one city twice, one never met, one missing."""
    folder.mkdir(parents=True)
    rows = [
        {"city": "bern", "region": "south", "factor": 2},
        {"city": "graz", "region": "south", "factor": 3},
        {"city": "oslo", "region": "north", "factor": 5},
        {"city": "oslo", "region": None, "factor": 7},
        {"city": "rome", "region": "south", "factor": None},
    ]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema=_TABLE), folder / "0.parquet")


KEYS = (
    "flag",
    "tiny",
    "n % 5",
    "name",
    "day",
    "at",
    "place.city",
    "place.zone",
    "upper(name)",
    "cast(money as decimal(10,0))",
    "y > 4",
    "coalesce(name, 'none')",
    "floor(y)",
    "round(x, 0)",
    "case when n > 10 then 'high' when n > 5 then 'mid' end",
    "big % 7",
)
PREDICATES = (
    "x > 0",
    "n between 3 and 15",
    "name in ('ann', 'bob', 'eve')",
    "name like '%a%'",
    "flag",
    "not flag",
    "money >= 12.50 or y < 2",
    "place.city is not null and x < 2",
    "n % 3 = 1",
    "day >= '2026-01-02'",
    "at < timestamp '2026-01-05 12:02:00'",
    "name is null",
    "length(name) > 2 and y * 2 > x",
    "tiny <=> null or small > 0",
    "case when x > 1 then y > 3 else n > 4 end",
    "wide > money",
)
AGGREGATES = (
    "count(*)",
    "count(x)",
    "count(name)",
    "sum(x)",
    "sum(n)",
    "sum(big)",
    "sum(money)",
    "sum(wide)",
    "sum(tiny)",
    "sum(x * y)",
    "avg(y)",
    "avg(n)",
    "avg(money)",
    "min(x)",
    "max(y)",
    "min(n)",
    "max(big)",
    "min(day)",
    "max(at)",
    "min(money)",
    "max(flag)",
    "max(small)",
    "stddev(x)",
    "stddev(n)",
    "min(name)",
    "max(name)",
    "approx_count_distinct(name)",
    "approx_count_distinct(n)",
    "approx_count_distinct(money)",
)
HAVING = ("count(*) > 3", "sum(n) > 20", "avg(y) < 4.5", "max(y) >= 5 and count(x) > 1")
WINDOWS = (
    (5, 5),
    (10, 10),
    (7, 7),
    (30, 30),
    (20, 10),
    (15, 5),
    (25, 10),
    (3, 3),
    (28, 2),
    (29, 2),
)


def make_queries(rng: random.Random, count: int) -> list[RandomQuery]:
    """Return random queries; the first few of a set repeat keys and windows to meet in families."""
    shared_key, shared_window = rng.choice(KEYS), rng.choice(WINDOWS)
    made = []
    for index in range(count):
        kind = rng.random()
        if kind < 0.12:
            made.append(_stateless(rng, f"q{index}"))
        elif kind < 0.2:
            made.append(_distinct(rng, f"q{index}"))
        else:
            common = (shared_key, shared_window) if rng.random() < 0.4 else None
            made.append(_windowed(rng, f"q{index}", common))
    return made


def _predicate(rng: random.Random) -> str | None:
    chance = rng.random()
    if chance < 0.25:
        return None
    if chance < 0.75:
        return rng.choice(PREDICATES)
    a, b = rng.sample(PREDICATES, 2)
    return f"({a}) {rng.choice(('and', 'or'))} ({b})"


def _where(predicate: str | None) -> str:
    return "" if predicate is None else f" WHERE {predicate}"


def _stateless(rng: random.Random, name: str) -> RandomQuery:
    predicate = _predicate(rng)
    items = rng.sample(
        ["id", "ts", "x + y as z", "name", "money", "place.city as city", "upper(name) as u"], 3
    )
    sql = f"SELECT {', '.join(items)} FROM s{_where(predicate)}"
    return RandomQuery(name, sql, predicate, None, None, joins=False)


def _distinct(rng: random.Random, name: str) -> RandomQuery:
    predicate = _predicate(rng)
    size, slide = rng.choice(WINDOWS)
    keys = rng.sample(KEYS, rng.choice((1, 2)))
    items = ", ".join(f"{k} as k{i}" for i, k in enumerate(keys))
    sql = f"SELECT DISTINCT {items}, {_window(size, slide)} AS w FROM s{_where(predicate)}"
    return RandomQuery(name, sql, predicate, size, slide, joins=False)


def _window(size: int, slide: int) -> str:
    return f"window(ts, '{size} seconds'" + ("" if size == slide else f", '{slide} seconds'") + ")"


def _windowed(
    rng: random.Random, name: str, common: tuple[str, tuple[int, int]] | None
) -> RandomQuery:
    predicate = _predicate(rng)
    joins = common is None and rng.random() < 0.15
    keys = rng.sample(KEYS, rng.choice((0, 1, 1, 2, 3)))
    size, slide = rng.choice(WINDOWS)
    if common is not None:
        keys, (size, slide) = [common[0]], common[1]
    aggregates = rng.sample(AGGREGATES, rng.choice((1, 2, 3)))
    if joins:
        keys = ["region", *keys[:1]]
        aggregates.append("sum(n * factor)")
    items = [f"{k} as k{i}" for i, k in enumerate(keys)]
    items.append(rng.choice((f"{_window(size, slide)} as w", "window.start as w0, window.end w1")))
    for i, each in enumerate(aggregates):
        condition = f" FILTER (WHERE {rng.choice(PREDICATES)})" if rng.random() < 0.25 else ""
        items.append(f"{each}{condition} as a{i}")
    if rng.random() < 0.2:
        items.append("sum(x) / greatest(count(x), 1) as r")
    group = ", ".join([*keys, _window(size, slide)])
    having = f" HAVING {rng.choice(HAVING)}" if rng.random() < 0.3 else ""
    source = "s"
    if joins:
        source = f"s {rng.choice(('JOIN', 'LEFT JOIN'))} cities ON s.place.city = cities.city"
    sql = f"SELECT {', '.join(items)} FROM {source}{_where(predicate)} GROUP BY {group}{having}"
    return RandomQuery(name, sql, predicate, size, slide, joins)
