"""Syntax to bound expressions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from tests.graph.sample import bound, raw

from evenflow.errors import QueryError
from evenflow.model import types as t
from evenflow.model.expression import Case, Cast, Column, Literal, children
from evenflow.model.schema import parse_type

BIG = Decimal(12345678901234567890123456789012345678)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("KWH", ("kwh",)),
        ("readings.kwh", ("kwh",)),
        ("At.X", ("at", "x")),
        ("readings.at.place.CITY", ("at", "place", "city")),
        ("`kwh`", ("kwh",)),
    ],
)
def test_names_are_found_in_any_case(text: str, path: tuple[str, ...]) -> None:
    found = raw(text)
    assert isinstance(found, Column)
    assert found.path == path


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("kwh > 1", "BOOLEAN"),
        ("n + small", "INT"),
        ("n / 2", "DOUBLE"),
        ("price * 2", "DECIMAL(12,2)"),
        ("price * 1.5", "DECIMAL(13,3)"),
        ("kwh * 1.5", "DOUBLE"),
        ("price + n", "DECIMAL(13,2)"),
        ("n % 7", "INT"),
        ("-tiny", "TINYINT"),
        ("case when valid then 1 else 2.5 end", "DECIMAL(11,1)"),
        ("case n when 1 then 'a' end", "STRING"),
        ("coalesce(n, id)", "BIGINT"),
        ("nvl(day, seen)", "TIMESTAMP"),
        ("if(valid, n, NULL)", "INT"),
        ("nullif(n, 0)", "INT"),
        ("meter || '-' || district", "STRING"),
        ("to_date(ts)", "DATE"),
        ("date_trunc('HOUR', ts)", "TIMESTAMP"),
        ("n::string", "STRING"),
        ("mod(id, 10)", "BIGINT"),
        ("pow(n, 2)", "DOUBLE"),
        ("log(kwh)", "DOUBLE"),
        ("char_length(meter)", "INT"),
        ("substr(meter, 1, 2)", "STRING"),
        ("replace(meter, 'a')", "STRING"),
        ("dayofmonth(ts)", "INT"),
        ("greatest(n, kwh)", "DOUBLE"),
        ("valid is not true", "BOOLEAN"),
        ("at is null", "BOOLEAN"),
        ("at", "STRUCT<x: INT, place: STRUCT<city: STRING>>"),
    ],
)
def test_expressions_have_the_types_of_spark(text: str, result: str) -> None:
    assert bound(text).type == parse_type(result)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("day = '2026-05-01'", date(2026, 5, 1)),
        ("'2026-05-01 10:00' = ts", datetime(2026, 5, 1, 10, tzinfo=UTC)),
        ("day = TIMESTAMP '2026-05-01 10:00'", datetime(2026, 5, 1, 10, tzinfo=UTC)),
    ],
)
def test_a_text_beside_a_moment_is_read_when_the_query_is_built(text: str, value: object) -> None:
    assert value in [getattr(part, "value", None) for part in getattr(bound(text), "arguments", ())]


def test_texts_in_a_list_beside_a_moment_are_read_too() -> None:
    assert str(bound("day IN ('2026-01-02', '2026-01-01')")) == "in(day, 2026-01-01, 2026-01-02)"


def test_conversions_are_explicit() -> None:
    assert bound("n + id") == bound("CAST(n AS BIGINT) + id")
    assert Cast(Column(("n",), t.INT), t.BIGINT) in getattr(bound("n + id"), "arguments", ())


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("cast(1 as bigint)", Literal(1, t.BIGINT)),
        ("cast('2026-01-01' as date)", Literal(date(2026, 1, 1), t.DATE)),
        ("cast(NULL as int)", Literal(None, t.INT)),
        (
            "-(12345678901234567890123456789012345678)",
            Literal(BIG.copy_negate(), t.DecimalType(38, 0)),
        ),
        ("1.50::decimal(5,2)", Literal(Decimal("1.50"), t.DecimalType(5, 2))),
        ("cast(12 as string)", Literal("12", t.STRING)),
    ],
)
def test_conversions_of_literals_are_folded(text: str, literal: Literal) -> None:
    assert bound(text) == literal


@pytest.mark.parametrize("text", ["cast('x' as int)", "cast(1.5 as int)", "cast(300 as tinyint)"])
def test_conversions_that_could_fail_stay(text: str) -> None:
    assert isinstance(bound(text), Cast)


def test_case_with_a_subject_compares_it() -> None:
    assert bound("case n when 1 then 'a' end") == bound("case when n = 1 then 'a' end")


def test_if_and_nullif_are_cases() -> None:
    assert isinstance(bound("if(valid, 1, 2)"), Case)
    assert bound("nullif(n, 0)") == bound("case when n = 0 then NULL else n end")


def test_a_chain_of_conditions_is_not_deep() -> None:
    assert len(children(bound(" AND ".join(f"n <> {i}" for i in range(300))))) == 300


def test_text_that_is_written_once_and_used_twice_is_counted_twice() -> None:
    text = "n"
    for _ in range(40):
        text = f"nullif({text}, 1)"
    with pytest.raises(QueryError) as caught:
        bound(text)
    assert caught.value.code == "sql.limit"


def test_an_expression_of_too_many_levels_is_refused() -> None:
    with pytest.raises(QueryError) as caught:
        bound("+".join(["n"] * 120))
    assert caught.value.code == "sql.limit"
