"""Every function, operator and rule for errors, against Spark's evaluation of the same text."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from evenflow.errors import QueryError
from evenflow.model.expression import Call, Case, walk
from evenflow.model.functions import FUNCTIONS, can_fail
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.delay import delayed
from evenflow.spark.session import own_session
from tests.spark.expression_check import ROWS, Checker, Outcome, bound, resolve
from tests.spark.random_expression import FORMS, Maker, Tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("EVENFLOW_SEED", "20261115"))
RANDOM = 300

CATALOGUE = {
    "logic": (
        "flag and other",
        "flag or other",
        "not flag",
        "flag and other and n > 0",
        "flag or (other and n > 0) or null",
        "flag is true",
        "flag is not false",
    ),
    "comparisons": (
        "n = m",
        "n <> m",
        "n != 42",
        "n < m",
        "n <= m",
        "n > m",
        "n >= m",
        "n <=> m",
        "x = y",
        "x < y",
        "x = x",
        "not (x < y)",
        "flag < other",
        "s < text",
        "day <= date '2026-01-31'",
        "n is distinct from m",
        "n is not distinct from null",
        "n between 0 and 42",
        "x not between 0 and 2",
        "s between 'A' and 'b'",
        "n in (1, 42, 3)",
        "n in (1, null)",
        "n not in (1, 3)",
        "s in ('abc', '')",
        "tiny in (n, m, 5)",
        "cent in (1.25, 0)",
        "x in (0, 1.5)",
        "day in ('2026-01-31', date '0001-01-01')",
        "place.zone = 1",
        "place.city is null",
        "place is null",
        "s is not null",
    ),
    "text": (
        "s like 'a%'",
        "s like 'a_c'",
        "s like '%\\_%'",
        "s like 'a|_c' escape '|'",
        "s like ''",
        "s like 'a%b'",
        "s not like '%b%'",
        "upper(s)",
        "lower(s)",
        "length(s)",
        "char_length(text)",
        "trim(s)",
        "ltrim(s)",
        "rtrim(s)",
        "substring(s, 2)",
        "substring(s, 0, 2)",
        "substring(s, -2, 2)",
        "substring(s, tiny, small)",
        "substr(s, 1, -1)",
        "concat(s, '-', text)",
        "s || text",
        "concat(s)",
        "replace(s, 'a', 'xx')",
        "replace(s, 'b')",
        "replace(s, '', 'q')",
        "startswith(s, 'a')",
        "endswith(s, 'c')",
        "contains(s, 'b')",
        "contains(s, '')",
        "startswith(s, text)",
    ),
    "arithmetic": (
        "n + m",
        "n - m",
        "n * m",
        "n / m",
        "n % m",
        "mod(n, 3)",
        "tiny + tiny",
        "tiny * 1Y",
        "small - 1S",
        "big + 1",
        "big * n",
        "big % -1L",
        "big / 2",
        "n % 7",
        "n / 0",
        "n % 0",
        "x + y",
        "x - y",
        "x * y",
        "x / y",
        "x % y",
        "x / 2",
        "n + x",
        "cent + x",
        "-n",
        "-tiny",
        "-big",
        "-x",
        "-wide",
        "-(n % 10)",
        "abs(n)",
        "abs(tiny)",
        "abs(big)",
        "abs(x)",
        "abs(wide)",
        "-whole",
        "abs(whole)",
        "n % 100 + 1",
        "n % 46000 * (m % 46000)",
        "2147483647 + 1",
        "1 / 0",
        "n + null",
    ),
    "numbers": (
        "ceil(x)",
        "ceil(n)",
        "ceil(cent)",
        "ceil(wide)",
        "ceil(whole)",
        "ceiling(rate)",
        "floor(x)",
        "floor(big)",
        "floor(cent)",
        "floor(wide)",
        "floor(share)",
        "round(x)",
        "round(y, 1)",
        "round(n)",
        "round(big, 3)",
        "round(tiny, 0)",
        "round(cent)",
        "round(cent, 1)",
        "round(wide)",
        "round(wide, 2)",
        "round(whole)",
        "round(whole, 5)",
        "round(share, 3)",
        "round(rate, 18)",
        "sqrt(x)",
        "sqrt(n)",
        "sqrt(cent)",
        "exp(y)",
        "exp(tiny)",
        "ln(x)",
        "log(y)",
        "log10(n)",
        "power(x, 2)",
        "pow(y, n)",
        "power(cent, share)",
        "sign(x)",
        "sign(n)",
        "signum(cent)",
    ),
    "choices": (
        "greatest(n, m)",
        "greatest(x, y)",
        "greatest(n, x, cent)",
        "greatest(s, text)",
        "least(n, m, 5)",
        "least(x, 0D)",
        "least(day, date '2026-01-01')",
        "coalesce(n, m)",
        "coalesce(n, m, 0)",
        "coalesce(s, text, 'z')",
        "nvl(x, y)",
        "ifnull(flag, false)",
        "nullif(n, 42)",
        "nullif(s, '')",
        "if(n > 0, 'plus', 'minus')",
        "case when n > 0 then 'a' when n < 0 then 'b' else 'c' end",
        "case when flag then n end",
        "case n when 1 then 10 when m then 20 else 30 end",
        "case when x > 1 then y > 3 else n > 4 end",
    ),
    "time": (
        "year(day)",
        "year(ts)",
        "month(ts)",
        "day(ts)",
        "dayofmonth(day)",
        "dayofweek(day)",
        "dayofweek(ts)",
        "hour(ts)",
        "hour(day)",
        "minute(ts)",
        "second(ts)",
        *(
            f"date_trunc('{unit}', ts)"
            for unit in (
                "year",
                "quarter",
                "MONTH",
                "week",
                "dd",
                "hour",
                "minute",
                "second",
                "millisecond",
                "microsecond",
            )
        ),
        "date_trunc('month', day)",
        "unix_seconds(ts)",
        "unix_millis(ts)",
        "to_date(ts)",
        "ts < day",
    ),
}


@pytest.fixture(scope="module")
def checker(spark: SparkSession) -> Checker:
    return Checker(own_session(spark))


def test_the_catalogue_of_this_test_is_complete() -> None:
    used = set()
    for text in (text for texts in CATALOGUE.values() for text in texts):
        used |= {e.function for e in walk(bound(text)) if isinstance(e, Call)}
        used |= {"case" for e in walk(bound(text)) if isinstance(e, Case)}
    # Spark has no delay.
    assert used >= set(FUNCTIONS) - {"delay"}


@pytest.mark.parametrize("kind", CATALOGUE)
def test_functions_equal_those_of_spark(checker: Checker, kind: str) -> None:
    assert not checker.check(CATALOGUE[kind], asked=1)


ERRORS = {
    # Text: the tuples on which it fails, as a condition that cannot fail itself.
    "n / 0 > 1": "n is not null",
    "n / 0 > 1 and false": "false",
    "flag and n / 0 > 1": "coalesce(flag, true) and n is not null",
    "n / 0 > 1 and flag": "coalesce(flag, true) and n is not null",
    "n / 0 > 1 or flag": "not coalesce(flag, false) and n is not null",
    "flag or n / 0 > 1": "not coalesce(flag, false) and n is not null",
    "flag or (n / 0 > 1 and other)": (
        "not coalesce(flag, false) and coalesce(other, true) and n is not null"
    ),
    "not (n / 0 > 1 and flag)": "coalesce(flag, true) and n is not null",
    "n / 0 > 1 and m / 0 > 1": "n is not null or m is not null",
    "flag and other and n / 0 > 1": (
        "coalesce(flag, true) and coalesce(other, true) and n is not null"
    ),
    "case when flag then n / 0 end": "flag <=> true and n is not null",
    "case when flag then 1D else n / 0 end": "not (flag <=> true) and n is not null",
    "case when n / 0 > 1 then 1 else 2 end": "n is not null",
    "case when flag then 1 when n / 0 > 1 then 2 else 3 end": (
        "not (flag <=> true) and n is not null"
    ),
    "case when flag then 1D when other then n / 0 else m / 0 end": (
        "not (flag <=> true) and "
        "((other <=> true and n is not null) or (not (other <=> true) and m is not null))"
    ),
    "if(flag, 0D, n / 0)": "not (flag <=> true) and n is not null",
    "coalesce(y, n / 0)": "y is null and n is not null",
    "coalesce(n / 0, y)": "n is not null",
    "coalesce(n / 0, 1D)": "n is not null",
    "coalesce(y, n / 0, m / 0)": "y is null and (n is not null or m is not null)",
    "nullif(n / 0, 1)": "n is not null",
    "n / 0 is null": "n is not null",
    "(n / 0 > 1) is true": "n is not null",
    "n / 0 <=> null": "n is not null",
    "n in (1, m / 0)": "m is not null",
    "greatest(y, n / 0)": "n is not null",
    "concat(s, cast(n / 0 as string))": "n is not null",
    "null + n / 0": "n is not null",
    "n / 0 between 0 and 1": "n is not null",
    "n / 0 > 1 or true": "false",
    "(n / 0 is null) and flag": "coalesce(flag, true) and n is not null",
    "flag or (n / 0 is null)": "not coalesce(flag, false) and n is not null",
    "(n / 0 <=> y) or flag": "not coalesce(flag, false) and n is not null",
    "flag and n in (1, 42, m / 0)": "coalesce(flag, true) and m is not null",
    "flag or greatest(1, n / 0) > 0": "not coalesce(flag, false) and n is not null",
    "flag or coalesce(n / 0, 1D) > 0": "not coalesce(flag, false) and n is not null",
    "flag or case when n / 0 > 1 then true else true end": (
        "not coalesce(flag, false) and n is not null"
    ),
    "not (n / 0 is null) or not (n / 0 is null) or flag": (
        "not coalesce(flag, false) and n is not null"
    ),
    "case when true then 1D else n / 0 end": "false",
}


def test_errors_count_where_the_rules_say(checker: Checker) -> None:
    ours = checker.outcomes(bound(text) for text in ERRORS)
    expected = checker.outcomes(bound(text) for text in ERRORS.values())
    found = [
        (text, sorted(outcome.errors), wanted)
        for text, outcome, condition in zip(ERRORS, ours, expected, strict=True)
        if sorted(outcome.errors) != (wanted := [i for i, v in enumerate(condition.values) if v])
    ]
    assert not found
    assert any(outcome.errors for outcome in ours)


def test_values_beside_an_error_are_those_that_decide(checker: Checker) -> None:
    texts = ("n / 0 > 1 and false", "flag and n / 0 > 1", "n / 0 > 1 or flag", "coalesce(y, n / 0)")
    never, both, either, first = checker.outcomes(bound(text) for text in texts)
    flag, y = checker.outcomes((bound("flag"), bound("y")))
    assert set(never.values) == {False}
    for row in range(ROWS):
        if flag.values[row] is False:
            assert both.values[row] is False
        if flag.values[row] is True:
            assert either.values[row] is True
        if y.values[row] is not None:
            assert first.values[row] == y.values[row]


def test_errors_do_not_grow_with_every_level() -> None:
    text = "n / m > 1"
    for level in range(40):
        text = f"({text} {'OR' if level % 2 else 'AND'} n > {level})"
    made = compile_expression(bound(text), resolve)
    assert made.error is not None
    assert len(str(made.error)) < 200_000


def test_what_cannot_fail_has_no_error_column() -> None:
    for text in (text for texts in CATALOGUE.values() for text in texts):
        expression = bound(text)
        if not can_fail(expression):
            assert compile_expression(expression, resolve).error is None, text


def _random_trees() -> list[Tree]:
    rng = random.Random(SEED)
    maker = Maker(rng)
    made: dict[str, Tree] = {}
    while len(made) < RANDOM:
        tree = maker.make(rng.choice(list(FORMS)), rng.choice((1, 2, 2, 3)))
        if _code(tree.text) is None:
            made[tree.text] = tree
    return list(made.values())


def _code(text: str) -> str | None:
    """Return why a text is refused: some types only show when parts are put together."""
    try:
        bound(text)
    except QueryError as exc:
        if exc.code != "type.mismatch":
            raise
        return exc.code
    return None


class Known:
    """Outcomes of random trees and of all their parts."""

    def __init__(self, checker: Checker) -> None:
        self.trees = _random_trees()
        self.nodes = {inner.text: inner for tree in self.trees for inner in tree.walk()}
        self.outcomes: dict[str, Outcome] = {}
        roots = [tree.text for tree in self.trees]
        parts = [text for text in self.nodes if text not in set(roots)]
        for texts, generated, most in ((roots, True, 60), (parts, False, 150)):
            for at in range(0, len(texts), most):
                some = texts[at : at + most]
                found = checker.outcomes((bound(text) for text in some), generated=generated)
                self.outcomes.update(zip(some, found, strict=True))

    def error(self, tree: Tree, row: int) -> bool:
        """Whether a tree must fail on a tuple, by the rules and by what its parts did.

        Where no part fails, it is what we say; Spark is asked about that elsewhere.
        """
        bad = [row in self.outcomes[part.text].errors for part in tree.parts]
        value = [self.outcomes[part.text].values[row] for part in tree.parts]
        if tree.rule in ("and", "or"):
            ends = tree.rule == "or"
            decided = any(not b and v is ends for b, v in zip(bad, value, strict=True))
            return any(bad) and not decided
        if tree.rule == "case":
            return bad[0] or (bad[1] if value[0] is True else bad[2])
        if tree.rule == "coalesce":
            return bad[0] or (value[0] is None and bad[1])
        return any(bad) or row in self.outcomes[tree.text].errors


@pytest.fixture(scope="module")
def known(checker: Checker) -> Known:
    return Known(checker)


def test_random_expressions_fail_where_the_rules_say(known: Known) -> None:
    wrong = [
        f"{node.text}: tuple {row}"
        for node in known.nodes.values()
        for row in range(ROWS)
        if (row in known.outcomes[node.text].errors) != known.error(node, row)
    ]
    assert not wrong
    assert sum(bool(known.outcomes[tree.text].errors) for tree in known.trees) > RANDOM / 10


def test_random_expressions_equal_those_of_spark(checker: Checker, known: Known) -> None:
    # Spark stops early at a NULL or a decisive part, so it is asked about nodes whose parts did
    # not fail: there it must raise on exactly the same tuples, and give the same values.
    assert not checker.check_nodes(
        {
            text: (
                known.outcomes[text],
                frozenset().union(*(known.outcomes[p.text].errors for p in node.parts)),
            )
            for text, node in known.nodes.items()
            if node.parts
        }
    )


def test_random_expressions_have_the_types_of_spark(checker: Checker, known: Known) -> None:
    texts = [tree.text for tree in known.trees]
    assert not list(checker.types(texts, [bound(text) for text in texts]))


def test_what_cannot_fail_does_not(known: Known) -> None:
    """Spark raises on none of these either: it was asked about all tuples above."""
    safe = [tree.text for tree in known.trees if not can_fail(bound(tree.text))]
    assert len(safe) > RANDOM / 10
    assert not [text for text in safe if known.outcomes[text].errors]


def test_a_delay_lets_a_share_of_the_numbers_pass(spark: SparkSession) -> None:
    numbers = spark.range(10_000).withColumn("id", F.when(F.col("id") > 0, F.col("id")))
    passed = numbers.filter(delayed(F.col("id"), 1, 0.25))
    assert 2_300 < passed.count() < 2_700
    assert numbers.filter(delayed(F.col("id"), 1, 1.0)).count() == 9_999
