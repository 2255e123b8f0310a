"""Several units beside one loop: whose gates close, who is late, what their batches may read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.control.simulated import SimFlow, SimUnit, loop_for, surge

from evenflow.control.facts import QueryFacts
from evenflow.model.costs import Costs, QueryCost

READING = 2e-6


def several(
    count: int,
    rate: object,
    own: float,
    *,
    deadline: float,
    fixed: float = 0.15,
    windowed: bool = False,
    weights: Sequence[float] = (),
) -> tuple[SimFlow, Costs]:
    """Return units of a query each over one source, and what their tuples cost."""
    names = [f"q{number}" for number in range(count)]
    costs = dict.fromkeys(names, QueryCost(own=own, certainty=0.9))
    units = [
        SimUnit(
            id=f"u{number}",
            families=((name,),),
            costs=costs,
            rate=rate,  # type: ignore[arg-type]
            windowed=windowed,
            counts=True,
        )
        for number, name in enumerate(names)
    ]
    worth = dict(zip(names, weights or [1.0] * count, strict=True))
    queries = {name: QueryFacts(deadline=deadline, weight=worth[name]) for name in names}
    flow = SimFlow(units, queries, fixed=fixed)
    flow.limits = True
    for unit in units:
        unit.started = flow.now
    return flow, Costs(reading={"s": READING}, queries=costs, measured_at=0.0)


def load_rate(load: float, count: int, own: float) -> float:
    """Return tuples per second that load two cores so much."""
    return 2 * load / count / (own + READING)


def value_by_windows(flow: SimFlow, since: float, until: float, seconds: float = 5.0) -> float:
    """Return the share of the value that whole windows keep: the smallest fraction of each."""
    total = sum(query.weight for query in flow.queries.values())
    kept, at, windows = 0.0, since, 0
    while at < until:
        for name, query in flow.queries.items():
            changed = [g.get(name, 1.0) for when, g in flow.history if at <= when < at + seconds]
            kept += query.weight * min([flow.kept_at(name, at), *changed])
        at, windows = at + seconds, windows + 1
    return kept / total / windows


@pytest.mark.parametrize(
    ("load", "deadline", "weights", "most", "least"),
    [(1.2, 10.0, (), 4, 0.24), (0.6, 3.4, (4.0, 3.0, 2.0, 1.0), 4, 0.6)],
)
def test_gates_of_several_units_do_not_go_to_and_fro(
    load: float, deadline: float, weights: Sequence[float], most: int, least: float
) -> None:
    """Which of them has the most to read changes from look to look; who gives way does not."""
    own = 50e-6
    rate = load_rate(load, 4, own)
    flow, costs = several(4, lambda _: rate, own, deadline=deadline, windowed=True, weights=weights)
    flow.run(loop_for(costs), 130.0)
    changes = sum(1 for at, _ in flow.history if at > 40)
    assert changes * 60 / 90 <= most
    assert value_by_windows(flow, 40.0, 130.0) >= least


@pytest.mark.parametrize(
    ("count", "deadline", "windowed"), [(8, 2.0, False), (8, 3.4, True), (20, 4.0, False)]
)
def test_nothing_is_shed_for_a_deadline_that_so_many_units_cannot_meet(
    count: int, deadline: float, windowed: bool
) -> None:
    """Without any rows their batches would take too long together."""
    own = 20e-6
    rate = load_rate(0.36, count, own)
    flow, costs = several(count, lambda _: rate, own, deadline=deadline, windowed=windowed)
    flow.run(loop_for(costs), 130.0)
    assert flow.gates == {}
    assert [at for at, _ in flow.history if at > 40] == []


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_first_batches_of_a_surge_are_short_however_many_units_read_it(count: int) -> None:
    own = 200e-6 / count - READING
    base = 0.3 * 2 / 200e-6
    flow, costs = several(
        count, surge(base, 30.0, 40.3, 80.0), own, deadline=4.0, fixed=0.15 / count
    )
    flow.run(loop_for(costs), 70.0)
    assert flow.worst_delay(38.0, 70.0) <= 3.2


def test_a_unit_of_rare_batches_does_not_throttle_the_others() -> None:
    """Now and then one of its batches stands beside theirs: most of them have none."""
    own = 20e-6
    rate = load_rate(0.5, 2, own)
    flow, costs = several(11, surge(rate, 5.0, 60.0, 80.0), own / 10, deadline=60.0, fixed=0.3)
    for unit in flow.units[1:]:
        unit.every = 20.0
    least: list[int] = []
    flow.after_look = lambda _: least.append(flow.units[0].limit or 10**9)
    flow.run(loop_for(costs), 130.0)
    assert min(least) > rate / 2
