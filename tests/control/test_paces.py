"""Units whose batches come at different paces, beside one loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.control.simulated import SimFlow, SimUnit, loop_for, surge

from evenflow.control.config import LoopConfig
from evenflow.control.facts import FlowFacts, QueryFacts
from evenflow.model.costs import Costs, QueryCost

QUICK, SLOW = QueryCost(own=20e-6, certainty=0.9), QueryCost(own=10e-6, certainty=0.9)
COSTS = Costs(reading={"s": 2e-6}, queries={"a": QUICK, "b": SLOW}, measured_at=0.0)
RATE = 18_000.0
"""Of which a third of the machine is needed for both."""


def two(rate: object, every: float) -> SimFlow:
    """Return a unit with a batch per second and one with fewer, over the same source."""
    costs = {"a": QUICK, "b": SLOW}
    units = [
        SimUnit(id="u1", families=(("a",),), costs=costs, rate=rate),  # type: ignore[arg-type]
        SimUnit(id="u2", families=(("b",),), costs=costs, rate=rate, every=every),  # type: ignore[arg-type]
    ]
    queries = {"a": QueryFacts(deadline=4.0), "b": QueryFacts(weight=0.1)}
    flow = SimFlow(units, queries)
    for unit in units:
        unit.started = flow.now
        unit.counts = True
    flow.limits = True
    return flow


@pytest.mark.parametrize("every", [1.0, 10.0])
def test_the_limit_of_one_unit_starves_no_other(every: float) -> None:
    flow = two(lambda _: RATE, every)
    flow.run(loop_for(COSTS), 120.0)
    assert flow.history == []
    assert flow.units[1].waiting <= 1.2 * RATE * every


@pytest.mark.parametrize("every", [10.0, 60.0])
def test_a_surge_is_held_and_opens_though_another_unit_is_slow(every: float) -> None:
    """The slow unit reads the rows of the surge one of its batches later."""
    begin, end = 75.0, 100.0
    flow = two(surge(RATE, 8.0, begin, end), every)
    flow.run(loop_for(COSTS), end + 2 * every)
    first = next(at for at, gates in flow.history if gates)
    last, gates = flow.history[-1]
    assert begin < first <= begin + 3
    assert gates == {}
    assert end < last <= end + 6 + every
    assert flow.units[1].waiting <= 1.2 * RATE * every


def test_others_do_not_wait_for_a_unit_of_rare_batches_to_warm_up() -> None:
    loop = loop_for(COSTS)
    flow = two(lambda _: RATE, 60.0)
    flow.run(loop, 20.0)
    assert loop.snapshot().gaps == ("unit u2 warms up",)
    flow.run(loop, 20.0)
    assert loop.snapshot().gaps == ()


def test_answers_of_a_slow_unit_that_stay_late_squeeze_the_capacity() -> None:
    """Those of the quick one are in time all the while."""
    flow = two(lambda _: RATE, 10.0)
    flow.queries["b"] = QueryFacts(deadline=12.0)

    def late(facts: FlowFacts) -> FlowFacts:
        told = facts.queries["b"]
        delay = None if told.delay is None else told.delay + 4.0
        return replace(facts, queries={**facts.queries, "b": replace(told, delay=delay)})

    flow.spoil = late
    loop = loop_for(COSTS)
    squeezes = []
    flow.after_look = lambda loop: squeezes.append(loop.snapshot().squeeze)
    flow.run(loop, 300.0)
    assert min(squeezes) == pytest.approx(LoopConfig().least_squeeze)
    flow.spoil = lambda facts: facts
    flow.run(loop, 60.0)
    assert loop.snapshot().squeeze == 1.0
    assert flow.gates == {}


@pytest.mark.parametrize("units", [2, 4])
@pytest.mark.parametrize("shortest", [60.0, 0.01])
def test_units_that_crowd_a_slow_machine_shed_nothing(units: int, shortest: float) -> None:
    """Batches take long for being many, which no gate helps: then they come less often.

    A deadline that cannot be met makes nobody hurry.
    """
    names = [f"q{number}" for number in range(units)]
    costs = dict.fromkeys(names, QUICK)
    rate = 0.1 / units / (QUICK.own + 2e-6)  # a twentieth of two cores
    flow = SimFlow(
        [SimUnit(id=f"u{n}", families=((n,),), costs=costs, rate=lambda _: rate) for n in names],
        {name: QueryFacts(deadline=60.0) for name in names},
        fixed=1.0,
    )
    flow.queries["q0"] = QueryFacts(deadline=shortest)
    flow.units[0].stands = lambda now: 60.0 <= now < 80.0
    flow.limits = True
    for unit in flow.units:
        unit.started, unit.counts = flow.now, True
    loop = loop_for(Costs(reading={"s": 2e-6}, queries=costs, measured_at=0.0))
    flow.run(loop, 200.0)
    assert flow.history == []
    view = loop.snapshot().view
    assert view is not None
    assert view.capacity > 2 * view.load > 0
