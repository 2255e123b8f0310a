"""Data that are no plans, or plans that cannot be: told when they are read, never as our fault."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tests.shed.networks import figure_1, figure_7

from evenflow.errors import NetworkError
from evenflow.shed.method import METHODS
from evenflow.shed.plan_index import index_from_data, make_index

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX = {"in1": 1.0, "in2": 1.0}
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    3,
    10**400,
    0.5,
    -0.5,
    1e308,
    float("nan"),
    "x",
    "",
    [],
    {},
    [[1]],
]


@cache
def made(method: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(make_index(figure_1(), method, MAX, 0.3).data()))
    return found


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the ways to all values within one."""
    yield way
    inside: Any = ()
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        yield from places(each, (*way, key))


def changed(data: Any, way: tuple[Any, ...], new: Any) -> Any:
    """Return data with another value at a place."""
    data = copy.deepcopy(data)
    at = data
    for key in way[:-1]:
        at = at[key]
    at[way[-1]] = new
    return data


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_odd_values_are_told_when_they_are_read(method: str) -> None:
    good = made(method)
    draw = random.Random(method)
    ways = [way for way in places(good) if way]
    tried = draw.sample(ways, min(len(ways), 120))
    for way in tried:
        for odd in draw.sample(ODD, 4):
            try:
                index = index_from_data(changed(good, way, odd))
            except NetworkError:
                continue
            # What is read may be another good file; it must then be possible to use it.
            for rates in (MAX, {"in1": 0.3, "in2": 0.9}):
                try:
                    index.select(rates)
                except NetworkError as exc:
                    told = exc.code
                    if told != "plans.invalid":
                        pytest.fail(f"{way} {odd}: {exc}")
            assert index.report()["plans"] >= 0, (way, odd)


@pytest.mark.parametrize(
    ("way", "new"),
    [
        (("parts", 0, "plans", 0, 0), 1.5),
        (("parts", 0, "plans", 0, 0), -0.1),
        (("parts", 0, "plans", 0, 0), "all"),
        (("parts", 0, "plans", 0), [0.1]),
        (("parts", 0, "plans"), []),
        (("parts", 0, "tree"), {"plan": 10**6, "error": 0.0}),
        (("parts", 0, "tree"), {"plan": -1, "error": 0.0}),
        (("parts", 0, "tree"), {"plan": 0, "error": 7.0}),
        (("parts", 0, "tree"), {"plan": 0.5, "error": 0.0}),
        (("parts", 0, "told"), {"lp_calls": "many"}),
        (("parts", 0, "told"), None),
        (("epsilon",), "small"),
        (("epsilon",), 3),
        (("max",), []),
        (("network",), []),
        (("parts",), None),
    ],
)
def test_what_no_plan_can_have_is_told(way: tuple[Any, ...], new: Any) -> None:
    with pytest.raises(NetworkError):
        index_from_data(changed(made("solver"), way, new))


@pytest.mark.parametrize("new", [[], {"bases": 5}, {"bases": [{"basic": [10**9], "upper": []}]}])
def test_what_no_basis_can_be_is_told(new: Any) -> None:
    with pytest.raises(NetworkError):
        index_from_data(changed(made("exact"), ("parts", 0), new))


def test_plans_of_a_file_that_do_not_fit_are_its_fault() -> None:
    data = json.loads(json.dumps(make_index(figure_7(), "solver", {"in": 1.0}, 0.3).data()))
    data["parts"][0]["plans"] = [[1.0, 1.0, 1.0] for _ in data["parts"][0]["plans"]]
    with pytest.raises(NetworkError) as caught:
        index_from_data(data).select({"in": 0.9})
    assert caught.value.code == "plans.invalid"
