"""Ids of answers: the same when a batch is done again, and never one twice."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.spark.sink.answer_id import answer_ids

NUMBERS = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.5, -2.5, math.nan, math.inf]))
POINTS = st.one_of(st.none(), NUMBERS.map(lambda x: {"x": x, "i": 1}))
ROWS = st.tuples(
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, 1, Decimal("1.10")]),
    NUMBERS,
    POINTS,
).map(lambda values: dict(zip(("k", "n", "x", "at"), values, strict=True)))


def by_id(rows: list[dict[str, Any]], origin: str = "s/q/u/1") -> dict[str, str]:
    """Return what each id stands for."""
    ids = answer_ids(rows, origin)
    assert len(set(ids)) == len(rows)
    return {id_: repr(row) for id_, row in zip(ids, rows, strict=True)}


@settings(max_examples=200, database=None, deadline=None)
@given(st.lists(ROWS, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_answers_does_not_matter(rows: list[dict[str, Any]], random: Any) -> None:
    mixed = random.sample(rows, len(rows))
    assert by_id(rows) == by_id(mixed)


def test_the_last_digits_of_doubles_do_not_matter() -> None:
    rows = [{"k": k, "x": x} for k, x in (("a", 0.3), ("a", 7.0), ("b", 0.3))]
    again = [{"k": k, "x": x} for k, x in (("b", 0.1 + 0.2), ("a", 7.0), ("a", 0.1 + 0.2))]
    assert rows[0]["x"] != again[0]["x"]
    first, second = answer_ids(rows, "o"), answer_ids(again, "o")
    assert [first[0], first[1], first[2]] == [second[2], second[1], second[0]]


def test_where_an_answer_comes_from_matters() -> None:
    row: list[dict[str, Any]] = [{"k": "a"}]
    assert answer_ids(row, "s/q/u/1") != answer_ids(row, "s/q/u/2")
    assert answer_ids(row, "s/q/u/1") == answer_ids(row, "s/q/u/1")


def test_an_id_never_changes_from_version_to_version() -> None:
    """Somebody's readers remember them."""
    assert answer_ids([{"k": "a", "x": 0.5}], "s/q/u/1") == ["dfb399ca54032378ce415fd1c600da7f"]
