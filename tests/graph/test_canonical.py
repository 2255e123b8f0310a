"""The canonical form: what is equal becomes equal, and nothing changes its value."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.sample import bound, raw

from evenflow.graph.canonical import canonical, canonical_text
from evenflow.model import types as t
from evenflow.model.expression import FALSE, TRUE, Call, Case, Cast, Column, Expression, Literal


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("n > 1 AND kwh < 2", "(KWH < 2) and (N > 1)"),
        ("n >= 1", "1 <= n"),
        ("n <> 1", "NOT (1 = n)"),
        ("n != 1", "n <> 1"),
        ("n BETWEEN 1 AND 5", "n <= 5 AND n >= 1"),
        ("NOT n BETWEEN 1 AND 5", "n NOT BETWEEN 1 AND 5"),
        ("n IN (3, 1, 2, 1)", "n IN (1, 2, 3)"),
        ("n IN (7)", "7 = n"),
        ("n + id", "id + n"),
        ("n * 2", "2 * n"),
        ("NOT NOT valid", "valid"),
        ("valid AND (n = 1 AND kwh = 2)", "(kwh = 2 AND valid) AND n = 1"),
        ("valid AND valid", "valid"),
        ("valid OR valid OR n = 1", "n = 1 OR valid"),
        ("n > 2 + 3 * 4", "n > 14"),
        ("n = -(-1)", "n = 1"),
        ("kwh = -(1.5D)", "kwh = -1.5D"),
        ("price = -(1.5)", "price = -1.5"),
        ("price = -(0.0)", "price = -0.0"),
        ("n = 7 % -4", "n = 3"),
        ("n = -7 % 4", "n = -3"),
        ("valid AND 1 = 1", "valid"),
        ("valid OR 2 < 1", "valid"),
        ("n / 0 > 1 AND 1 > 2", "FALSE"),
        ("TRUE OR n % 0 = 1", "TRUE"),
        ("n IS NOT DISTINCT FROM NULL", "n IS NULL"),
        ("n IS NOT DISTINCT FROM id", "id <=> n"),
        ("coalesce(n)", "n"),
        ("case when 1 = 2 then 1 else n end", "n"),
        ("case when valid then n when true then 1 else 2 end", "if(valid, n, 1)"),
        ("case when valid then n else NULL end", "case when valid then n end"),
        ("round(kwh, 0)", "round(kwh)"),
        ("kwh > 1.5", "kwh > 1.5D"),
        ("kwh > 1", "kwh > 1e0"),
        ("ltrim(meter) LIKE 'a%' ESCAPE '\\\\'", "ltrim(meter) LIKE 'a%'"),
        ("date_trunc('MON', ts)", "date_trunc('month', ts)"),
        ("meter || 'x'", "concat(meter, 'x')"),
        ("5 IN (1, 5)", "TRUE"),
        ("5 IN (1, NULL)", "CAST(NULL AS BOOLEAN)"),
        ("'b' > 'a'", "TRUE"),
        ("NULL = 1", "CAST(NULL AS BOOLEAN)"),
        ("NULL IS NULL", "TRUE"),
    ],
)
def test_what_means_the_same_is_the_same(left: str, right: str) -> None:
    assert bound(left) == bound(right)
    assert canonical_text(bound(left)) == canonical_text(bound(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("NOT kwh < 1", "kwh >= 1"),
        ("(kwh + 1e0) + 2e0", "kwh + (1e0 + 2e0)"),
        ("n - id", "id - n"),
        ("n < id", "id < n"),
        ("kwh / 2", "kwh * 0.5D"),
        ("n = NULL", "n IS NULL"),
        ("valid AND NULL", "FALSE"),
        ("concat(meter, 'x')", "concat('x', meter)"),
        ("meter = 'A'", "meter = 'a'"),
        ("n + 1", "n + 1L"),
    ],
)
def test_what_may_differ_stays_different(left: str, right: str) -> None:
    assert bound(left) != bound(right)


@pytest.mark.parametrize("text", ["1 / 0", "1 % 0", "2147483647 + 1", "-2147483648 - 1", "1 / 2"])
def test_what_would_raise_or_round_is_not_folded(text: str) -> None:
    assert not isinstance(bound(text), Literal)


@pytest.mark.parametrize(
    "text", ["n > 1 AND (valid OR n IN (2, 1)) AND NOT kwh = 2", "case when n = 1 then id end"]
)
def test_the_canonical_form_is_its_own(text: str) -> None:
    assert canonical(bound(text)) == bound(text)


# The property: a random expression and its canonical form have the same value on every tuple, with
# NULL, and with errors, which FALSE AND error and TRUE OR error swallow.

Row = Mapping[str, object]
ERROR = "error"


def junction(values: list[object], ends: bool) -> object:
    if any(value is ends for value in values):
        return ends
    if ERROR in values:
        return ERROR
    return None if None in values else not ends


def compared(function: str, left: object, right: object) -> object:
    if function == "<=>":
        return left == right
    if left is None or right is None:
        return None
    assert isinstance(left, int)
    assert isinstance(right, int)
    return {"=": left == right, "<": left < right, "<=": left <= right}[function]


def arithmetic(function: str, left: object, right: object) -> object:
    if left is None or right is None:
        return None
    assert isinstance(left, int)
    assert isinstance(right, int)
    if function == "%":
        remainder = abs(left) % abs(right) if right else 0
        return ERROR if right == 0 else remainder if left >= 0 else -remainder
    return {"+": left + right, "-": left - right, "*": left * right}[function]


def evaluate(expression: Expression, row: Row) -> object:
    match expression:
        case Column(path=(name,)):
            return row[name]
        case Literal(value=value):
            return value
        case Case(branches=branches, otherwise=otherwise):
            for when, then in branches:
                condition = evaluate(when, row)
                if condition == ERROR:
                    return ERROR
                if condition is True:
                    return evaluate(then, row)
            return None if otherwise is None else evaluate(otherwise, row)
        case Call(function=function, arguments=arguments):
            return applied(function, [evaluate(a, row) for a in arguments])
        case Cast() | Column():
            raise AssertionError("not generated")


def applied(function: str, values: list[object]) -> object:
    if function in ("and", "or"):
        return junction(values, ends=function == "or")
    if ERROR in values:
        return ERROR
    match function:
        case "not":
            return None if values[0] is None else not values[0]
        case "is_null":
            return values[0] is None
        case "in":
            return junction([compared("=", values[0], each) for each in values[1:]], ends=True)
        case "=" | "<" | "<=" | "<=>":
            return compared(function, *values)
        case _:
            return arithmetic(function, *values)


integers_leaf: st.SearchStrategy[Expression] = st.sampled_from(
    [Column(("a",), t.INT), Column(("b",), t.INT), Literal(None, t.INT)]
    + [Literal(i, t.INT) for i in (-2, 0, 1, 3)]
)
booleans_leaf: st.SearchStrategy[Expression] = st.sampled_from(
    [Column(("p",), t.BOOLEAN), Column(("q",), t.BOOLEAN), TRUE, FALSE, Literal(None, t.BOOLEAN)]
)
integers = st.deferred(
    lambda: (
        integers_leaf
        | st.builds(
            lambda f, x, y: Call(f, (x, y), t.INT),
            st.sampled_from("+-*%"),
            integers_leaf,
            integers_leaf,
        )
        | st.builds(
            lambda c, x, y: Case(((c, x),), y, t.INT), booleans_leaf, integers_leaf, integers_leaf
        )
    )
)


def grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    some = st.lists(inner, min_size=2, max_size=4).map(tuple)
    literals = st.lists(
        st.sampled_from([None, -2, 0, 1, 3]).map(lambda v: Literal(v, t.INT)),
        min_size=1,
        max_size=4,
    )
    return st.one_of(
        st.builds(lambda f, xs: Call(f, xs, t.BOOLEAN), st.sampled_from(["and", "or"]), some),
        st.builds(lambda x: Call("not", (x,), t.BOOLEAN), inner),
        st.builds(lambda x: Call("is_null", (x,), t.BOOLEAN), inner | integers),
        st.builds(
            lambda f, x, y: Call(f, (x, y), t.BOOLEAN),
            st.sampled_from(["=", "<", "<=", "<=>"]),
            integers,
            integers,
        ),
        st.builds(lambda x, ys: Call("in", (x, *ys), t.BOOLEAN), integers, literals),
        st.builds(lambda c, x, y: Case(((c, x),), y, t.BOOLEAN), inner, inner, st.none() | inner),
    )


booleans = st.recursive(booleans_leaf, grown, max_leaves=12)
NUMBERS = (None, 0, 1, -2)
TRUTHS = (None, True, False)
ROWS: list[Row] = [
    {"a": a, "b": b, "p": p, "q": q}
    for a, b, p, q in itertools.product(NUMBERS, NUMBERS, TRUTHS, TRUTHS)
]


@settings(max_examples=300, database=None, deadline=None, derandomize=True)
@given(booleans)
def test_the_canonical_form_keeps_the_value(expression: Expression) -> None:
    made = canonical(expression)
    for row in ROWS:
        assert evaluate(made, row) == evaluate(expression, row), (str(expression), str(made), row)


@settings(max_examples=300, database=None, deadline=None, derandomize=True)
@given(integers)
def test_the_canonical_form_keeps_the_value_of_numbers(expression: Expression) -> None:
    made = canonical(expression)
    for row in ROWS:
        assert evaluate(made, row) == evaluate(expression, row), (str(expression), str(made), row)


@settings(max_examples=200, database=None, deadline=None, derandomize=True)
@given(booleans)
def test_the_canonical_form_is_a_fixed_point(expression: Expression) -> None:
    made = canonical(expression)
    assert canonical(made) == made
    assert canonical_text(made) == canonical_text(expression)


@settings(max_examples=200, database=None, deadline=None, derandomize=True)
@given(st.lists(booleans, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_conditions_does_not_matter(parts: list[Expression], random: object) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first = Call("and", tuple(parts), t.BOOLEAN)
    second = Call("and", tuple(shuffled), t.BOOLEAN)
    assert canonical(first) == canonical(second)


def test_the_raw_form_is_not_touched() -> None:
    before = raw("n > 1 AND kwh < 2")
    canonical(before)
    assert before == raw("n > 1 AND kwh < 2")
