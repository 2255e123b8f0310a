"""The catalogue: types as in Spark's ANSI mode, and what can raise."""

from __future__ import annotations

from decimal import Decimal

import pytest

from evenflow.errors import QueryError
from evenflow.model import types as t
from evenflow.model.coercion import as_decimal, can_cast, common, convert
from evenflow.model.expression import AggregateCall, Call, Case, Cast, Column, Expression, Literal
from evenflow.model.functions import (
    AGGREGATES,
    FUNCTIONS,
    aggregate_can_fail,
    aggregate_type,
    can_fail,
    is_dear,
    signature,
)
from evenflow.model.schema import parse_type

NULL = Literal(None, t.NULL)


def column(type_: str) -> Column:
    return Column(("c",), parse_type(type_))


def call(name: str, *arguments: Expression) -> Call:
    found = signature(name, arguments)
    converted = tuple(convert(a, k) for a, k in zip(arguments, found.arguments, strict=True))
    return Call(name, converted, found.result)


@pytest.mark.parametrize(
    ("left", "name", "right", "result"),
    [
        ("INT", "+", "BIGINT", "BIGINT"),
        ("TINYINT", "*", "SMALLINT", "SMALLINT"),
        ("INT", "/", "INT", "DOUBLE"),
        ("INT", "%", "INT", "INT"),
        ("DOUBLE", "-", "DECIMAL(10,2)", "DOUBLE"),
        ("BIGINT", "/", "DOUBLE", "DOUBLE"),
        ("DECIMAL(10,2)", "+", "DECIMAL(5,1)", "DECIMAL(11,2)"),
        ("DECIMAL(10,2)", "-", "DECIMAL(10,4)", "DECIMAL(13,4)"),
        ("DECIMAL(10,2)", "*", "DECIMAL(5,1)", "DECIMAL(16,3)"),
        ("DECIMAL(10,2)", "/", "DECIMAL(5,1)", "DECIMAL(17,8)"),
        ("DECIMAL(10,2)", "%", "DECIMAL(5,1)", "DECIMAL(6,2)"),
        ("DECIMAL(38,10)", "+", "DECIMAL(38,10)", "DECIMAL(38,9)"),
        ("DECIMAL(38,18)", "*", "DECIMAL(38,18)", "DECIMAL(38,6)"),
        ("DECIMAL(38,18)", "/", "DECIMAL(38,18)", "DECIMAL(38,6)"),
        ("DECIMAL(20,2)", "/", "DECIMAL(20,2)", "DECIMAL(38,18)"),
        ("DECIMAL(10,2)", "+", "INT", "DECIMAL(13,2)"),
        ("BIGINT", "*", "DECIMAL(10,2)", "DECIMAL(31,2)"),
    ],
)
def test_arithmetic_has_the_types_of_spark(left: str, name: str, right: str, result: str) -> None:
    assert call(name, column(left), column(right)).type == parse_type(result)


def test_an_integer_literal_beside_a_decimal_counts_its_digits() -> None:
    assert call("*", column("DECIMAL(10,2)"), Literal(100, t.INT)).type == t.DecimalType(14, 2)


def test_a_converted_literal_is_folded() -> None:
    made = call("<", column("DOUBLE"), Literal(8, t.INT))
    assert made.arguments[1] == Literal(8.0, t.DOUBLE)


@pytest.mark.parametrize(
    ("types", "result"),
    [
        (["INT", "DOUBLE"], "DOUBLE"),
        (["DATE", "TIMESTAMP"], "TIMESTAMP"),
        (["DECIMAL(10,2)", "DECIMAL(12,0)"], "DECIMAL(14,2)"),
        (["DECIMAL(38,8)", "DECIMAL(38,6)"], "DECIMAL(38,6)"),
        (["DECIMAL(10,2)", "BIGINT"], "DECIMAL(22,2)"),
        (["TINYINT", "SMALLINT", "INT"], "INT"),
    ],
)
def test_values_meet_in_the_wider_type(types: list[str], result: str) -> None:
    assert common(map(parse_type, types)) == parse_type(result)


@pytest.mark.parametrize(
    "types", [["STRING", "INT"], ["BOOLEAN", "INT"], ["DATE", "BIGINT"], ["STRING", "TIMESTAMP"]]
)
def test_text_and_numbers_never_meet(types: list[str]) -> None:
    assert common(map(parse_type, types)) is None


@pytest.mark.parametrize(
    ("name", "argument", "result"),
    [
        ("ceil", "INT", "BIGINT"),
        ("ceil", "DOUBLE", "BIGINT"),
        ("floor", "DECIMAL(10,2)", "DECIMAL(9,0)"),
        ("floor", "DECIMAL(10,0)", "DECIMAL(10,0)"),
        ("round", "DECIMAL(10,2)", "DECIMAL(9,0)"),
        ("round", "INT", "INT"),
        ("round", "DOUBLE", "DOUBLE"),
        ("abs", "SMALLINT", "SMALLINT"),
        ("neg", "DECIMAL(5,2)", "DECIMAL(5,2)"),
        ("sign", "DECIMAL(5,2)", "DOUBLE"),
        ("sqrt", "INT", "DOUBLE"),
        ("length", "STRING", "INT"),
        ("year", "TIMESTAMP", "INT"),
        ("hour", "DATE", "INT"),
        ("unix_millis", "TIMESTAMP", "BIGINT"),
        ("is_null", "STRUCT<a: INT>", "BOOLEAN"),
    ],
)
def test_functions_have_the_types_of_spark(name: str, argument: str, result: str) -> None:
    assert call(name, column(argument)).type == parse_type(result)


def test_round_of_a_decimal_keeps_the_digits_asked_for() -> None:
    made = call("round", column("DECIMAL(10,4)"), Literal(2, t.INT))
    assert made.type == t.DecimalType(9, 2)


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("+", ("STRING", "INT"), "type.mismatch"),
        ("=", ("STRING", "INT"), "type.mismatch"),
        ("=", ("STRUCT<a: INT>", "STRUCT<a: INT>"), "type.mismatch"),
        ("upper", ("INT",), "type.mismatch"),
        ("substring", ("STRING", "BIGINT"), "type.mismatch"),
        ("and", ("BOOLEAN", "INT"), "type.mismatch"),
        ("year", ("STRING",), "type.mismatch"),
        ("coalesce", ("STRING", "DATE"), "type.mismatch"),
        ("coalesce", (), "function.arguments"),
        ("greatest", ("INT",), "function.arguments"),
        ("sqrt", ("INT", "INT"), "function.arguments"),
        ("like", ("STRING", "STRING"), "function.arguments"),
        ("round", ("DOUBLE", "INT"), "function.arguments"),
        ("date_trunc", ("STRING", "TIMESTAMP"), "function.arguments"),
    ],
)
def test_wrong_arguments_are_refused(name: str, arguments: tuple[str, ...], code: str) -> None:
    with pytest.raises(QueryError) as caught:
        signature(name, tuple(map(column, arguments)))
    assert caught.value.code == code


@pytest.mark.parametrize(("pattern", "escape"), [("a\\", "\\"), ("a\\b", "\\"), ("a", "ab")])
def test_a_pattern_that_spark_would_refuse_is_refused(pattern: str, escape: str) -> None:
    literals = (Literal(pattern, t.STRING), Literal(escape, t.STRING))
    with pytest.raises(QueryError) as caught:
        signature("like", (column("STRING"), *literals))
    assert caught.value.code == "literal.invalid"


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_null_goes_everywhere_a_value_goes(name: str) -> None:
    if name in ("date_trunc", "greatest", "least", "coalesce", "round", "delay"):
        return
    count = max(FUNCTIONS[name].minimum, 1)
    assert signature(name, (NULL,) * count).result != t.NULL


@pytest.mark.parametrize(
    ("name", "argument", "result"),
    [
        ("count", "STRING", "BIGINT"),
        ("sum", "TINYINT", "BIGINT"),
        ("sum", "DOUBLE", "DOUBLE"),
        ("sum", "DECIMAL(10,2)", "DECIMAL(20,2)"),
        ("sum", "DECIMAL(30,2)", "DECIMAL(38,2)"),
        ("avg", "INT", "DOUBLE"),
        ("avg", "DECIMAL(10,2)", "DECIMAL(14,6)"),
        ("avg", "DECIMAL(38,20)", "DECIMAL(38,24)"),
        ("min", "DATE", "DATE"),
        ("max", "STRING", "STRING"),
        ("stddev", "INT", "DOUBLE"),
        ("approx_count_distinct", "STRING", "BIGINT"),
    ],
)
def test_aggregates_have_the_types_of_spark(name: str, argument: str, result: str) -> None:
    assert aggregate_type(name, column(argument)).result == parse_type(result)


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_no_aggregate_takes_a_struct(name: str) -> None:
    with pytest.raises(QueryError):
        aggregate_type(name, column("STRUCT<a: INT>"))


@pytest.mark.parametrize("name", ["sum", "avg", "stddev"])
def test_sums_take_numbers_only(name: str) -> None:
    with pytest.raises(QueryError):
        aggregate_type(name, column("STRING"))


WHOLE, B, D, S = column("INT"), column("BIGINT"), column("DOUBLE"), column("STRING")
P = column("DECIMAL(10,2)")
WIDE = column("DECIMAL(38,2)")
TWO = Literal(2, t.INT)


@pytest.mark.parametrize(
    "expression",
    [
        call("=", WHOLE, TWO),
        call("and", call("<", WHOLE, TWO), call("is_null", S)),
        call("concat", S, S),
        call("+", D, D),
        call("*", D, TWO),
        call("/", D, TWO),
        call("%", WHOLE, TWO),
        call("+", P, P),
        call("*", P, P),
        call("/", P, TWO),
        call("neg", P),
        call("abs", D),
        call("+", call("%", B, Literal(100, t.BIGINT)), Literal(1, t.BIGINT)),
        call("*", Cast(WHOLE, t.BIGINT), Literal(2, t.BIGINT)),
        call("round", P),
        call("+", call("*", call("%", B, Literal(9, t.BIGINT)), Literal(2, t.BIGINT)), TWO),
        Cast(column("BOOLEAN"), P.type),
        Cast(WHOLE, t.BIGINT),
        Cast(WHOLE, t.DOUBLE),
        Cast(WHOLE, t.DecimalType(10, 0)),
        Cast(D, t.STRING),
        Cast(P, t.BIGINT),
        Cast(P, t.DecimalType(12, 2)),
        Cast(column("DATE"), t.TIMESTAMP),
        Cast(column("TIMESTAMP"), t.BIGINT),
        Cast(WHOLE, t.BOOLEAN),
        Case(((call("=", WHOLE, TWO), S),), None, t.STRING),
        call("power", WHOLE, TWO),
    ],
    ids=str,
)
def test_what_cannot_raise_is_known(expression: Expression) -> None:
    assert not can_fail(expression)


@pytest.mark.parametrize(
    "expression",
    [
        call("/", D, D),
        call("/", WHOLE, Literal(0, t.INT)),
        call("%", WHOLE, WHOLE),
        call("%", WHOLE, Literal(0, t.INT)),
        call("+", WHOLE, TWO),
        call("-", B, B),
        call("neg", WHOLE),
        call("abs", B),
        call("+", WIDE, WIDE),
        call("*", WIDE, P),
        call("/", WIDE, TWO),
        Cast(S, t.INT),
        Cast(S, t.BOOLEAN),
        Cast(S, t.TIMESTAMP),
        Cast(D, t.BIGINT),
        Cast(D, P.type),
        Cast(B, t.INT),
        Cast(P, t.TINYINT),
        Cast(P, t.DecimalType(9, 2)),
        Cast(P, t.DecimalType(9, 1)),
        Cast(B, t.DecimalType(10, 0)),
        Cast(B, t.TIMESTAMP),
        Cast(column("TIMESTAMP"), t.INT),
        Case(((call("=", WHOLE, TWO), call("+", WHOLE, WHOLE)),), None, t.INT),
        call("and", call("=", call("%", WHOLE, WHOLE), TWO), call("is_null", S)),
    ],
    ids=str,
)
def test_what_can_raise_is_known(expression: Expression) -> None:
    assert can_fail(expression)


def test_a_sum_of_integers_can_overflow_and_one_of_doubles_cannot() -> None:
    assert aggregate_can_fail(AggregateCall("sum", WHOLE, None, t.BIGINT))
    assert not aggregate_can_fail(AggregateCall("sum", D, None, t.DOUBLE))
    assert not aggregate_can_fail(AggregateCall("count", None, None, t.BIGINT))


@pytest.mark.parametrize(
    ("value", "type_", "found"),
    [
        (5, "DECIMAL(3,2)", "5.00"),
        (Decimal("1.5"), "DECIMAL(3,2)", "1.50"),
        (Decimal("1.50"), "DECIMAL(2,1)", "1.5"),
        (Decimal("1.55"), "DECIMAL(2,1)", None),
        (100, "DECIMAL(2,0)", None),
        (0, "DECIMAL(2,2)", "0.00"),
        (-7, "DECIMAL(38,0)", "-7"),
        (1, "DECIMAL(38,38)", None),
    ],
)
def test_numbers_become_decimals_only_where_that_is_exact(
    value: int | Decimal, type_: str, found: str | None
) -> None:
    wanted = parse_type(type_)
    assert isinstance(wanted, t.DecimalType)
    made = as_decimal(value, wanted)
    assert (None if made is None else str(made)) == found


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("DATE", "INT", False),
        ("INT", "DATE", False),
        ("BOOLEAN", "TIMESTAMP", False),
        ("TIMESTAMP", "BOOLEAN", False),
        ("BOOLEAN", "INT", True),
        ("STRING", "DATE", True),
        ("DATE", "STRING", True),
        ("TIMESTAMP", "DATE", True),
        ("BIGINT", "TIMESTAMP", True),
        ("STRUCT<a: INT>", "STRING", False),
    ],
)
def test_casts_are_those_of_ansi_mode(source: str, target: str, allowed: bool) -> None:
    assert can_cast(parse_type(source), parse_type(target)) is allowed


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [(300, t.INT, t.TINYINT), (2**60 + 1, t.BIGINT, t.DOUBLE), ("x", t.STRING, t.DATE)],
)
def test_a_cast_that_is_not_exact_is_left_to_the_run(
    value: int | str, source: t.DataType, target: t.DataType
) -> None:
    assert convert(Literal(value, source), target) == Cast(Literal(value, source), target)


@pytest.mark.parametrize(
    "settings",
    [
        (column("DOUBLE"), Literal(1.0, t.DOUBLE)),
        (Literal(-1, t.INT), Literal(1.0, t.DOUBLE)),
        (Literal(20, t.INT), Literal(1.5, t.DOUBLE)),
        (Literal(2_000_000, t.INT), Literal(1, t.INT)),
        (Literal("20", t.STRING), Literal(1, t.INT)),
    ],
)
def test_a_delay_is_given_as_literals(settings: tuple[Literal, Literal]) -> None:
    with pytest.raises(QueryError) as caught:
        signature("delay", (column("BIGINT"), *settings))
    assert caught.value.code == "function.arguments"
    given = (column("INT"), Literal(20, t.INT), Literal(0.5, t.DOUBLE))
    assert signature("delay", given).result == t.BOOLEAN


@pytest.mark.parametrize(
    ("expression", "dear"),
    [
        (call("<", column("DOUBLE"), Literal(1.0, t.DOUBLE)), False),
        (call("=", column("STRING"), Literal("a", t.STRING)), False),
        (call("=", call("%", column("INT"), Literal(3, t.INT)), Literal(0, t.INT)), False),
        (call("like", column("STRING"), Literal("a%", t.STRING)), True),
        (call("not", call("=", call("upper", column("STRING")), Literal("A", t.STRING))), True),
        (Cast(column("INT"), t.BIGINT), False),
        (Cast(column("STRING"), t.TIMESTAMP), True),
    ],
)
def test_what_gates_spare(expression: Expression, dear: bool) -> None:
    assert is_dear(expression) is dear
