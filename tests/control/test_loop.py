"""The core beside a simulated flow: surges, wrong costs, bad facts, refusals, dry runs."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.control.simulated import (
    CORES,
    FIXED,
    SIX,
    SIX_RATE,
    WEIGHTS,
    SimFlow,
    SimUnit,
    loop_for,
    six,
    six_costs,
    surge,
)

from evenflow.control.config import LoopConfig
from evenflow.control.correction import first_correction
from evenflow.control.decision import Act, Effect
from evenflow.control.facts import NOBODY, STANDS, FlowFacts, QueryFacts
from evenflow.control.loop import ControlLoop
from evenflow.control.model import flow_model
from evenflow.control.plans import Plans
from evenflow.control.state import State
from evenflow.errors import ConfigError
from evenflow.model.costs import Costs, QueryCost

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.control.simulated import Rate

BEGIN, END = 20.0, 50.0
INTERVALS = 5


def opened_at(flow: SimFlow) -> float:
    """Return when all gates were open for good."""
    at, gates = flow.history[-1]
    assert gates == {}
    return at


def reacted_at(flow: SimFlow) -> float:
    """Return when the first drops of the surge were set."""
    return next(at for at, gates in flow.history if gates and at >= BEGIN)


@pytest.mark.parametrize("times", [3.0, 10.0])
@pytest.mark.parametrize("wrong", [1.0, 3.0, 1 / 3])
@pytest.mark.parametrize(("tells", "counts"), [(True, True), (True, False), (False, False)])
def test_a_surge_is_held_and_everything_opens_after_it(
    times: float, wrong: float, tells: bool, counts: bool
) -> None:
    flow = six(surge(SIX_RATE, times, BEGIN, END), tells=tells, counts=counts)
    loop = loop_for(six_costs(wrong))
    flow.run(loop, 70.0)
    assert BEGIN < reacted_at(flow) <= BEGIN + 3
    assert END < opened_at(flow) <= END + INTERVALS
    unloaded = flow.worst_delay(5, BEGIN)
    assert flow.worst_delay(BEGIN + 2 * INTERVALS, END) <= 1.5 * unloaded
    assert loop.snapshot().state is State.OPEN
    assert loop.snapshot().gates == ()


def test_the_least_value_is_lost() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    flow.run(loop_for(), 45.0)
    # By weight for cost: a 4/20, c 4/40, then b and e 1/20, d 1/40, f 1/80.
    keep = {name: flow.gates.get(name, 1.0) for name in SIX}
    assert keep["a"] == 1.0
    assert keep["c"] > 0.8
    assert keep["d"] == keep["f"] == 0.0


def test_nothing_is_dropped_while_load_fits() -> None:
    for wrong in (1.0, 3.0, 1 / 3):
        flow = six(lambda _: 1.6 * SIX_RATE, noise=0.05)
        flow.run(loop_for(six_costs(wrong)), 60.0)
        assert flow.history == []


def test_one_cost_that_is_wrong_does_not_become_a_missed_deadline() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    flow.run(loop_for(six_costs(1.0, a=1 / 3, c=3.0)), 70.0)
    assert flow.worst_delay(BEGIN + 2 * INTERVALS, END) <= 2.5
    assert opened_at(flow) <= END + INTERVALS


def test_costs_that_were_only_guessed_hold_deadlines_too() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END), deadline=4.0)
    flow.run(loop_for(Costs()), 70.0)
    assert flow.worst_delay(BEGIN + 2 * INTERVALS, END) <= 4.0
    assert opened_at(flow) <= END + INTERVALS


@pytest.mark.parametrize("seed", range(4))
def test_noise_makes_few_changes(seed: int) -> None:
    flow = six(surge(SIX_RATE, 6.0, BEGIN, END), noise=0.2, seed=seed)
    flow.run(loop_for(), 70.0)
    assert len(flow.history) <= 16
    assert flow.worst_delay(BEGIN + 2 * INTERVALS, END) <= 3.5
    assert opened_at(flow) <= END + INTERVALS + 1


def test_floors_hold_even_if_they_do_not_fit() -> None:
    floors = dict.fromkeys(SIX, 0.3)
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END), floors=floors)
    flow.run(loop_for(), 40.0)
    assert all(kept >= 0.3 for _, gates in flow.history for kept in gates.values())
    assert flow.gates == floors
    assert "not even the floors fit" in flow.decisions[-1].why
    assert flow.decisions[-1].expected["fits"] is False


def test_what_is_never_shed_is_not() -> None:
    flow = six(surge(SIX_RATE, 4.0, BEGIN, END))
    flow.queries["f"] = replace(flow.queries["f"], contract="never")
    flow.run(loop_for(), 40.0)
    assert flow.gates
    assert all("f" not in gates for _, gates in flow.history)


def test_a_source_that_is_limited_is_planned_for_what_it_gives() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END), limit=12_000)
    flow.run(loop_for(), 45.0)
    assert flow.units[0].behind > 0
    value = sum(WEIGHTS[name] * flow.gates.get(name, 1.0) for name in SIX)
    assert value > 0.4 * sum(WEIGHTS.values())
    assert flow.worst_delay(BEGIN + 2 * INTERVALS, 45) <= 2.5
    flow.run(loop_for(), 60.0)
    assert flow.units[0].behind == 0
    assert flow.gates == {}


@pytest.mark.parametrize("wrong", [1.0, 3.0, 1 / 3])
def test_the_first_batch_of_a_surge_is_short_where_batches_can_be_limited(wrong: float) -> None:
    flow = six(surge(SIX_RATE, 20.0, BEGIN, END))
    flow.limits = True
    flow.run(loop_for(six_costs(wrong)), 70.0)
    unloaded = flow.worst_delay(5, BEGIN)
    assert flow.worst_delay(BEGIN) <= 2.2 * unloaded
    assert flow.worst_delay(BEGIN + INTERVALS, END) <= 1.6 * unloaded
    assert flow.units[0].behind == 0
    assert opened_at(flow) <= END + INTERVALS


def test_two_units_share_the_machine() -> None:
    costs = {"x": QueryCost(own=100e-6), "y": QueryCost(own=50e-6)}
    units = [
        SimUnit(id="u1", families=(("x",),), costs=costs, rate=surge(3000, 8.0, BEGIN, END)),
        SimUnit(id="u2", families=(("y",),), costs=costs, rate=lambda _: 4000.0),
    ]
    flow = SimFlow(units, {"x": QueryFacts(deadline=4.0), "y": QueryFacts(weight=4.0)})
    known = Costs(
        reading={"s": 2e-6},
        queries={n: replace(c, certainty=0.9) for n, c in costs.items()},
    )
    flow.run(loop_for(known), 70.0)
    assert any(gates.get("x", 1.0) < 0.4 for _, gates in flow.history)
    assert all("y" not in gates for at, gates in flow.history if at > BEGIN + 6)
    assert flow.worst_delay(BEGIN + 3 * INTERVALS, END) <= 4.0
    assert opened_at(flow) <= END + 2 * INTERVALS


# Facts that are not to be trusted.


def test_missing_metrics_move_nothing() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))

    def spoil(facts: FlowFacts) -> FlowFacts:
        if flow.clock < BEGIN:
            return facts
        unit = facts.units[0]
        batches = tuple(replace(batch, rows=None) for batch in unit.batches)
        return replace(facts, units=(replace(unit, batches=batches),))

    flow.spoil = spoil
    loop = loop_for()
    flow.run(loop, 40.0)
    assert flow.history == []
    assert "rows" in loop.snapshot().gaps[0]


def test_gates_stay_as_they_are_while_facts_are_missing() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, 30.0))
    flow.spoil = lambda facts: (
        facts if flow.clock < 28 or flow.clock > 45 else replace(facts, units=())
    )
    flow.run(loop_for(), 44.0)
    assert flow.gates
    flow.run(loop_for(), 12.0)  # a new loop, as after a restart, finds them shut
    assert flow.gates == {}


def test_old_facts_move_nothing() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    flow.spoil = lambda facts: facts if flow.clock < BEGIN else replace(facts, at=facts.at - 6)
    loop = loop_for()
    flow.run(loop, 40.0)
    assert flow.history == []
    assert "old" in loop.snapshot().gaps[0]


def test_numbers_that_make_no_sense_move_nothing() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))

    def spoil(facts: FlowFacts) -> FlowFacts:
        queries = {n: replace(q, delay=math.nan) for n, q in facts.queries.items()}
        return facts if flow.clock < BEGIN else replace(facts, queries=queries)

    flow.spoil = spoil
    flow.run(loop_for(), 40.0)
    assert flow.history == []


def test_every_second_look_may_be_lost() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    looks = iter(range(10_000))
    flow.spoil = lambda facts: facts if next(looks) % 3 == 0 else None
    flow.run(loop_for(), 70.0)
    assert reacted_at(flow) <= BEGIN + 3
    assert opened_at(flow) <= END + INTERVALS


def test_the_first_batches_are_cold_and_do_not_count() -> None:
    flow = six(lambda _: SIX_RATE)
    loop = loop_for()
    flow.units[0].reading = 400e-6
    flow.run(loop, 2.9)
    ((_, _, factor),) = loop.snapshot().corrections
    assert factor <= 1.0
    flow.units[0].reading = 2e-6
    flow.run(loop, 27.0)
    assert flow.history == []


# What becomes of changes.


def test_a_change_that_is_refused_is_tried_again() -> None:
    flow = six(surge(SIX_RATE, 5.0, BEGIN, END))
    flow.refuse = lambda now: "no room" if now < flow.start + BEGIN + 3 else None
    loop = loop_for()
    flow.run(loop, 70.0)
    refused = [outcome for outcome in flow.outcomes if outcome.reason == "no room"]
    assert refused
    assert not any(outcome.applied for outcome in refused)
    assert opened_at(flow) <= END + INTERVALS


def test_a_change_of_which_nothing_is_heard_is_given_up() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    loop = loop_for()
    flow.run(loop, BEGIN + 0.5)
    effects: list[Effect] = []
    while not effects:
        flow.run_steps(1)
        effects = loop.observe(flow.facts(), flow.now)
    assert loop.snapshot().state is State.CLOSING
    deadline = loop.next_deadline()
    assert deadline is not None
    assert loop.observe(flow.facts(), flow.now) == []
    (record,) = loop.observe(replace(flow.facts(), at=deadline), deadline)[:1]
    assert record.entry.applied is False  # type: ignore[union-attr]
    loop.check_invariants()
    # The answer that comes at last is ignored.
    assert loop.applied(1, deadline + 1) == []


def test_gates_that_somebody_else_set_are_believed() -> None:
    flow = six(lambda _: SIX_RATE)
    loop = loop_for()
    flow.run(loop, 10.0)
    flow.gates = {"a": 0.5, "b": 1.0}
    flow.run(loop, 0.5)
    (decision,) = flow.decisions
    assert (decision.act, decision.before) == (Act.OPEN, {"a": 0.5})
    assert flow.gates == {}


def test_gates_that_somebody_else_opened_are_shut_again() -> None:
    flow = six(surge(SIX_RATE, 5.0, BEGIN, END))
    loop = loop_for()
    flow.run(loop, 30.0)
    assert loop.snapshot().state is State.SHEDDING
    flow.gates = {}
    flow.run(loop, 0.5)
    assert flow.gates


def test_a_dry_run_decides_and_changes_nothing() -> None:
    flow = six(surge(SIX_RATE, 3.0, BEGIN, END))
    loop = loop_for(dry_run=True)
    flow.run(loop, 40.0)
    assert flow.history == []
    assert flow.decisions
    assert all(decision.dry_run for decision in flow.decisions)
    assert {outcome.reason for outcome in flow.outcomes} == {"dry run"}
    assert len(flow.decisions) <= 20


def test_every_decision_says_why_and_later_what_it_did() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    flow.run(loop_for(), 70.0)
    acts = [decision.act for decision in flow.decisions]
    assert acts[0] is Act.SHED
    assert acts[-1] is Act.OPEN
    assert set(acts[1:-1]) <= {Act.ADJUST}
    assert [decision.number for decision in flow.decisions] == list(range(1, len(acts) + 1))
    first = flow.decisions[0]
    assert "rows/s" in first.why
    assert "times what fits" in first.why
    assert first.facts["rows_per_second"]["u1"] > 5 * SIX_RATE
    assert first.expected["fits"] is True
    assert 0 < first.expected["value"] < 1
    for decision in flow.decisions:
        told = [o for o in flow.outcomes if o.number == decision.number]
        assert told[0].applied
        assert told[-1].measured is not None or "replaced" in str(told[-1].reason)
        assert decision.as_json()["act"] == decision.act.value
    assert any(outcome.measured for outcome in flow.outcomes)


def test_changes_per_minute_are_limited() -> None:
    flow = six(lambda t: SIX_RATE * (8.0 if int(t / 3) % 2 else 0.8))
    loop = loop_for(most_changes=6, reserve=2)
    flow.run(loop, 150.0)
    times = flow.taken
    assert len(times) > 6
    assert all(sum(t <= at < t + 60 for at in times) <= 6 for t in times)


def test_gates_that_no_batch_has_had_do_not_count_as_changes() -> None:
    """A surge shows bit by bit: what is set while a batch is under way must not use up changes."""
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END), counts=True, deadline=2.0)
    loop = loop_for(six_costs(3.0))
    flow.run(loop, BEGIN + 15)
    assert len(flow.taken) < len(flow.history)
    assert len(loop.snapshot().changes) == len(flow.taken)


def test_answers_that_stay_late_squeeze_the_capacity() -> None:
    """Something takes time that the model does not know: every answer waits for its sink."""
    flow = six(surge(SIX_RATE, 3.0, BEGIN, END), deadline=1.6)
    loop = loop_for()
    flow.run(loop, 45.0)
    assert loop.snapshot().squeeze < 1.0
    assert flow.worst_delay(38, 45) <= 1.6
    flow.run(loop, 20.0)
    assert flow.gates == {}


@pytest.mark.parametrize(
    "setting",
    [
        {"cores": 0.0},
        {"cores": math.nan},
        {"utilisation": 1.5},
        {"tolerance": -0.1},
        {"most_changes": 2, "reserve": 2},
        {"warm_up": -1},
    ],
)
def test_settings_are_right_once_there(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigError) as caught:
        LoopConfig(**setting)  # type: ignore[arg-type]
    assert caught.value.code == "config.invalid"


def test_the_same_facts_give_the_same_decisions() -> None:
    stories = []
    for _ in range(2):
        flow = six(surge(SIX_RATE, 10.0, BEGIN, END), noise=0.1, seed=3)
        flow.run(ControlLoop(LoopConfig(cores=2.0), six_costs()), 60.0)
        stories.append([decision.as_json() for decision in flow.decisions])
    assert stories[0] == stories[1]


# Costs that are wrong one against the other.


@pytest.mark.parametrize("times", [3.0, 10.0])
def test_costs_wrong_one_against_the_other_cost_little_of_the_optimum(times: float) -> None:
    """The cheap ones seem dearer than they are, the dear ones cheaper, as by a calibration."""
    wrong = {"a": 1.5, "b": 1.5, "c": 1.1, "d": 1.1, "e": 0.7, "f": 0.6}
    flow = six(surge(SIX_RATE, times, BEGIN, END), noise=0.05)
    flow.limits = True
    flow.run(loop_for(six_costs(**wrong)), END)
    true = flow_model(flow.facts(), six_costs(), {"u1": first_correction(1.0)}, CORES)
    best = Plans().choose(true, {"u1": SIX_RATE * times}, CORES * (1 - FIXED))
    kept = [
        sum(WEIGHTS[name] * flow.kept_at(name, BEGIN + second) for name in SIX)
        for second in range(1, int(END - BEGIN))
    ]
    optimum = sum(WEIGHTS[name] * best.keep[name] for name in SIX)
    assert statistics.mean(kept) >= 0.85 * optimum
    assert len(flow.history) <= 8


def test_gates_below_a_floor_are_raised_in_overload_too() -> None:
    """Somebody set them by hand, or a query came back with a floor."""
    flow = six(surge(SIX_RATE, 20.0, BEGIN, END), floors={"f": 0.3})
    loop = loop_for()
    flow.run(loop, BEGIN + 10)
    assert flow.gates["f"] >= 0.3
    flow.gates = {**flow.gates, "a": 0.0, "f": 0.0}
    flow.run(loop, 5.0)
    assert flow.gates["f"] >= 0.3


def test_what_is_held_back_is_a_share_of_what_rows_may_take() -> None:
    flow = six(lambda _: SIX_RATE)
    loop = loop_for()
    flow.run(loop, 10.0)
    view = loop.snapshot().view
    assert view is not None
    assert view.squeezed(0.4, ()).capacity == pytest.approx(0.4 * view.capacity)


def test_what_was_held_back_comes_back_though_nobody_answers() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END), deadline=1.9)
    loop = loop_for()
    flow.run(loop, BEGIN + 5)
    loop._learned.squeeze = 0.4
    before = flow.queries
    flow.spoil = lambda facts: replace(
        facts, queries={n: replace(q, answered_at=None) for n, q in before.items()}
    )
    flow.run(loop, 10.0)
    assert loop.snapshot().squeeze > 0.45


# Units that get nothing.


def with_second(
    flow: SimFlow, rate: Rate, stands: Callable[[float], bool] = lambda _: False
) -> SimUnit:
    """Add a unit with a query of its own to six queries."""
    costs = {"g": QueryCost(row=5e-6, own=15e-6)}
    second = SimUnit(id="u2", families=(("g",),), costs=costs, rate=rate, stands=stands)
    second.started = flow.now
    flow.units.append(second)
    flow.queries["g"] = QueryFacts(weight=1.0, deadline=4.0)
    return second


@pytest.mark.parametrize("batches", [0, 1])
def test_a_silent_source_does_not_keep_others_from_shedding(batches: int) -> None:
    """It has not given enough rows to know its unit, or none at all; Spark then begins no batch."""
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    second = with_second(flow, lambda t: 100.0 if t < batches else 0.0)
    loop = loop_for()
    flow.run(loop, 70.0)
    assert len(second.batches) <= 2 * batches
    assert BEGIN < reacted_at(flow) <= BEGIN + 3
    assert END < opened_at(flow) <= END + INTERVALS
    assert flow.worst_delay(BEGIN + 2 * INTERVALS, END) <= 2.5
    assert all(decision.act is not Act.CATCH_UP for decision in flow.decisions)
    view = loop.snapshot().view
    assert view is not None
    assert not view.catching_up


def test_a_unit_that_is_held_in_a_surge_does_not_keep_gates_shut() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    with_second(flow, lambda _: SIX_RATE, stands=lambda t: t > BEGIN + 5)
    loop = loop_for()
    flow.run(loop, END)
    assert flow.gates
    assert flow.history[-1][0] > BEGIN + STANDS
    flow.run(loop, 20.0)
    assert END < opened_at(flow) <= END + INTERVALS


def test_a_short_stop_of_a_unit_changes_no_gates() -> None:
    """A change of its queries: nobody knows what it will need when it goes on."""
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END))
    with_second(flow, lambda _: 20 * SIX_RATE, stands=lambda t: 30 <= t < 35)
    flow.queries["g"] = replace(flow.queries["g"], weight=15.0)
    flow.run(loop_for(), END - 5)
    assert flow.history
    assert not [at for at, _ in flow.history if 30.3 < at < 35]


def test_gates_stay_shut_while_all_units_stand_still() -> None:
    flow = six(surge(SIX_RATE, 10.0, BEGIN, END), stands=lambda t: t > BEGIN + 8)
    loop = loop_for()
    flow.run(loop, BEGIN + 9 + 2 * STANDS)
    assert flow.gates
    assert loop.snapshot().gaps == ("no unit runs",)


def test_queries_that_nobody_reads_give_way_first() -> None:
    """Kept queries go on without sinks: they weigh nothing, and cost what they did."""
    flow = six(surge(SIX_RATE, 5.0, BEGIN, END))
    for name in ("e", "f"):
        flow.queries[name] = replace(flow.queries[name], weight=NOBODY, deadline=None)
    loop = loop_for()
    flow.run(loop, BEGIN + 15)
    assert flow.gates["f"] == 0.0
    assert set(flow.gates) == {"e", "f"}
    assert flow.worst_delay(BEGIN + 5) <= 4.0
    flow.run(loop, END)
    assert flow.gates == {}
