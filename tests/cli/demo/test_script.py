"""Phases of the surge, how much arrives in them, and moments out of status objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.demo.acting import SCRIPT, moment

from evenflow.cli.demo.script import (
    Rates,
    Script,
    age_now,
    moment_of,
    script_of,
    worst_ages,
)


@given(st.floats(30, 600))
def test_phases_take_the_whole_time_and_follow_each_other(seconds: float) -> None:
    script = script_of(seconds)
    assert script.seconds == pytest.approx(seconds)
    assert 0 < script.calm < script.over < script.seconds
    phases = [script.phase(at) for at in (0.0, script.calm, script.over, seconds)]
    assert phases == ["calm", "surge", "after", "after"]


@given(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
    st.integers(1, 50),
    st.integers(1, 20),
    st.integers(0, 100),
    st.integers(0, 100),
)
def test_what_arrives_is_the_sum_over_all_seconds(
    phases: tuple[int, int, int], usual: int, times: int, begin: int, more: int
) -> None:
    script = Script(calm=phases[0], surge=phases[1], after=phases[2])
    found = Rates(usual=usual, times=times).arrived(script, begin, begin + more)
    plain = sum(
        usual * (times if script.calm <= second < script.over else 1)
        for second in range(begin, begin + more)
    )
    assert found == pytest.approx(plain)


STATUS: dict[str, Any] = {
    "control": {
        "gates": {"b": 0.25},
        "load": 0.9,
        "load_without_gates": 3.6,
        "capacity": 1.8,
        "rows_per_second": {"u1": 4000.0, "u2": 4000.0},
        "fitting_rows_per_second": {"u1": 2000, "u2": 2000},
    },
    "queries": {
        "a": {"delay_seconds": 1.5, "age_seconds": 0.5},
        "b": {"delay_seconds": None, "age_seconds": None},
    },
}


def test_a_moment_has_loads_for_the_capacity_shares_and_ages() -> None:
    found = moment_of(STATUS, SCRIPT, 1000.0, 1012.0)
    assert (found.seconds, found.phase) == (12.0, "surge")
    # Two units read the same source: its rows are not counted twice.
    assert (found.rows, found.fitting) == (4000.0, 2000)
    assert (found.load, found.load_without_gates) == (0.5, 2.0)
    assert found.keep == {"a": 1.0, "b": 0.25}
    assert (found.ages, found.answered) == ({"a": 1.5}, {"a": 11.5})


def test_a_moment_before_the_loop_knows_anything_has_no_numbers() -> None:
    told = {**STATUS, "control": {"gates": {}, "load": None, "capacity": None}}
    found = moment_of(told, SCRIPT, 1000.0, 1002.0)
    assert (found.rows, found.load, found.phase) == (None, None, "calm")
    assert found.keep == {"a": 1.0, "b": 1.0}


def test_an_age_is_shown_only_as_long_as_answers_come() -> None:
    found = moment(20.0, ages={"theft": 2.0}, answered={"theft": 13.0})
    assert age_now(found, "theft", 8.0) == 2.0
    assert age_now(found, "theft", 6.0) is None
    assert age_now(found, "billing", 8.0) is None


def test_answers_from_before_the_surge_are_not_among_the_worst() -> None:
    # The oldest answer came while the flow warmed up; nothing has come of that query since.
    moments = [
        moment(9.0, ages={"theft": 9.0, "billing": 1.0}, answered={"theft": 8.0, "billing": 8.0}),
        moment(12.0, ages={"theft": 9.0, "billing": 3.0}, answered={"theft": 8.0, "billing": 11.0}),
        moment(14.0, ages={"theft": 9.0, "billing": 2.0}, answered={"theft": 8.0, "billing": 13.0}),
    ]
    assert worst_ages(moments, 10.0) == {"billing": 3.0}
