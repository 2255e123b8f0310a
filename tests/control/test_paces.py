"""Units whose batches come at different paces, beside one loop."""

from __future__ import annotations

import pytest
from tests.control.simulated import SimFlow, SimUnit, loop_for, surge

from evenflow.control.facts import QueryFacts
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
        SimUnit(id="u2", families=(("b",),), costs=costs, rate=lambda _: RATE, every=every),
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
    begin, end = 75.0, 100.0
    flow = two(surge(RATE, 8.0, begin, end), every)
    flow.run(loop_for(COSTS), 115.0)
    first = next(at for at, gates in flow.history if gates)
    last, gates = flow.history[-1]
    assert begin < first <= begin + 3
    assert gates == {}
    assert end < last <= end + 6


def test_others_do_not_wait_for_a_unit_of_rare_batches_to_warm_up() -> None:
    loop = loop_for(COSTS)
    flow = two(lambda _: RATE, 60.0)
    flow.run(loop, 20.0)
    assert loop.snapshot().gaps == ("unit u2 warms up",)
    flow.run(loop, 20.0)
    assert loop.snapshot().gaps == ()
