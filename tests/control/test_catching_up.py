"""What waited while units stood still is worked off; only what arrives can be too much."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.control.simulated import SIX_RATE, SimFlow, loop_for, six, six_costs, surge

from evenflow.control.catching_up import CatchingUp
from evenflow.control.config import LoopConfig
from evenflow.control.decision import Act
from evenflow.control.facts import Batch, FlowFacts
from evenflow.control.learned import GateHistory
from evenflow.control.view import View, view_of

PAUSE = (20.0, 50.0)


def paused(begin: float = PAUSE[0], end: float = PAUSE[1], *, tells: bool = True) -> SimFlow:
    def stands(clock: float) -> bool:
        return begin <= clock < end

    return six(lambda _: SIX_RATE, stands=stands, tells=tells)


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("limits", [True, False])
def test_nothing_is_dropped_for_what_waited_through_a_pause(tells: bool, limits: bool) -> None:
    flow = paused(tells=tells)
    flow.limits = limits and tells
    loop = loop_for()
    flow.run(loop, PAUSE[1] + 15.0)
    assert flow.worst_delay(PAUSE[1]) > 20.0
    flow.run(loop, 45.0)
    assert flow.history == []
    assert loop.snapshot().squeeze == 1.0
    view = loop.snapshot().view
    assert view is not None
    assert view.catching_up == frozenset()
    assert flow.worst_delay(flow.clock - 5) < 3.0


def test_a_decision_tells_how_many_rows_are_worked_off_and_when_that_is_done() -> None:
    flow = paused()
    flow.run(loop_for(), 110.0)
    (decision,) = flow.decisions
    assert decision.act is Act.CATCH_UP
    assert decision.keep == decision.before == {}
    waited = (PAUSE[1] - PAUSE[0]) * SIX_RATE
    told = float(decision.why.split()[3].replace(",", ""))
    assert told == pytest.approx(waited, rel=0.1)
    assert decision.facts["catching_up"] == ["u1"]
    (outcome,) = flow.outcomes
    assert (outcome.number, outcome.reason) == (decision.number, "it has caught up")
    assert outcome.measured == {"seconds": round(outcome.at - decision.at, 1)}
    assert decision.expected["seconds"] == pytest.approx(outcome.measured["seconds"], rel=0.5)


def test_a_flow_that_never_stood_still_sheds_what_piled_up() -> None:
    """The rule is about pauses alone: the same rows at once are a surge."""
    flow = six(surge(SIX_RATE, 31.0, PAUSE[1], PAUSE[1] + 1))
    flow.run(loop_for(), 70.0)
    assert flow.history


def test_what_arrives_is_shed_while_units_catch_up_if_it_does_not_fit() -> None:
    flow = paused()
    flow.units[0].rate = surge(SIX_RATE, 6.0, PAUSE[1] + 4.0, PAUSE[1] + 40.0)
    loop = loop_for()
    flow.run(loop, PAUSE[1] + 39.0)
    shed = [decision for decision in flow.decisions if decision.act is Act.SHED]
    assert shed
    assert PAUSE[1] + 4.0 < shed[0].at - flow.start
    flow.run(loop, 60.0)
    assert flow.gates == {}


def test_a_surge_after_it_is_held_like_any_other() -> None:
    flow = paused(20.0, 25.0)
    flow.units[0].rate = surge(SIX_RATE, 10.0, 60.0, 90.0)
    flow.run(loop_for(), 110.0)
    first = next(at for at, gates in flow.history if gates)
    assert 60.0 < first <= 63.0
    assert flow.worst_delay(70.0, 90.0) <= 3.0
    assert flow.gates == {}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pauses=st.lists(st.sampled_from([0.7, 3.0, 11.0]), min_size=1, max_size=3),
    times=st.sampled_from([0.2, 1.0, 1.4]),
    wrong=st.sampled_from([0.5, 1.0, 2.0]),
    noise=st.sampled_from([0.0, 0.2]),
    tells=st.booleans(),
    limits=st.booleans(),
    seed=st.integers(0, 5),
)
def test_whatever_pauses_there_are_nothing_is_lost_if_what_arrives_fits(
    pauses: list[float],
    times: float,
    wrong: float,
    noise: float,
    tells: bool,
    limits: bool,
    seed: int,
) -> None:
    begins = [10.0 + 14.0 * number for number in range(len(pauses))]

    def stands(clock: float) -> bool:
        return any(b <= clock < b + p for b, p in zip(begins, pauses, strict=True))

    flow = six(lambda _: times * SIX_RATE, stands=stands, noise=noise, seed=seed, tells=tells)
    flow.limits = limits and tells
    flow.run(loop_for(six_costs(wrong)), 70.0)
    assert flow.history == []


# One unit, look by look.


def look(*batches: Batch, started: float | None, under_way: Batch | None = None) -> FlowFacts:
    facts = six(lambda _: 0.0).facts()
    unit = replace(facts.units[0], batches=batches, under_way=under_way, started=started)
    return replace(facts, units=(unit,), at=batches[-1].began + 0.9)


def batch(
    number: int, rows: int, *, behind: int = 0, seconds: float = 0.5, first: bool = False
) -> Batch:
    return Batch(
        number=number,
        began=100.0 + number,
        seconds=seconds,
        spacing=None if first else 1.0,
        rows=rows,
        behind=behind,
    )


def seen(known: CatchingUp, facts: FlowFacts) -> View:
    model = loop_for()._learned.learn(facts, GateHistory())
    return known.excused(facts, view_of(facts, model, GateHistory(), {}, 0.9))


def test_it_takes_two_batches_to_have_caught_up() -> None:
    known = CatchingUp(LoopConfig(warm_up=0))
    before = batch(0, 100)
    assert seen(known, look(before, started=100.5)).catching_up == {"u1"}
    first = batch(1, 100, first=True)
    assert seen(known, look(before, first, started=100.5)).catching_up == {"u1"}
    assert seen(known, look(before, first, batch(2, 100), started=100.5)).catching_up == set()


def test_a_unit_catches_up_as_long_as_more_waits_than_fits() -> None:
    known = CatchingUp(LoopConfig(warm_up=0))
    first = batch(1, 100, behind=90_000, first=True)
    view = seen(known, look(first, batch(2, 20_000, behind=71_000), started=100.5))
    assert view.catching_up == {"u1"}
    assert view.pressure["u1"] == view.rates["u1"] == 1000.0
    view = seen(known, look(first, batch(2, 20_000, behind=100), started=100.5))
    assert view.catching_up == set()


def test_another_start_begins_anew_and_none_excuses_nothing() -> None:
    known = CatchingUp(LoopConfig(warm_up=0))
    batches = batch(1, 100, first=True), batch(2, 100)
    assert seen(known, look(*batches, started=100.5)).catching_up == set()
    assert seen(known, look(*batches, started=103.5)).catching_up == {"u1"}
    assert (
        seen(CatchingUp(LoopConfig(warm_up=0)), look(*batches, started=None)).catching_up == set()
    )


def test_a_long_batch_that_does_not_tell_its_rows_is_no_surge_while_catching_up() -> None:
    last = batch(2, 100, seconds=200.0)
    begun = replace(batch(3, 0, seconds=0.0), seconds=None, rows=None, behind=None)
    facts = replace(look(batch(1, 100, first=True), last, started=100.5, under_way=begun), at=140.0)
    view = seen(CatchingUp(LoopConfig(warm_up=0)), facts)
    assert view.rates["u1"] > 1000.0
    assert view.pressure["u1"] == 100.0
