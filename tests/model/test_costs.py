"""Costs: guesses where nothing is known, and back from plain values."""

from __future__ import annotations

import json

import pytest

from evenflow.errors import StateError
from evenflow.model.costs import Costs, QueryCost, costs_from_json

COSTS = Costs(
    reading={"s": 1e-6},
    queries={
        "a": QueryCost(trunk=1e-6, row=2e-6, own=3e-6, certainty=0.9),
        "b": QueryCost(row=4e-6, own=5e-6, certainty=0.5),
    },
    measured_at=100.0,
    hashes={"a": "1", "b": "2", "late": "3"},
)


def test_an_unknown_query_costs_what_others_do_and_is_not_certain() -> None:
    guess = COSTS.of_query("new")
    assert guess.row == pytest.approx(3e-6)
    assert guess.certainty == 0.0
    assert COSTS.certainty(("a", "b")) == 0.5
    assert COSTS.certainty(("a", "new")) == 0.0
    assert Costs().of_query("x").own > 0
    assert COSTS.of_source("other") == COSTS.of_source("s")
    assert Costs().of_source("s") > 0


def test_costs_have_an_age() -> None:
    assert COSTS.age(103.0) == 3.0
    assert Costs().age(103.0) is None
    assert COSTS.queries["a"].alone == pytest.approx(6e-6)


def test_costs_hold_for_the_queries_that_they_were_measured_of() -> None:
    """Whatever their names, and also if there was no time for some of them."""
    assert COSTS.covers({"a": "1"})
    assert COSTS.covers({"a": "1", "b": "2", "late": "3"})
    assert not COSTS.covers({"a": "1", "new": "4"})
    changed = {"a": "1", "b": "7", "late": "3"}
    assert not COSTS.covers(changed)
    assert set(COSTS.holding(changed).queries) == {"a"}
    assert COSTS.of_query("late").certainty == 0.0


def test_costs_come_back_from_plain_values() -> None:
    assert costs_from_json(json.loads(json.dumps(COSTS.as_json()))) == COSTS


@pytest.mark.parametrize(
    "body", [{}, {"format": 1}, {**COSTS.as_json(), "queries": {"a": [1]}}, None, {"format": 2}]
)
def test_damaged_costs_are_refused(body: object) -> None:
    with pytest.raises(StateError) as caught:
        costs_from_json(body)
    assert caught.value.code == "state.invalid"
