"""Compares compiled expressions with Spark's own evaluation of the same SQL text, row by row.

Many expressions go into one job. Where we say that a tuple fails, Spark is asked about that tuple
alone and must raise; on all other tuples Spark must give the same value and not raise.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from evenflow.graph.bind import Binder
from evenflow.graph.canonical import canonical
from evenflow.graph.parse import parse_expression
from evenflow.graph.scope import Scope
from evenflow.model.functions import can_fail
from evenflow.model.operator import Source
from evenflow.model.schema import parse_schema
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.types import struct, to_arrow, to_spark
from tests.spark.reference import generate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import SparkSession

    from evenflow.model.expression import Column, Expression

SCHEMA = parse_schema(
    "id INT, flag BOOLEAN, other BOOLEAN, tiny TINYINT, small SMALLINT, n INT, m INT, big BIGINT, "
    "x DOUBLE, y DOUBLE, cent DECIMAL(5,2), rate DECIMAL(18,6), wide DECIMAL(38,10), "
    "whole DECIMAL(38,0), share DECIMAL(4,4), s STRING, text STRING, day DATE, ts TIMESTAMP, "
    "place STRUCT<city: STRING, zone: INT>"
)
SOURCE = Source("t", SCHEMA, "ts", 0, "rows")

_COLUMNS: dict[str, list[Any]] = {
    "flag": [True, False, None],
    "other": [None, True, False, False, True],
    "tiny": [0, 1, -128, 127, None, 5],
    "small": [7, -32768, 32767, 0, None],
    "n": [0, 1, -1, 2**31 - 1, -(2**31), 42, None, 3],
    "m": [3, 0, 7, None, -5, 2**31 - 1],
    "big": [2**63 - 1, 0, -(2**63), 10, None, 99_999_999_999, -7],
    "x": [0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), None, 1e300, -2.5, 2.0**63],
    "y": [2.0, 0.0, None, -1.0, 1e-300, 0.5, 3.5],
    "cent": [Decimal("999.99"), Decimal("-999.99"), Decimal("0.00"), None, Decimal("1.25")],
    "rate": [Decimal("123456789012.345678"), Decimal("0.000001"), None, Decimal("-2.500000")],
    "wide": [
        Decimal("9" * 28 + "." + "9" * 10),
        Decimal("-" + "9" * 28 + "." + "9" * 10),
        None,
        Decimal("0.0000000001"),
        Decimal("12.5000000000"),
    ],
    "whole": [Decimal("9" * 38), Decimal(0), None, Decimal(-3), Decimal("1" + "0" * 20)],
    "share": [Decimal("0.9999"), Decimal("-0.5000"), None, Decimal("0.0000")],
    "s": ["abc", "", None, "Ünï %_\\ 日本", "  pad ", "ABC", "a_c", "a\nb"],
    "text": ["12", " -7 ", "x", "", None, "1.5", "1e3", "true", "2026-05-01", "999999999999",
             "2026-05-01 10:30:00.5", "NaN", "f", "300", "0.00001"],
    "day": [date(2026, 1, 31), date(1969, 12, 31), None, date(1, 1, 1), date(9999, 12, 31)],
    "ts": [
        datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
        None,
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 0, 0, tzinfo=UTC),
        datetime(2, 3, 4, 5, 6, 7, 8, tzinfo=UTC),
    ],
    "place": [{"city": "bern", "zone": 1}, {"city": None, "zone": None}, None],
}  # fmt: skip
ROWS = 16
"""Lists are cycled with strides that differ, so that edges of one column meet many of another."""


def rows() -> list[dict[str, Any]]:
    """Return the tuples."""
    made = []
    for index in range(ROWS):
        row = {"id": index}
        for at, (name, values) in enumerate(_COLUMNS.items()):
            row[name] = values[(index + (index // len(values)) * (at % 3)) % len(values)]
        made.append(row)
    return made


def bound(text: str) -> Expression:
    """Return a text over the tuples as the engine would see it."""
    return canonical(Binder(Scope.of(SOURCE, "t")).bind(parse_expression(text)))


def resolve(column: Column) -> SparkColumn:
    """Find a column by its own name."""
    return reduce(lambda value, name: value.getField(name), column.path[1:], F.col(column.path[0]))


@dataclass(frozen=True)
class Outcome:
    """What our columns gave for one expression."""

    values: list[Any]
    errors: frozenset[int]
    """Ids of tuples on which it fails."""


class Checker:
    """The tuples as a DataFrame, and both ways to evaluate texts over them."""

    def __init__(self, session: SparkSession) -> None:
        generate(session)
        schema = pa.schema([pa.field(f.name, to_arrow(f.type)) for f in SCHEMA])
        table = pa.Table.from_pylist(rows(), schema=schema)
        self.frame = session.createDataFrame(table, struct(SCHEMA)).coalesce(1)
        """Not a constant to Spark's optimiser, so that generated code evaluates it."""
        # Spark's side is interpreted, which takes half the time for a few tuples.
        oracle = session.newSession()
        for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"):
            oracle.conf.set(key, str(session.conf.get(key)))
        self._theirs = oracle.createDataFrame(table, struct(SCHEMA)).coalesce(1)
        # Constants of one tuple, which the optimiser evaluates without a job.
        self._alone = [
            oracle.createDataFrame(table.slice(i, 1), struct(SCHEMA)) for i in range(ROWS)
        ]
        # Every error that Spark is asked for is logged otherwise, with its stack.
        session.sparkContext.setLogLevel("OFF")
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)

    def check(self, texts: Sequence[str], *, per_job: int = 40, asked: int = 2) -> list[str]:
        """Return one line per difference.

        Args:
            texts: SQL expressions over the tuples.
            per_job: Expressions in one job.
            asked: Failing tuples per expression about which Spark is asked.
        """
        found: list[str] = []
        expressions = [bound(text) for text in texts]
        for at in range(0, len(texts), per_job):
            some, bounds = texts[at : at + per_job], expressions[at : at + per_job]
            found += self.types(some, bounds)
            ours = self.outcomes(bounds)
            for text, expression, outcome in zip(some, bounds, ours, strict=True):
                if outcome.errors and not can_fail(expression):
                    found.append(f"{text}: fails on {sorted(outcome.errors)} though it cannot")
            found += self._values(some, ours)
            for text, outcome in zip(some, ours, strict=True):
                found += [
                    f"{text}: fails on {row}, Spark does not"
                    for row in sorted(outcome.errors)[:asked]
                    if not self.raises(text, row)
                ]
        return found

    def check_nodes(
        self, nodes: Mapping[str, tuple[Outcome, frozenset[int]]], *, asked: int = 1
    ) -> list[str]:
        """Return differences to Spark on tuples on which no part of an expression failed.

        Args:
            nodes: By text, what our columns gave and the tuples on which some part failed.
            asked: Failing tuples per expression about which Spark is asked.
        """
        found: list[str] = []
        texts = list(nodes)
        for at in range(0, len(texts), 80):
            some = texts[at : at + 80]
            ours = [
                Outcome(nodes[text][0].values, nodes[text][0].errors | nodes[text][1])
                for text in some
            ]
            found += self._values(some, ours)
        for text, (outcome, below) in nodes.items():
            found += [
                f"{text}: fails on {row}, Spark does not"
                for row in sorted(outcome.errors - below)[:asked]
                if not self.raises(text, row)
            ]
        return found

    def outcomes(
        self, expressions: Iterable[Expression], *, generated: bool = True
    ) -> list[Outcome]:
        """Return what our columns give, in one job that must not raise.

        Args:
            expressions: What to evaluate.
            generated: Whether by generated code, as in a run.
        """
        columns: list[SparkColumn] = []
        for index, expression in enumerate(expressions):
            made = compile_expression(expression, resolve)
            error = F.lit(False) if made.error is None else made.error
            columns += [made.value.alias(f"v{index}"), error.alias(f"e{index}")]
        frame = self.frame if generated else self._theirs
        table = frame.select("id", *columns).toArrow().sort_by("id")
        return [
            Outcome(
                plain(table.column(f"v{index}")),
                frozenset(i for i, bad in enumerate(_sure(table.column(f"e{index}"))) if bad),
            )
            for index in range(len(columns) // 2)
        ]

    def raises(self, text: str, row: int) -> bool:
        """Whether Spark raises when it evaluates a text on one tuple."""
        try:
            self._alone[row].select(F.expr(text)).collect()
        except PySparkException:
            return True
        return False

    def types(self, texts: Sequence[str], expressions: Sequence[Expression]) -> Iterator[str]:
        """Yield differences between bound types, compiled ones and those of Spark."""
        compiled = [compile_expression(e, resolve).value for e in expressions]
        ours = self.frame.select(*(c.alias(f"v{i}") for i, c in enumerate(compiled))).schema
        theirs = self._theirs.select(
            *(F.expr(text).alias(f"v{i}") for i, text in enumerate(texts))
        ).schema
        for text, expression, made, spark in zip(texts, expressions, ours, theirs, strict=True):
            wanted = to_spark(expression.type)
            if made.dataType != wanted:
                yield f"{text}: compiled to {made.dataType}, bound as {expression.type}"
            if spark.dataType != wanted:
                yield f"{text}: Spark has {spark.dataType}, bound as {expression.type}"

    def _values(self, texts: Sequence[str], ours: Sequence[Outcome]) -> list[str]:
        try:
            theirs = self._spark_values(texts, ours)
        except PySparkException as exc:
            if len(texts) == 1:
                return [f"{texts[0]}: Spark raises where we do not: {str(exc).splitlines()[0]}"]
            return [
                line
                for text, outcome in zip(texts, ours, strict=True)
                for line in self._values([text], [outcome])
            ]
        return [
            f"{text}: tuple {row} gives {a!r}, Spark {b!r}"
            for text, outcome, values in zip(texts, ours, theirs, strict=True)
            for row, (a, b) in enumerate(zip(outcome.values, values, strict=True))
            if row not in outcome.errors and not same(a, b)
        ]

    def _spark_values(self, texts: Sequence[str], ours: Sequence[Outcome]) -> list[list[Any]]:
        columns = []
        for index, (text, outcome) in enumerate(zip(texts, ours, strict=True)):
            value = F.expr(text)
            if outcome.errors:
                value = F.when(~F.col("id").isin(*sorted(outcome.errors)), value)
            columns.append(value.alias(f"v{index}"))
        table = self._theirs.select("id", *columns).toArrow().sort_by("id")
        return [plain(table.column(f"v{index}")) for index in range(len(texts))]


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Return Python values; instants and days as numbers, which have no smallest year."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return list(column.to_pylist())


def same(a: Any, b: Any) -> bool:
    """Whether two values are one: NaN is NaN, zeros are told apart by their sign."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return type(a) is type(b) and a == b


def _sure(column: pa.ChunkedArray) -> list[bool]:
    values: list[bool] = column.to_pylist()
    if None in values:
        raise AssertionError("an error column is NULL")
    return values
