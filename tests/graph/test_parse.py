"""SQL text to syntax."""

from __future__ import annotations

from decimal import Decimal

import pytest

from evenflow.errors import QueryError
from evenflow.graph import syntax as s
from evenflow.graph.parse import parse_expression, parse_item, parse_statement
from evenflow.graph.syntax import default_name
from evenflow.model import types as t


def shape(node: s.Node) -> str:
    """Return the structure of an expression, without positions."""
    match node:
        case s.Name(parts=parts):
            return ".".join(parts)
        case s.Constant(value=value):
            return repr(value)
        case s.Operation(operator=operator, operands=operands):
            return f"({' '.join([operator, *map(shape, operands)])})"
        case s.FunctionCall(name=name, arguments=arguments, condition=condition, star=star):
            inner = "*" if star else ", ".join(map(shape, arguments))
            return f"{name}({inner})" + (f"?{shape(condition)}" if condition else "")
        case s.Conversion(operand=operand, type=type_):
            return f"({type_} {shape(operand)})"
        case s.Member(operand=operand, field=field):
            return f"{shape(operand)}.{field}"
        case s.Choice(operand=operand, branches=branches, otherwise=otherwise):
            shown = [shape(operand)] if operand else []
            shown += [f"{shape(c)}:{shape(v)}" for c, v in branches]
            return f"case({' '.join(shown)} {shape(otherwise) if otherwise else '-'})"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a or b and c", "(or a (and b c))"),
        ("not a and b", "(and (not a) b)"),
        ("not a = b", "(not (= a b))"),
        ("a and b and c", "(and a b c)"),
        ("a + b * c - d", "(- (+ a (* b c)) d)"),
        ("a - b - c", "(- (- a b) c)"),
        ("-a * b", "(* (neg a) b)"),
        ("a - -1", "(- a -1)"),
        ("a -1", "(- a 1)"),
        ("+a", "a"),
        ("a || b || c", "(|| a b c)"),
        ("a || b + c", "(+ (|| a b) c)"),
        ("a < b is null", "(is_null (< a b))"),
        ("a is not null", "(not (is_null a))"),
        ("a is not true", "(not (is_true a))"),
        ("a is distinct from b", "(not (<=> a b))"),
        ("a is not distinct from b", "(<=> a b)"),
        ("a == b", "(= a b)"),
        ("a != b", "(<> a b)"),
        ("a not in (1, 2)", "(not (in a 1 2))"),
        ("a not like 'x%'", "(not (like a 'x%'))"),
        ("a like 'x!%' escape '!'", "(like a 'x!%' '!')"),
        ("a between 1 and 2 and b", "(and (between a 1 2) b)"),
        ("a not between b + 1 and 2 or c", "(or (not (between a (+ b 1) 2)) c)"),
        ("case when a then 1 end", "case(a:1 -)"),
        ("case a when 1 then 2 else 3 end", "case(a 1:2 3)"),
        ("cast(a as decimal(10, 2))", "(DECIMAL(10,2) a)"),
        ("a::int + 1", "(+ (INT a) 1)"),
        ("-1::bigint", "(BIGINT -1)"),
        ("(a)", "a"),
        ("`odd name`.x", "odd name.x"),
        ("window.end", "window.end"),
        ("window(ts, '1 hour').start", "window(ts, '1 hour').start"),
        ("count(*) filter (where a)", "count(*)?a"),
        ("COUNT(a)", "count(a)"),
        ("filter", "filter"),
        ("date", "date"),
    ],
)
def test_operators_bind_as_in_spark(text: str, found: str) -> None:
    assert shape(parse_expression(text)) == found


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("1", 1, t.INT),
        ("2147483648", 2**31, t.BIGINT),
        ("-2147483648", -(2**31), t.INT),
        ("-9223372036854775808", -(2**63), t.BIGINT),
        ("9223372036854775808", Decimal(2**63), t.DecimalType(19, 0)),
        ("1.5", Decimal("1.5"), t.DecimalType(2, 1)),
        ("0.05", Decimal("0.05"), t.DecimalType(2, 2)),
        (".5", Decimal("0.5"), t.DecimalType(1, 1)),
        ("1.", Decimal(1), t.DecimalType(1, 0)),
        ("1.5D", 1.5, t.DOUBLE),
        ("1e3", 1000.0, t.DOUBLE),
        ("-2.5e-1", -0.25, t.DOUBLE),
        ("1e2BD", Decimal(100), t.DecimalType(3, 0)),
        ("7L", 7, t.BIGINT),
        ("7s", 7, t.SMALLINT),
        ("7Y", 7, t.TINYINT),
        ("'it''s'", "it's", t.STRING),
        ("''''", "'", t.STRING),
        ("'a\\nb'", "a\nb", t.STRING),
        ("'50\\%'", "50\\%", t.STRING),
        ('"text"', "text", t.STRING),
        ("NULL", None, t.NULL),
        ("true", True, t.BOOLEAN),
    ],
)
def test_literals_have_the_types_of_spark(text: str, value: object, type_: t.DataType) -> None:
    node = parse_expression(text)
    assert isinstance(node, s.Constant)
    assert (node.value, node.type) == (value, type_)


def test_moments_are_typed_literals() -> None:
    day, instant = parse_expression("DATE '2026-05-01'"), parse_expression("timestamp '2026'")
    assert isinstance(day, s.Constant)
    assert isinstance(instant, s.Constant)
    assert (day.type, instant.type) == (t.DATE, t.TIMESTAMP)


def test_every_part_of_a_statement_is_found() -> None:
    found = parse_statement(
        "SELECT DISTINCT r.*, *, a AS b, c d FROM readings AS r "
        "LEFT OUTER JOIN sites s ON r.a = s.a INNER JOIN other USING (x, y) "
        "WHERE a GROUP BY a, window(ts, '1 hour') HAVING count(*) > 1 "
        "UNION ALL SELECT a FROM b;"
    )
    first, second = found.branches
    assert first.distinct
    assert [item.alias for item in first.items] == [None, None, "b", "d"]
    assert first.source == s.Relation("readings", "r", first.source.position)
    assert [join.kind for join in first.joins] == ["left", "inner"]
    assert [name.parts for name in first.joins[1].using] == [("x",), ("y",)]
    assert len(first.group_by) == 2
    assert first.having is not None
    assert second.source.alias == "b"


def test_positions_are_offsets_into_the_text() -> None:
    text = "SELECT a,\n  b + c AS d\nFROM s WHERE e = 'x'"
    selection = parse_statement(text).branches[0]
    assert [item.position for item in selection.items] == [7, text.index("b +")]
    assert selection.source.position == text.index("s WHERE")
    assert isinstance(selection.where, s.Operation)
    assert [n.position for n in selection.where.operands] == [text.index("e ="), text.index("'x'")]


def test_fifty_levels_are_allowed_and_one_more_is_not() -> None:
    assert parse_expression("(" * 50 + "a" + ")" * 50) == s.Name(("a",), 50)
    with pytest.raises(QueryError) as caught:
        parse_expression("(" * 51 + "a" + ")" * 51)
    assert caught.value.code == "sql.limit"


def test_five_hundred_columns_are_allowed_and_one_more_is_not() -> None:
    columns = [f"a AS c{i}" for i in range(501)]
    assert (
        len(parse_statement(f"SELECT {', '.join(columns[:500])} FROM s").branches[0].items) == 500
    )
    with pytest.raises(QueryError) as caught:
        parse_statement(f"SELECT {', '.join(columns)} FROM s")
    assert caught.value.code == "sql.limit"


def test_five_hundred_items_are_allowed_and_one_more_is_not() -> None:
    items = list(map(str, range(501)))
    assert len(s.children(parse_expression(f"a IN ({', '.join(items[:500])})"))) == 501
    with pytest.raises(QueryError) as caught:
        parse_expression(f"a IN ({', '.join(items)})")
    assert caught.value.code == "sql.limit"


def test_ten_thousand_characters_are_allowed_and_one_more_is_not() -> None:
    assert parse_expression("a" + " " * 9_999) == s.Name(("a",), 0)
    with pytest.raises(QueryError) as caught:
        parse_expression("a" + " " * 10_000)
    assert caught.value.code == "sql.limit"


def test_an_item_may_have_a_name_and_an_expression_may_not() -> None:
    assert parse_item("a + 1 AS b").alias == "b"
    with pytest.raises(QueryError):
        parse_expression("a + 1 AS b")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kwh", "kwh"),
        ("r.kwh", "kwh"),
        ("count(*)", "count(1)"),
        ("sum(r.kwh)", "sum(kwh)"),
        ("kwh * 2", "(kwh * 2)"),
        ("window(ts, '1 hour')", "window"),
        ("window.start", "start"),
        ("a AND NOT b", "(a AND (NOT b))"),
        ("a IN (1, 'x')", "(a IN (1, x))"),
        ("a IS NOT NULL", "(NOT (a IS NULL))"),
        ("cast(a AS int)", "CAST(a AS INT)"),
        ("case a when 1 then true else NULL end", "CASE a WHEN 1 THEN true ELSE NULL END"),
        ("a LIKE 'x' ESCAPE '!'", "a LIKE x ESCAPE !"),
        ("a BETWEEN 1 AND -b", "(a BETWEEN 1 AND (- b))"),
        ("a || b", "concat(a, b)"),
        ("sum(a) FILTER (WHERE b)", "sum(a) FILTER (WHERE b)"),
        ("f(a).b + 1", "(f(a).b + 1)"),
    ],
)
def test_a_column_without_a_name_is_called_as_in_spark(text: str, name: str) -> None:
    assert default_name(parse_expression(text), {"r"}) == name
