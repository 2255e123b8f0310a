"""The surge benchmark without Spark: schedule, ages, value, optimum, counts, verdict."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from evenflow.bench.surge import verdict
from evenflow.bench.surge.capacity import Effort, true_costs
from evenflow.bench.surge.figures import (
    GatedBatch,
    Seen,
    TrueCosts,
    ages,
    counts_add_up,
    gates_open_after,
    missing_ages,
    optimum,
    reaction,
    right_answers,
    value,
)
from evenflow.bench.surge.flow import QUERIES, WEIGHTS, WINDOWS
from evenflow.bench.surge.schedule import TICK_US, Surge, Windows
from evenflow.bench.surge.trial import Found, Trial, case
from evenflow.bench.surge.uniform import UniformPlans
from evenflow.control.model import FamilyModel, FlowModel, Part, UnitModel
from evenflow.spark.source.generators import ConstantArrivals, SurgeArrivals

SMALL = Windows(size_us=700_000, delay_us=500_000, keys=3)
SURGE = Surge(rate=33, times=4, first_tick=7_005, begin_tick=7_050, end_tick=7_080)
COSTS = TrueCosts(
    capacity=5_000.0,
    fixed=0.3,
    reading=1e-6,
    own={each.name: each.microseconds / 2e6 for each in QUERIES},
)


def of_source() -> tuple[np.ndarray, np.ndarray]:
    arrivals = SurgeArrivals(
        ConstantArrivals(SURGE.rate * 1000), SURGE.times, SURGE.begin_tick, SURGE.end_tick
    )
    return arrivals.rows(SURGE.first_tick, 7_120)


def exact_answers(surge: Surge, windows: Windows, last_tick: int, at: float = 0.0) -> list[Seen]:
    span = windows.between((surge.first_tick * TICK_US - windows.size_us) / 1e6, last_tick / 10)
    return [
        Seen(start, key, count, at)
        for start in span
        for key in range(windows.keys)
        if (count := windows.count(surge, start, key))
    ]


def test_the_schedule_is_that_of_the_source() -> None:
    ids, times = of_source()
    counted = Counter(
        (int(t) // SMALL.size_us * SMALL.size_us, int(i) % SMALL.keys)
        for i, t in zip(ids, times, strict=True)
    )
    until = SURGE.before(7_120)
    assert int(ids[0]) == SURGE.before(SURGE.first_tick)
    assert until == int(ids[-1]) + 1
    assert SURGE.read(7_120, 0) == len(ids)
    for (start, key), count in counted.items():
        assert SMALL.count(SURGE, start, key, until) == count
    assert SMALL.count(SURGE, 7_120 * TICK_US + SMALL.size_us, 0, until) == 0


def test_the_first_tuple_of_a_tick_closes_a_window() -> None:
    _, times = of_source()
    start = 7_000 * TICK_US // SMALL.size_us * SMALL.size_us + SMALL.size_us
    closing = next(t for t in times if t >= start + SMALL.size_us + SMALL.delay_us)
    assert SMALL.closing(start) == closing / 1e6


def test_wrong_and_repeated_answers_are_found() -> None:
    right = exact_answers(SURGE, SMALL, 7_100)
    assert len(right) > 20
    assert right_answers(right, SURGE, SMALL, None)
    assert right_answers(right[::3], SURGE, SMALL, None)  # dropped windows are no fault
    assert not right_answers([*right, right[0]], SURGE, SMALL, None)
    wrong = replace(right[5], count=right[5].count - 1)
    assert not right_answers([*right[:5], wrong], SURGE, SMALL, None)


@pytest.mark.parametrize(
    ("change", "fine"),
    [({}, True), ({"in": 101}, False), ({"open": 1}, False), ({"contributed": 9}, False)],
)
def test_counts_must_add_up_to_what_was_read(change: dict[str, int], fine: bool) -> None:
    counts = {"in": 100, "contributed": 10, "late": 1, "filtered": 0, "rejected": 0, "open": 0}
    told = {**counts, "shed": {"gate": 80, "cut": 9}, **change}
    assert counts_add_up(told, 100, 10) is fine


def test_all_tuples_may_not_be_lost_together_with_their_counts() -> None:
    counts = {"in": 90, "contributed": 90, "late": 0, "filtered": 0, "rejected": 0, "open": 0}
    assert not counts_add_up({**counts, "shed": {}}, 100, 90)
    assert not counts_add_up({**counts, "shed": {}}, 90, 89)


def test_ages_count_from_the_tuple_that_closes_a_window() -> None:
    answers = [Seen(700_000, 0, 1, 3.0), Seen(1_400_000, 0, 1, 4.0), Seen(7_000_000, 0, 1, 9.0)]
    ((at, age),) = ages(answers, SMALL, 1.9, 2.6)
    assert at == 3.0
    assert age == pytest.approx(3.0 - 1.9)
    assert len(ages(answers, SMALL, 0.0, 100.0)) == 3


def test_answers_that_never_came_are_as_old_as_the_surge_is_over() -> None:
    there = [Seen(700_000, key, 1, 2.0) for key in range(3)]
    missing = missing_ages(there, SMALL, 1.9, 4.0)
    # Windows that close at 2.6 and 3.3; those of 1.9 are there.
    assert sorted(age for _, age in missing) == pytest.approx([0.7] * 3 + [1.4] * 3)
    late = [replace(each, at=5.0) for each in there]
    assert len(missing_ages(late, SMALL, 1.9, 4.0)) == 9


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([(101.0, 1.0), (102.0, 2.0)], 0.0),
        ([(101.5, 1.0), (104.5, 6.0), (105.5, 5.5), (106.5, 4.0)], 7.0),
        # Nothing became visible in between: silence is not being in time.
        ([(102.5, 6.0), (107.5, 3.0)], 8.0),
        # In time for a moment, late in the same interval.
        ([(102.5, 6.0), (103.2, 1.0), (103.7, 7.0), (104.5, 1.0)], 5.0),
        ([(104.5, 6.0), (108.5, 9.0)], None),
        ([(math.inf, 8.0)], None),
        ([(125.0, 18.0)], None),
    ],
)
def test_a_reaction_ends_when_answers_are_in_time_again(
    seen: list[tuple[float, float]], expected: float | None
) -> None:
    assert reaction(seen, 100.0, 110.0, 1.0, 5.0) == expected


def test_gates_are_open_when_no_batch_has_one_shut_any_more() -> None:
    batches = [GatedBatch(95.0, shut=False), GatedBatch(101.0, shut=True)]
    assert gates_open_after([batches[0]], 110.0, 1.0) == 0
    assert gates_open_after(batches, 110.0, 1.0) is None
    opened = [*batches, GatedBatch(112.2, shut=False), GatedBatch(113.2, shut=False)]
    assert gates_open_after(opened, 110.0, 1.0) == 3
    again = [*opened, GatedBatch(114.2, shut=True), GatedBatch(115.2, shut=False)]
    assert gates_open_after(again, 110.0, 1.0) == 6


def test_value_is_weight_times_share_and_comes_in_the_surge() -> None:
    weights = {"a": 4.0, "b": 1.0}
    starts = list(SMALL.between(SURGE.begin, SURGE.end))
    own = [Seen(s, k, 1, SURGE.end) for s in starts for k in range(3)]
    outside = [Seen(starts[0] - SMALL.size_us, 0, 1, SURGE.end)]
    late = [replace(each, at=SURGE.end + 5.1) for each in own]
    whole = value({"a": own, "b": [*own, *outside]}, weights, SURGE, SMALL, 5.0)
    assert whole == pytest.approx(5.0)
    assert value({"a": own[::3], "b": late}, weights, SURGE, SMALL, 5.0) == pytest.approx(4 / 3)


def test_the_optimum_keeps_what_is_worth_most_for_its_cost() -> None:
    # At ten times the capacity 0.7 s per second are left for 50,000 tuples, 13 us for each: the
    # branch of 20 us on two cores (10 us) whole, and 3 of the next one's 20.
    assert optimum(COSTS, WEIGHTS, 10, 1.0) == pytest.approx(4 + 4 * 3 / 20)
    assert optimum(COSTS, WEIGHTS, 0.5, 1.0) == pytest.approx(15.0)
    assert optimum(replace(COSTS, reading=20e-6), WEIGHTS, 10, 1.0) == 0.0


def test_costs_are_differences_of_batches() -> None:
    branches = {"a": (10_000, 0.3 + 10_000 * 11e-6)}
    found = true_costs(
        (4_000, 0.3 + 4_000 * 175e-6), (10_000, 0.31), (60_000, 0.36), branches, Effort()
    )
    assert found.fixed == pytest.approx(0.3)
    assert found.reading == pytest.approx(1e-6)
    assert found.own == {"a": pytest.approx(10e-6)}
    assert found.capacity == pytest.approx(4_000)


def model(keep: float) -> FlowModel:
    parts = tuple(
        Part(query=q.name, own=q.microseconds / 1e6, weight=q.weight, floor=0.0, never=False)
        for q in QUERIES
    )
    unit = UnitModel(
        id="u",
        sources=("r",),
        reading=2e-6,
        trunk=0.0,
        families=(FamilyModel(row=1e-6, parts=parts),),
        fixed=0.3,
        factor=keep,
        span=1.0,
    )
    return FlowModel(units=(unit,), cores=2.0)


def test_uniform_plans_have_one_fraction_that_just_fits() -> None:
    flow = model(1.0)
    choice = UniformPlans().choose(flow, {"u": 50_000.0}, 1.2)
    assert len(set(choice.keep.values())) == 1
    assert flow.load({"u": 50_000.0}, choice.keep) == pytest.approx(1.2)
    assert UniformPlans().choose(flow, {"u": 100.0}, 1.2).is_open
    least = UniformPlans().choose(flow, {"u": 1e7}, 1.2)
    assert (set(least.keep.values()), least.fits) == ({0.0}, False)


TRIAL = Trial(
    method="planned",
    times=10,
    capacity=200.0,
    optimum=5.0,
    lead_seconds=10.0,
    unloaded_seconds=5.0,
    surge_seconds=10.0,
)


def found_of(surge: Surge, method: str) -> Found:
    """Return a run in which each answer is a second old, and all are kept."""
    last = surge.end_tick + 50
    right = [
        replace(each, at=WINDOWS.closing(each.start_us) + 1.0)
        for each in exact_answers(surge, WINDOWS, last)
    ]
    until = -(-last * TICK_US // WINDOWS.size_us) * WINDOWS.size_us // TICK_US
    tuples = surge.read(until, 0)
    missing = tuples - sum(each.count for each in right)
    counts = {"in": tuples, "contributed": tuples - missing, "open": missing}
    counts |= {"late": 0, "filtered": 0, "rejected": 0}
    names = [each.name for each in QUERIES]
    return Found(
        dict.fromkeys(names, right),
        [GatedBatch(surge.begin + 1, shut=method == "planned"), GatedBatch(surge.end + 2, False)],
        {name: {**counts, "shed": {}} for name in names},
        (until, 0),
    )


def test_a_case_is_what_answers_batches_and_counts_say() -> None:
    surge = TRIAL.surge(first_tick=70_000)
    assert (surge.rate, surge.times, surge.begin) == (100, 20, 7_010.0)
    assert case(TRIAL, surge, found_of(surge, "planned")) == {
        "method": "planned",
        "surge": 10,
        "reaction_seconds": 0.0,
        "age_p50": 1.0,
        "age_p99_after_reaction": 1.0,
        "age_p99_unloaded": 1.0,
        "value": 15.0,
        "optimum": 5.0,
        "share_of_optimum": 3.0,
        "gates_open_after_intervals": 2,
        "counts_exact": True,
    }


def test_a_case_without_answers_says_so() -> None:
    trial = replace(TRIAL, method="none")
    surge = trial.surge(first_tick=70_000)
    found = found_of(surge, "none")
    nothing = dict.fromkeys(found.answers, ())
    told = case(trial, surge, replace(found, answers=nothing))
    assert told["reaction_seconds"] is None
    assert told["age_p99_after_reaction"] is None
    assert told["age_p50"] == pytest.approx(5.0, abs=1.0)
    assert told["value"] == 0.0
    assert not told["counts_exact"]


def test_spark_has_a_limit_of_its_own_only_where_it_is_asked_for() -> None:
    assert replace(TRIAL, method="limits").source["max_rows_per_batch"] == "200"
    assert "max_rows_per_batch" not in TRIAL.source
    assert TRIAL.source["surge"] == "20"


GOOD = {
    "method": "planned",
    "surge": 10,
    "reaction_seconds": 4.0,
    "age_p50": 2.0,
    "age_p99_after_reaction": 6.0,
    "age_p99_unloaded": 2.1,
    "value": 4.0,
    "optimum": 4.3,
    "share_of_optimum": 0.93,
    "gates_open_after_intervals": 4,
    "counts_exact": True,
}


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, 0),
        ({"reaction_seconds": 6.0}, 1),
        ({"reaction_seconds": None, "age_p99_after_reaction": None}, 2),
        ({"age_p99_after_reaction": 6.4}, 1),
        ({"share_of_optimum": 0.89}, 1),
        ({"value": 1.9}, 1),
        ({"gates_open_after_intervals": 6}, 1),
        ({"gates_open_after_intervals": None}, 1),
    ],
)
def test_bars_of_the_surge(change: dict[str, float | None], missed: int) -> None:
    uniform = {**GOOD, "method": "uniform", "value": 1.0, "share_of_optimum": 0.2}
    lines = verdict({"cases": [uniform, {**GOOD, **change}]})
    assert len(lines) == 5
    assert sum(line.endswith(": missed") for line in lines) == missed


def test_counts_that_are_not_exact_are_told_of_every_method() -> None:
    lines = verdict({"cases": [{**GOOD, "method": "limits", "counts_exact": False}]})
    assert lines == ["limits at 10 times: counts are not exact"]


def test_a_machine_that_changed_its_speed_is_told() -> None:
    (line,) = verdict({"capacities": [4_000.0, 3_000.0], "cases": []})
    assert line.startswith("capacity 4,000 rows/s before, 3,000 after (-25%)")
    assert verdict({"capacities": [4_000.0], "cases": []}) == []
