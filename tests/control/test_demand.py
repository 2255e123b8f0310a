"""What arrives, and what the next batch will hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenflow.control.demand import arrival_rate, backlog, demand
from evenflow.control.facts import Batch, UnitFacts
from evenflow.control.model import FamilyModel, FlowModel, Part, UnitModel

PART = Part(query="a", own=1e-3, weight=1.0, floor=0.0, never=False)
MODEL = UnitModel(
    id="u1",
    sources=("s",),
    reading=0.0,
    trunk=0.0,
    families=(FamilyModel(row=0.0, parts=(PART,)),),
    fixed=0.1,
    factor=1.0,
    span=1.0,
)
FLOW = FlowModel(units=(MODEL,), cores=1.0)


def batch(number: int, rows: int | None, **other: float | None) -> Batch:
    told = {"began": float(number), "seconds": 0.5, "spacing": 1.0, **other}
    return Batch(number=number, rows=rows, **told)  # type: ignore[arg-type]


def unit(*batches: Batch, under_way: Batch | None = None) -> UnitFacts:
    return UnitFacts(
        id="u1",
        sources=("s",),
        every=1.0,
        families=(("a",),),
        active=True,
        batches=batches,
        under_way=under_way,
    )


def test_rows_came_in_the_time_between_two_beginnings() -> None:
    assert arrival_rate(unit(batch(1, 100), batch(2, 300, spacing=2.0))) == 150.0


def test_what_a_limited_batch_left_behind_arrived_too() -> None:
    assert arrival_rate(unit(batch(1, 100, behind=0), batch(2, 100, behind=900))) == 1000.0


def test_a_batch_that_has_only_begun_tells_a_surge() -> None:
    begun = batch(3, 1000, seconds=None)
    assert arrival_rate(unit(batch(2, 100), under_way=begun)) == 1000.0


def test_a_batch_that_reads_of_what_waited_does_not_tell_a_rate() -> None:
    """Kafka tells what waits when a batch is done: one that has begun reads as much as it may."""
    calm = batch(1, 500, behind=9400), batch(2, 500, behind=9000)
    assert arrival_rate(unit(*calm)) == 100.0
    assert arrival_rate(unit(*calm, under_way=batch(3, 500, seconds=None))) == 100.0


def test_what_waits_is_what_was_left_and_what_came_during_a_long_batch() -> None:
    assert backlog(unit(batch(1, 100), batch(2, 100)), 1.0) == 0.0
    assert backlog(unit(batch(1, 100, behind=0), batch(2, 100, behind=50)), 1.0) < 50.0
    long = unit(batch(1, 100), batch(2, 100, seconds=4.0))
    assert backlog(long, 1.0) == 300.0
    assert backlog(long, 3.0) == 100.0


def test_the_first_batch_since_a_start_tells_no_rate() -> None:
    assert arrival_rate(unit(batch(0, 9999, spacing=None))) == 0.0


def test_in_calm_the_pressure_is_the_rate() -> None:
    asked = demand(unit(batch(1, 100), batch(2, 100)), FLOW, MODEL, {}, 2.6)
    assert (asked.rate, asked.pressure) == (100.0, 100.0)


def test_a_long_batch_makes_the_next_one_large() -> None:
    begun = batch(3, 5000, seconds=None)
    asked = demand(unit(batch(2, 100), under_way=begun), FLOW, MODEL, {}, 3.1)
    assert asked.rate == 5000.0
    # It takes 5.1 seconds, in which 5,000 rows come per second.
    assert asked.pressure == pytest.approx(5.1 * 5000)


def test_gates_that_the_batch_runs_with_make_it_shorter() -> None:
    begun = batch(3, 5000, seconds=None)
    asked = demand(unit(batch(2, 100), under_way=begun), FLOW, MODEL, {"a": 0.1}, 3.1)
    assert asked.pressure == pytest.approx(5000)


def test_a_batch_that_goes_on_for_too_long_has_more_rows_than_usual() -> None:
    begun = batch(3, None, seconds=None)
    calm = demand(unit(batch(2, 300), under_way=begun), FLOW, MODEL, {}, 3.4)
    assert calm.rate == 300.0
    overdue = demand(unit(batch(2, 300), under_way=begun), FLOW, MODEL, {}, 5.0)
    assert overdue.rate == pytest.approx(4.0 * 1000 - 100)
    assert overdue.pressure > overdue.rate


def test_rows_that_wait_count() -> None:
    asked = demand(unit(batch(1, 100, behind=0), batch(2, 900, behind=50)), FLOW, MODEL, {}, 2.6)
    assert asked.pressure == 1000.0


def test_a_source_that_counts_at_any_time_shows_a_surge_before_the_next_batch() -> None:
    calm = unit(batch(1, 100, behind=0), under_way=batch(2, 100, seconds=None, behind=0))
    asked = demand(replace(calm, waiting=500), FLOW, MODEL, {}, 2.5)
    assert asked.rate == 1000.0
    assert asked.pressure == 1000.0
    # What comes in steps tells no rate before there was time for a few.
    assert demand(replace(calm, waiting=500), FLOW, MODEL, {}, 2.1).rate == 100.0
    over = unit(batch(1, 1000, behind=0), batch(2, 1000, behind=100))
    asked = demand(replace(over, waiting=180), FLOW, MODEL, {}, 2.8)
    assert asked.rate == pytest.approx(100.0)
    assert asked.pressure == pytest.approx(200.0)


def test_a_batch_that_was_limited_is_followed_by_one_not_much_larger() -> None:
    asked = demand(unit(batch(1, 100, behind=0), batch(2, 100, behind=400)), FLOW, MODEL, {}, 2.6)
    assert asked.rate == 500.0
    assert asked.pressure == 150.0


def test_a_silent_source_asks_for_nothing() -> None:
    assert demand(unit(batch(1, 100)), FLOW, MODEL, {}, 9.0).pressure == 0.0
    waiting = replace(batch(1, 100), behind=50)
    assert demand(unit(waiting), FLOW, MODEL, {}, 9.0).pressure > 0.0
