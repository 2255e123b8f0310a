"""The load model, and the network that planners see, against one another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.simulated import SIX, six, six_costs, surge

from evenflow.control.correction import first_correction
from evenflow.control.facts import Batch, FlowFacts, QueryFacts, UnitFacts
from evenflow.control.flow_network import Terms, flow_network
from evenflow.control.model import TRUNK, FamilyModel, FlowModel, Part, UnitModel, flow_model
from evenflow.control.plans import AHEAD, Plans
from evenflow.model.costs import Costs, QueryCost
from evenflow.shed.evaluate import evaluate

BATCH = Batch(number=1, began=0.0, seconds=0.5, spacing=1.0, rows=10)
COSTS = Costs(
    reading={"s": 1e-6, "t": 3e-6},
    queries={
        "a": QueryCost(row=4e-6, own=1e-6),
        "b": QueryCost(row=4e-6, own=2e-6),
        "c": QueryCost(trunk=8e-6, row=2e-6, own=5e-6),
    },
)


def facts_of(**queries: QueryFacts) -> FlowFacts:
    unit = UnitFacts(
        id="u1",
        sources=("s",),
        every=1.0,
        families=(("a", "b"), ("c",)),
        active=True,
        batches=(BATCH,),
    )
    known = {name: queries.get(name, QueryFacts()) for name in ("a", "b", "c")}
    return FlowFacts(at=1.0, units=(unit,), queries=known)


def model_of(facts: FlowFacts, cores: float = 2.0) -> FlowModel:
    corrections = {unit.id: first_correction(1.0) for unit in facts.units}
    return flow_model(facts, COSTS, corrections, cores)


def test_a_family_pays_its_row_for_the_largest_fraction() -> None:
    unit = model_of(facts_of()).units[0]
    reading_and_trunk = 9e-6
    assert unit.per_tuple({}) == pytest.approx(reading_and_trunk + 4e-6 + 3e-6 + 7e-6)
    kept = unit.per_tuple({"a": 0.5, "b": 0.25, "c": 0.0})
    assert kept == pytest.approx(reading_and_trunk + 0.5 * 4e-6 + 0.5 * 1e-6 + 0.25 * 2e-6)


def test_what_a_tuple_costs_is_what_its_parts_do() -> None:
    unit = model_of(facts_of()).units[0]
    for keep in ({}, {"a": 0.5, "b": 0.25, "c": 0.0}, {"c": 0.7}):
        kept = unit.kept(keep)
        parts = sum(cost * kept[part] for part, cost in unit.costs().items())
        assert unit.per_tuple(keep) == pytest.approx(parts)


def test_a_trunk_behind_gates_is_paid_for_what_any_query_keeps() -> None:
    facts = facts_of()
    gated = replace(facts, units=(replace(facts.units[0], gated_trunk=True),))
    unit = model_of(gated).units[0]
    assert unit.per_tuple({"a": 0.5, "b": 0.0, "c": 0.25}) == pytest.approx(
        1e-6 + 0.5 * 8e-6 + 0.5 * 5e-6 + 0.25 * 7e-6
    )
    closed = {"a": 0.0, "b": 0.0, "c": 0.0}
    assert unit.per_tuple(closed) == pytest.approx(1e-6)


def test_what_is_never_shed_and_what_does_not_run() -> None:
    never = model_of(facts_of(c=QueryFacts(contract="never"), b=QueryFacts(floor=0.3)))
    assert never.floors() == {"a": 0.0, "b": 0.3, "c": 1.0}
    assert never.units[0].per_tuple({"c": 0.0}) == never.units[0].per_tuple({})
    paused = model_of(facts_of(c=QueryFacts(running=False)))
    assert {part.query for part in paused.parts()} == {"a", "b"}


def test_the_highest_surge_is_what_reading_and_floors_leave() -> None:
    model = model_of(facts_of(a=QueryFacts(floor=0.5)))
    least = 9e-6 + 0.5 * 5e-6
    assert model.highest_surge({"u1": 1000.0}, 1.5) == pytest.approx(1.5 / (1000 * least))
    assert model.highest_surge({"u1": 0.0}, 1.5) is None


def test_batches_that_take_long_without_rows_leave_less_capacity() -> None:
    facts = facts_of()
    slow = {"u1": replace(first_correction(1.0), known=np.array([0.4]))}
    slower = {"u1": replace(first_correction(1.0), known=np.array([0.8]))}
    model = flow_model(facts, COSTS, slow, 2.0)
    assert model.capacity(0.9, {"u1": 1.0}) == pytest.approx(1.0)
    assert model.capacity(0.9, {"u1": 0.0}) == pytest.approx(1.8)
    # Slower than `every`: batches follow one another, twice as long as they must be.
    assert flow_model(facts, COSTS, slower, 2.0).units[0].span == 1.6
    # An answer is as old as the batches since its tuples came: three of windows, two of others.
    asked = facts_of(a=QueryFacts(deadline=3.6))
    assert flow_model(asked, COSTS, slower, 2.0).units[0].span == pytest.approx(1.2)
    others = replace(asked, units=(replace(asked.units[0], windowed=False),))
    assert flow_model(others, COSTS, slower, 2.0).units[0].span == 1.6


def test_a_union_of_windows_costs_what_was_calibrated_in_all_its_parts() -> None:
    facts = facts_of()
    parts = replace(facts.units[0], families=(("a", "a", "b"), ("c",), ("a",)))
    whole, several = (model_of(replace(facts, units=(u,))) for u in (facts.units[0], parts))
    own = [sum(p.own for p in model.parts() if p.query == "a") for model in (whole, several)]
    assert own[1] == pytest.approx(own[0])


# Queries that share a gate.

SHARED = {"a": (4.0, 0.0), "b": (1.0, 0.2), "d": (1.0, 0.0)}
"""Weights and floors of queries with one gate."""


def shared_facts(**queries: QueryFacts) -> FlowFacts:
    """Return a unit with a, b and d behind one gate, and e behind one of its own."""
    unit = UnitFacts(
        id="u1",
        sources=("s",),
        every=1.0,
        families=(("a", "b", "e"), ("d", "a")),
        shared=(("a", "b"), ("a", "d")),
        active=True,
        batches=(BATCH,),
    )
    known = {n: QueryFacts(weight=w, floor=f) for n, (w, f) in SHARED.items()}
    known["e"] = QueryFacts(weight=3.0)
    return FlowFacts(at=1.0, units=(unit,), queries={**known, **queries})


def test_queries_that_share_a_gate_keep_the_largest_of_their_fractions() -> None:
    model = model_of(shared_facts())
    unit = model.units[0]
    alike = dict.fromkeys("abd", 0.5)
    for keep in ({"a": 0.5, "b": 0.1, "d": 0.2}, {"a": 0.0, "b": 0.5, "d": 0.1}):
        assert unit.per_tuple(keep) == pytest.approx(unit.per_tuple(alike))
        assert model.value(keep) == pytest.approx(model.value(alike))
    # One that is not named keeps everything, and so do the others.
    assert unit.per_tuple({"a": 0.0, "b": 0.0}) == unit.per_tuple({})
    assert model.floors() == {"a": 0.2, "b": 0.2, "d": 0.2, "e": 0.0}
    assert model.value({**alike, "e": 0.0}) == pytest.approx(3.0 / 9.0)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(min_value=1.05, max_value=30.0),
    st.sampled_from([0.5, 2.0, 8.0]),
    st.booleans(),
    st.booleans(),
)
def test_a_shared_gate_has_one_fraction_and_what_is_expected_happens(
    times: float, weight: float, never: bool, paused: bool
) -> None:
    """What happens is reckoned from fractions alone, as gates on Spark do."""
    facts = shared_facts(
        e=QueryFacts(weight=weight),
        b=QueryFacts(floor=0.2, running=not paused),
        d=QueryFacts(contract="never" if never else "window"),
    )
    model = model_of(facts)
    capacity = 1.0
    rates = {"u1": times * capacity / model.units[0].per_tuple({})}
    choice = Plans().choose(model, rates, capacity)
    keep = choice.keep
    assert set(keep) == set("abde")
    assert keep["a"] == keep["b"] == keep["d"] >= (0.0 if paused else 0.2)
    if never:
        assert keep["a"] == 1.0
    gate = max(keep["a"], keep["b"], keep["d"])
    own = {n: COSTS.of_query(n).own for n in "abde" if not (paused and n == "b")}
    row = {n: COSTS.of_query(n).row for n in own}
    reading = COSTS.of_source("s") + max(COSTS.of_query(n).trunk for n in own)
    first = max(row[n] for n in own if n in "abe") * max(gate, keep["e"])
    second = max(row["a"], row["d"]) * gate
    # One of them is in both families, and was calibrated as a whole.
    paid = sum(own[n] * gate for n in own if n in "abd") + own["e"] * keep["e"]
    load = rates["u1"] * (reading + first + second + paid)
    assert model.load(rates, keep) == pytest.approx(load)
    if load != pytest.approx(capacity, rel=1e-9):
        assert choice.fits == (load <= capacity)


def _within(kept: float, of: float) -> float:
    return kept / of if of > 0 else 1.0


shares = st.floats(min_value=0.0, max_value=1.0)


@settings(max_examples=60, deadline=None)
@given(shares, shares, shares, st.booleans())
def test_the_network_has_the_loads_of_the_model(a: float, b: float, c: float, gated: bool) -> None:
    facts = facts_of()
    facts = replace(facts, units=(replace(facts.units[0], gated_trunk=gated),))
    model = model_of(facts)
    made = flow_network(model, {"u1": Terms(input="s")}, 10.0)
    family = max(a, b)
    trunk = max(a, b, c)
    first = {"trunk": trunk if gated else 1.0}
    start = "trunk-u1" if gated else "s"
    keep = {
        f"{start}->rows-of-a": _within(family, first["trunk"]),
        f"{start}->rows-of-c": _within(c, first["trunk"]),
        "rows-of-a->a-u1": _within(a, family),
        "rows-of-a->b-u1": _within(b, family),
    }
    if gated:
        keep["s->trunk-u1"] = trunk
    outcome = evaluate(made.network, {"s": 1000.0}, keep)
    expected = model.load({"u1": 1000.0}, {"a": a, "b": b, "c": c})
    assert outcome.load["process"] == pytest.approx(expected)
    assert made.keep(outcome.throughput, {"u1": 1000.0}) == pytest.approx(
        {"a": a, "b": b, "c": c}, abs=1e-9
    )


def test_names_of_the_network_are_not_those_of_queries_and_sources() -> None:
    unit = UnitFacts(
        id="u1",
        sources=("s",),
        every=1.0,
        families=(("read-u1", "x" * 64), ("read-u1",)),
        active=True,
        batches=(BATCH,),
    )
    known = {"read-u1": QueryFacts(), "x" * 64: QueryFacts()}
    model = model_of(FlowFacts(at=1.0, units=(unit,), queries=known))
    made = flow_network(model, {"u1": Terms(input="rows-of-a")}, 1.0)
    parts = sorted(query for query, _ in made.outputs.values())
    assert parts == ["read-u1", "x" * 64]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5]), min_size=6, max_size=6),
    st.floats(min_value=0.1, max_value=60.0),
)
def test_chosen_gates_fit_keep_floors_and_drop_nothing_for_nothing(
    floors: list[float], times: float
) -> None:
    flow = six(surge(1.0, 1.0, 0, 0), floors=dict(zip(SIX, floors, strict=True)))
    flow.run_steps(40)
    facts = flow.facts()
    model = flow_model(facts, six_costs(), {"u1": first_correction(1.0)}, 2.0)
    rates = {"u1": 2200.0 * times}
    choice = Plans().choose(model, rates, 1.5)
    assert set(choice.keep) == set(SIX)
    assert all(choice.keep[name] >= floor for name, floor in model.floors().items())
    load = model.load(rates, choice.keep)
    assert choice.fits == (load <= 1.5 * (1 + 1e-9))
    if not choice.fits:
        assert choice.keep == model.floors()
        assert load > 1.5
    if choice.is_open:
        assert model.load(rates, {}) <= 1.5 * (1 + 1e-9)
    elif choice.fits and min(choice.keep.values()) > max(floors):
        assert load >= 1.5 * 0.98


def test_plans_are_made_ahead_and_serve_any_speed_and_capacity() -> None:
    flow = six(surge(1.0, 1.0, 0, 0))
    flow.run_steps(40)
    model = flow_model(flow.facts(), six_costs(), {"u1": first_correction(1.0)}, 2.0)
    plans = Plans()
    plans.prepare(model, {"u1": 2200.0}, 1.5)
    ((_, planner),) = plans._planners.values()
    met = planner.fragments[0].misses
    assert 0 < met <= len(AHEAD)
    unit = model.units[0]
    slow = replace(
        unit,
        reading=3 * unit.reading,
        families=tuple(
            replace(f, row=3 * f.row, parts=tuple(replace(p, own=3 * p.own) for p in f.parts))
            for f in unit.families
        ),
        fixed=0.3,
        span=2.0,
    )
    slower = replace(model, units=(slow,))
    for times in (2.2, 2.7, 4.4, 9.0, 15.0):
        choice = plans.choose(slower, {"u1": 2200.0 / 3 * times}, 1.1)
        assert choice.method == "exact"
    assert len(plans._planners) == 1
    assert planner.fragments[0].misses <= met + 1


def test_value_is_weight_times_share_whatever_the_rates_of_units() -> None:
    """A chatty stream does not outrank a slow one: the cheaper share of weight gives way."""
    fast = UnitFacts(
        id="u1", sources=("s",), every=1.0, families=(("a",),), active=True, batches=(BATCH,)
    )
    slow = replace(fast, id="u2", sources=("t",), families=(("b",),))
    costs = Costs(
        reading={"s": 0.0, "t": 0.0},
        queries={"a": QueryCost(own=1e-6), "b": QueryCost(own=1e-4)},
    )
    known = {"a": QueryFacts(weight=1.0), "b": QueryFacts(weight=2.0)}
    facts = FlowFacts(at=1.0, units=(fast, slow), queries=known)
    corrections = {unit.id: first_correction(1.0) for unit in facts.units}
    model = flow_model(facts, costs, corrections, 2.0)
    # Both need one second per second; b is worth twice as much.
    choice = Plans().choose(model, {"u1": 1e6, "u2": 1e4}, 1.5)
    assert choice.keep == pytest.approx({"a": 0.5, "b": 1.0}, abs=1e-3)


def test_parts_keep_their_names_when_a_family_stops_and_a_query_may_be_in_two() -> None:
    facts = facts_of()
    unit = replace(facts.units[0], families=(("a", "b"), ("a",), ("c",)))
    facts = replace(facts, units=(unit,))
    names = set(model_of(facts).units[0].costs())
    assert len([name for name in names if name.startswith("row of a")]) == 2
    paused = replace(facts, queries={**facts.queries, "b": QueryFacts(running=False)})
    assert set(model_of(paused).units[0].costs()) < names


def test_a_deadline_that_cannot_be_met_does_not_make_batches_too_short_for_rows() -> None:
    slow = {"u1": replace(first_correction(1.0), known=np.array([0.8]))}
    asked = facts_of(a=QueryFacts(deadline=1.0))
    model = flow_model(asked, COSTS, slow, 2.0)
    assert model.units[0].span == 1.6
    assert model.capacity(0.9, {"u1": 1.0}) == pytest.approx(2 * 0.4)


def test_a_trunk_before_which_several_draws_decide_is_paid_for_what_one_of_them_keeps() -> None:
    """Each family by hashes of its own, one of them with two windows to a tuple."""
    facts = facts_of()
    unit = replace(facts.units[0], gated_trunk=True, draws=((0, 1), (1, 2)))
    model = model_of(replace(facts, units=(unit,)))
    made, keep = model.units[0], {"a": 0.5, "b": 0.25, "c": 0.1}
    passing = 1 - 0.5 * 0.9**2
    assert made.kept(keep)[TRUNK] == pytest.approx(passing)
    assert made.per_tuple(keep) == pytest.approx(
        1e-6 + passing * 8e-6 + 0.5 * 4e-6 + 0.5 * 1e-6 + 0.25 * 2e-6 + 0.1 * 7e-6
    )
    assert made.per_tuple(dict.fromkeys(keep, 0.0)) == pytest.approx(1e-6)
    # What is chosen fits by this, too, although the planner reckons with the largest fraction.
    rates, capacity = {"u1": 1.0}, 0.3 * model.load({"u1": 1.0}, {})
    choice = Plans().choose(model, rates, capacity)
    assert choice.fits
    assert 0.9 * capacity < model.load(rates, choice.keep) <= capacity


@pytest.mark.parametrize("windows", [1, 2, 10, 30])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.8])
def test_gates_before_a_trunk_fit_however_many_windows_a_tuple_is_in(
    windows: int, share: float
) -> None:
    family = FamilyModel(
        row=0.0,
        parts=tuple(
            Part(query=name, own=own, weight=1.0, floor=0.0, never=False)
            for name, own in (("a", 0.1), ("b", 0.3))
        ),
        windows=windows,
    )
    unit = UnitModel(
        id="u1",
        sources=("s",),
        reading=0.1,
        trunk=1.0,
        families=(family,),
        fixed=0.0,
        factor=1.0,
        span=1.0,
    )
    model = FlowModel(units=(unit,), cores=1.0)
    capacity = 0.1 + share * 1.4
    choice = Plans().choose(model, {"u1": 1.0}, capacity)
    assert choice.fits
    assert 0.9 * capacity < model.load({"u1": 1.0}, choice.keep) <= capacity
    assert any(choice.keep.values())


def test_the_highest_surge_of_a_gated_trunk_is_what_reading_leaves() -> None:
    facts = facts_of()
    surges = [
        model_of(replace(facts, units=(replace(facts.units[0], gated_trunk=gated),))).highest_surge(
            {"u1": 1000.0}, 1.5
        )
        for gated in (False, True)
    ]
    assert surges == [pytest.approx(1.5 / 9e-3), pytest.approx(1.5 / 1e-3)]


def test_where_no_floors_fit_what_costs_nothing_is_kept() -> None:
    """To drop it would help nobody; the others are at their floors."""
    facts = facts_of()
    model = model_of(facts)
    cheap = replace(model.units[0].families[-1].parts[0], own=0.0)
    family = replace(model.units[0].families[-1], row=0.0, parts=(cheap,))
    unit = replace(model.units[0], families=(*model.units[0].families[:-1], family))
    model = replace(model, units=(unit,))
    floors = {part.query: max(part.floor, 0.1) for part in model.parts()}
    unit = replace(
        unit,
        families=tuple(
            replace(f, parts=tuple(replace(p, floor=floors[p.query]) for p in f.parts))
            for f in unit.families
        ),
    )
    model = replace(model, units=(unit,))
    choice = Plans().choose(model, {unit.id: 1e9}, 1.0)
    assert not choice.fits
    assert choice.keep == {**floors, cheap.query: 1.0}
