"""What always holds of the loop, whatever the load, the costs and the noise."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.control.simulated import CORES, SIX, SIX_RATE, SimFlow, loop_for, six, six_costs

from evenflow.control.loop import ControlLoop
from evenflow.control.state import State

EXAMPLES = int(os.environ.get("EVENFLOW_LOOPS", "15"))
"""How many flows are tried."""
WARM = 5.0
"""Seconds at the beginning in which it does: a surge on a cold flow is not reacted to at once."""
CALM = 25.0
"""Seconds at the end in which load fits again."""
MOST_CHANGES = 12


@dataclass(frozen=True)
class Weather:
    """What happens to a flow."""

    phases: tuple[tuple[float, float], ...]
    """How long, and how many times the usual rate."""
    wrong: float
    noise: float
    seed: int
    tells: bool
    counts: bool
    floors: tuple[float, ...]
    lost: int
    """Every so many looks one is missing."""

    def rate(self, clock: float) -> float:
        end = WARM
        for seconds, times in self.phases:
            end += seconds
            if WARM <= clock < end:
                return SIX_RATE * times
        return SIX_RATE

    @property
    def seconds(self) -> float:
        return WARM + sum(seconds for seconds, _ in self.phases)


weathers = st.builds(
    Weather,
    phases=st.lists(
        st.tuples(
            st.sampled_from([2.0, 5.0, 9.0]), st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0, 9.0])
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
    wrong=st.sampled_from([0.3, 0.7, 1.0, 2.0, 3.0]),
    noise=st.sampled_from([0.0, 0.1, 0.25]),
    seed=st.integers(0, 5),
    tells=st.booleans(),
    counts=st.booleans(),
    floors=st.tuples(*[st.sampled_from([0.0, 0.05, 0.2])] * 6),
    lost=st.integers(2, 9),
)


def driven(weather: Weather, loop: ControlLoop) -> SimFlow:
    floors = dict(zip(SIX, weather.floors, strict=True))
    flow = six(
        weather.rate,
        floors=floors,
        noise=weather.noise,
        seed=weather.seed,
        tells=weather.tells,
        counts=weather.tells and weather.counts,
    )
    looks = iter(range(100_000))
    flow.spoil = lambda facts: None if next(looks) % weather.lost == 0 else facts
    flow.run(loop, weather.seconds + CALM)
    return flow


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
@given(weathers)
def test_whatever_happens_floors_hold_changes_are_few_and_all_opens_again(
    weather: Weather,
) -> None:
    loop = loop_for(six_costs(weather.wrong), most_changes=MOST_CHANGES, reserve=4)
    flow = driven(weather, loop)
    floors = dict(zip(SIX, weather.floors, strict=True))
    for _, gates in flow.history:
        assert all(floors[name] <= kept < 1.0 for name, kept in gates.items())
    times = flow.taken
    assert all(sum(t <= at < t + 60 for at in times) <= MOST_CHANGES for t in times)
    assert len(flow.decisions) == len(flow.history)
    assert flow.gates == {}
    assert loop.snapshot().state is State.OPEN


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([0.1, 0.5, 1.0, 1.5]),
    st.sampled_from([0.3, 1.0, 3.0]),
    st.sampled_from([0.0, 0.1, 0.2]),
    st.integers(0, 5),
)
def test_gates_stay_open_while_load_fits(
    times: float, wrong: float, noise: float, seed: int
) -> None:
    flow = six(lambda _: SIX_RATE * times, noise=noise, seed=seed)
    per_tuple = flow.units[0].per_tuple({})
    assert SIX_RATE * times * per_tuple < 0.7 * CORES
    flow.run(loop_for(six_costs(wrong)), 30.0)
    assert flow.history == []
