"""Types and literals: what we bind, what Spark makes of it, and every CAST that may be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evenflow.model import types as t
from evenflow.model.coercion import can_cast
from evenflow.spark.session import own_session
from tests.spark.expression_check import SCHEMA, Checker, bound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGETS = (
    t.BOOLEAN,
    t.TINYINT,
    t.SMALLINT,
    t.INT,
    t.BIGINT,
    t.DOUBLE,
    t.DecimalType(3, 1),
    t.DecimalType(10, 2),
    t.DecimalType(38, 0),
    t.DecimalType(38, 18),
    t.DecimalType(4, 4),
    t.STRING,
    t.DATE,
    t.TIMESTAMP,
)
BEYOND = (("wide", t.TIMESTAMP), ("whole", t.TIMESTAMP))
LITERALS = (
    "0",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "12345678901234567890123456789012345678",
    "1L",
    "2S",
    "3Y",
    "4D",
    "5BD",
    "1.50",
    ".5",
    "5.",
    "0.00",
    "1e3",
    "1.5E-3",
    "'text'",
    "'it''s'",
    "''",
    "true",
    "FALSE",
    "date '2026-05-01'",
    "timestamp '2026-05-01 10:30:00.123456'",
    "timestamp '2026-05-01T10:30:00+02:00'",
    "cast(null as decimal(7,3))",
    "cast(1 as double)",
    "cast(1.25 as decimal(10,4))",
    "cast('2026-02-03' as date)",
    "cast('12' as int)",
    "cast(12.5 as string)",
    "cast(1e20 as string)",
    "cast(true as int)",
)


@pytest.fixture(scope="module")
def checker(spark: SparkSession) -> Checker:
    return Checker(own_session(spark))


def test_literals_have_the_types_and_values_of_spark(checker: Checker) -> None:
    assert not checker.check(LITERALS, per_job=len(LITERALS))


@pytest.mark.parametrize("targets", [TARGETS[:6], TARGETS[6:11], TARGETS[11:]])
def test_every_cast_equals_that_of_spark(checker: Checker, targets: tuple[t.DataType, ...]) -> None:
    texts = [
        f"CAST({field.name} AS {target})"
        for target in targets
        for field in SCHEMA
        # Seconds beyond all instants are nonsense in Spark, and another one in generated code.
        if can_cast(field.type, target) and (field.name, target) not in BEYOND
    ]
    assert {bound(text).type for text in texts} == set(targets)
    assert not checker.check(texts, per_job=60, asked=1)


def test_casts_of_computed_values_keep_their_errors(checker: Checker) -> None:
    texts = [
        "cast(n % 100 as tinyint)",
        "cast(n % 1000 as tinyint)",
        "cast(cast(text as int) as string)",
        "cast(n / m as int)",
        "cast(cent as decimal(4,1))",
        "cast(round(x) as bigint)",
        "cast(cast(big as double) as bigint)",
        "cast(cast(ts as bigint) as int)",
        "cast(cast(day as timestamp) as date)",
        "cast(cast(x as string) as double)",
        "cast(share * 100 as int)",
        "text::int",
        "cent / cast(-7 as smallint)",
        "cent * cast(7 as int)",
        "cast(place.zone as string)",
    ]
    assert not checker.check(texts)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
def test_decimal_arithmetic_has_the_types_and_values_of_spark(
    checker: Checker, operator: str
) -> None:
    decimals = ["cent", "rate", "wide", "whole", "share"]
    texts = [
        f"{left} {operator} {right}"
        for left in decimals
        for right in [*decimals, "tiny", "big", "3", "0.25"]
    ]
    texts += [f"{left} {operator} {right}" for left in ("n", "100L") for right in decimals]
    assert not checker.check(texts, per_job=60, asked=1)


@pytest.mark.parametrize("operator", ["<=>", "<"])
def test_values_of_different_types_meet_as_in_spark(checker: Checker, operator: str) -> None:
    numbers = ["tiny", "n", "big", "x", "cent", "rate", "wide", "whole", "share", "3", "0.25"]
    texts = [
        f"{left} {operator} {right}" for i, left in enumerate(numbers) for right in numbers[i:]
    ]
    texts += [f"day {operator} ts", f"day {operator} '2026-01-31'", f"s {operator} text"]
    texts += [f"ts {operator} '1970-01-01'", f"flag {operator} other", f"s {operator} 'abc'"]
    assert not checker.check([x for x in texts if x != f"3 {operator} 3"], per_job=80, asked=1)


def test_bound_types_of_null_and_choices(checker: Checker) -> None:
    texts = [
        "coalesce(tiny, n)",
        "coalesce(null, cent, n)",
        "coalesce(cent, x)",
        "greatest(cent, rate)",
        "least(tiny, small, big)",
        "greatest(day, ts)",
        "case when flag then 1 else big end",
        "case when flag then cent when other then rate end",
        "case when flag then null else s end",
        "case n when 1 then 'one' when 42 then 'more' end",
        "if(flag, n, x)",
        "nullif(n, 0)",
        "nvl(s, 'none')",
        "n + null",
        "n = null",
        "null <=> n",
        "cast(null as int) is null",
        "(null and flag) is null",
        "case when place.zone > 0 then place.city end",
    ]
    assert not checker.check(texts)
    assert bound("coalesce(null, cent, n)").type == t.DecimalType(12, 2)
