"""One row per family or one row per query, by what is cheaper."""

from __future__ import annotations

import pytest
from tests.schedule.sample import READINGS, unit_of, window

from evenflow.graph.bind import Binder
from evenflow.graph.canonical import canonical
from evenflow.graph.parse import parse_expression
from evenflow.graph.scope import Scope
from evenflow.schedule.group import MOST_SLOTS, selectivity


def families(queries: dict[str, str]) -> list[list[str]]:
    return [[m.query for m in f.members] for f in unit_of(**queries).families]


def test_selective_predicates_get_rows_of_their_own() -> None:
    queries = {f"q{i}": window("count(*) AS c, sum(kwh) AS s", f"n = {i}") for i in range(8)}
    assert families(queries) == [[f"q{i}"] for i in range(8)]


def test_wide_predicates_share_rows() -> None:
    queries = {f"q{i}": window("count(*) AS c, sum(kwh) AS s", f"n > {i}") for i in range(8)}
    assert families(queries) == [[f"q{i}" for i in range(8)]]


def test_equal_predicates_share_rows_however_selective() -> None:
    queries = {f"q{i}": window(f"sum(kwh * {i + 2}) AS s", "n = 1") for i in range(3)}
    queries["r"] = window("count(*) AS c", "n = 2")
    assert families(queries) == [["q0", "q1", "q2"], ["r"]]


def test_queries_without_predicates_share_rows() -> None:
    queries = {f"q{i}": window(f"max(n % {i + 2}) AS m") for i in range(5)}
    assert families(queries) == [[f"q{i}" for i in range(5)]]


def test_families_are_not_wider_than_the_limit() -> None:
    queries = {f"q{i:02d}": window(f"count(*) AS c, max(n % {i + 2}) AS m") for i in range(36)}
    unit = unit_of(**queries)
    assert [len(f.members) for f in unit.families] == [17, 17, 2]
    assert all(len(f.uses) <= MOST_SLOTS for f in unit.families)


def test_choice_is_made_for_each_set_of_keys() -> None:
    queries = {f"a{i}": window("count(*) AS c", f"n = {i}") for i in range(5)}
    queries |= {f"b{i}": window("count(*) AS c", f"n < {i}", keys="n % 3") for i in range(5)}
    found = sorted(families(queries), key=len)
    assert [len(f) for f in found] == [1, 1, 1, 1, 1, 5]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("n = 1", "n > 1"),
        ("n = 1 AND ok", "n = 1"),
        ("n = 1", "n = 1 OR n = 2"),
        ("n IN (1, 2)", "n IN (1, 2, 3)"),
        ("n = 1", "n <> 1"),
        ("meter LIKE 'a%'", "ok"),
        ("n > 1", "true"),
    ],
)
def test_selectivity_orders_predicates(narrow: str, wide: str) -> None:
    shares = [
        selectivity(canonical(Binder(Scope.of(READINGS)).bind(parse_expression(text))))
        for text in (narrow, wide)
    ]
    assert 0 < shares[0] < shares[1] <= 1
