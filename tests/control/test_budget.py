"""Changes per minute: which count, and which do not."""

from __future__ import annotations

import pytest
from tests.control.simulated import SIX_RATE, loop_for, six

from evenflow.control.budget import MINUTE, Budget
from evenflow.control.facts import Batch, FlowFacts, UnitFacts


def facts(ended: float) -> FlowFacts:
    """Return a look at a unit whose newest batch ended at a time."""
    batch = Batch(number=0, began=ended - 1.0, seconds=1.0, spacing=None, rows=1, behind=0)
    unit = UnitFacts(
        id="u", sources=("s",), every=1.0, families=(("q",),), active=True, batches=(batch,)
    )
    return FlowFacts(at=ended, units=(unit,), queries={}, gates={})


def test_a_minute_has_so_many_changes_and_some_are_left() -> None:
    budget = Budget(3)
    for at in (10.0, 11.0):
        assert budget.allows(facts(at), at, spare=0)
        budget.take(facts(at), at)
    assert budget.since(11.0) == (10.0, 11.0)
    assert not budget.allows(facts(12.0), 12.0, spare=1)
    assert budget.allows(facts(12.0), 12.0, spare=0)
    assert budget.allows(facts(10.0 + MINUTE), 10.0 + MINUTE, spare=1)


def test_a_change_that_no_batch_has_had_is_replaced() -> None:
    budget = Budget(3)
    budget.take(facts(9.0), 10.0)
    budget.take(facts(9.0), 10.2)
    assert budget.since(11.0) == (10.2,)


def test_one_that_is_refused_leaves_what_it_would_have_replaced() -> None:
    budget = Budget(3)
    budget.take(facts(9.0), 10.0)
    budget.take(facts(9.0), 10.2)
    budget.give_back()
    assert budget.since(11.0) == (10.0,)
    budget.take(facts(10.5), 11.0)
    budget.give_back()
    assert budget.since(11.0) == (10.0,)


def test_refused_changes_do_not_use_up_those_that_come_when_there_is_room_again() -> None:
    """A disk that is full in a surge: as soon as there is room, gates close."""
    flow = six(
        lambda t: SIX_RATE * (10 if 40 <= t < 200 else 1) * (1.0 if int(t) % 2 else 1.4),
        counts=True,
    )
    flow.limits = True
    flow.units[0].started = flow.now
    flow.refuse = lambda now: "decisions cannot be recorded" if 1040 <= now < 1065 else None
    flow.run(loop_for(), 80.0)
    assert 65.0 <= flow.history[0][0] <= 66.5


@pytest.mark.parametrize("back", [60.0, 900.0])
def test_a_clock_that_is_set_back_stops_nothing(back: float) -> None:
    """Gates that closed before it was open when the surge is over."""
    flow = six(lambda t: SIX_RATE * (10 if 20 <= t < 40 else 1), counts=True)
    flow.limits = True
    flow.units[0].started = flow.now
    loop = loop_for()
    flow.run(loop, 30.0)
    assert flow.gates
    flow.now -= back
    flow.start -= back
    for unit in flow.units:
        unit.began, unit.before, unit.earlier = (
            t - back for t in (unit.began, unit.before, unit.earlier)
        )
        unit.batches.clear()
        unit.started = flow.now
    flow.run(loop, 30.0)
    assert flow.gates == {}
