"""Rates of operators out of what is measured of the parts of queries."""

from __future__ import annotations

import pytest
from tests.graph.sample import operator_of

from evenflow.graph.rates import PartRates, Rates

READ = {"readings": 100.0, "plain": 7.0}
MEASURED = PartRates(arriving=100.0, taken=40.0, answers=5.0)
WINDOW = "GROUP BY window(ts, '1 minute'), meter"

CASES = {
    "where": (
        "SELECT meter FROM readings WHERE kwh > 1",
        ["source 100 100", "where 100 5", "select 5 5"],
    ),
    "plain": ("SELECT meter FROM readings", ["source 100 100", "select 5 5"]),
    "windowed": (
        f"SELECT meter, sum(kwh) AS s FROM readings WHERE kwh > 1 {WINDOW}",
        ["source 100 100", "where 100 40", "aggregate 40 5", "select 5 5"],
    ),
    "having": (
        f"SELECT meter, sum(kwh) AS s FROM readings {WINDOW} HAVING sum(kwh) > 3",
        ["source 100 100", "aggregate 40 -", "where - 5", "select 5 5"],
    ),
    "joined": (
        "SELECT r.meter FROM readings r JOIN sites s ON r.meter = s.meter WHERE kwh > 1",
        ["source 100 100", "join 100 100", "where 100 5", "select 5 5"],
    ),
}


def shown(rates: Rates) -> list[str]:
    def text(rate: float | None) -> str:
        return "-" if rate is None else f"{rate:g}"

    return [f"{o.kind} {text(o.rate_in)} {text(o.rate_out)}" for o in rates.operators()]


@pytest.mark.parametrize("name", CASES)
def test_rates_follow_the_tuples(name: str) -> None:
    sql, expected = CASES[name]
    rates = Rates(READ)
    rates.add("q", operator_of(sql), [MEASURED])
    assert shown(rates) == expected


def test_a_shared_operator_is_told_once() -> None:
    rates = Rates(READ)
    for query in ("a", "b"):
        sql = f"SELECT meter, {query == 'a'} AS x FROM readings WHERE kwh > 1"
        rates.add(query, operator_of(sql), [MEASURED])
    found = {each.kind: each.queries for each in rates.operators() if each.kind != "select"}
    assert found == {"source": ["a", "b"], "where": ["a", "b"]}


def test_parts_of_a_union_add_up() -> None:
    sql = "SELECT meter AS m FROM readings WHERE n = 1 UNION ALL SELECT note AS m FROM plain"
    rates = Rates(READ)
    rates.add("q", operator_of(sql), [MEASURED, PartRates(7.0, 7.0, 7.0)])
    assert "union 12 12" in shown(rates)
    assert "source 7 7" in shown(rates)


def test_what_is_not_measured_is_not_told() -> None:
    rates = Rates({})
    rates.add("q", operator_of(CASES["windowed"][0]), [])
    assert shown(rates) == ["source - -", "where - -", "aggregate - -", "select - -"]


def test_a_filter_over_a_filter_is_told_at_its_ends() -> None:
    rates = Rates(READ)
    inner = "SELECT meter, kwh, n FROM readings WHERE kwh > 1"
    rates.add("q", operator_of("SELECT meter FROM inner_ WHERE n > 1", inner_=inner), [MEASURED])
    found = shown(rates)
    assert found[0] == "source 100 100"
    assert found[-1] == "select 5 5"
    assert "where 100 -" in found


def test_what_comes_to_a_filter_is_counted_with_what_passes() -> None:
    """Sources are measured over another time: more might pass than had come."""
    rates = Rates({"readings": 3.0})
    rates.add("q", operator_of(CASES["where"][0]), [MEASURED])
    assert shown(rates) == ["source 3 3", "where 100 5", "select 5 5"]
