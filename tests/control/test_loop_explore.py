"""Every order of looks, answers, losses and meddling, for a flow of one query and three loads."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from tests.explorer import visit_all

from evenflow.control import budget
from evenflow.control import loop as loop_module
from evenflow.control.config import LoopConfig
from evenflow.control.decision import SetGates
from evenflow.control.facts import Batch, FlowFacts, QueryFacts, UnitFacts
from evenflow.control.loop import ControlLoop
from evenflow.control.state import State
from evenflow.errors import InternalError
from evenflow.model.costs import Costs, QueryCost

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from types import ModuleType

    from tests.explorer import Step

    from evenflow.control.decision import Effect

CONFIG = LoopConfig(cores=1.0, warm_up=0, most_changes=3, reserve=1, answer_within=5.0)
COSTS = Costs(reading={"s": 0.0}, queries={"q": QueryCost(own=1e-3, certainty=1.0)})
QUERY = QueryFacts(floor=0.1)
LOADS = {"idle": 100, "full": 2000, "too much": 50_000}
"""Rows per second, of which a thousand fit. With the last not even the floor does."""
SECOND = 2.0
"""Between looks; longer than patience."""


@dataclass(frozen=True)
class World:
    """A loop, the gates of its flow, and what it has asked for and not heard of."""

    loop: ControlLoop
    now: float = 1000.0
    gates: float = 1.0
    asked: tuple[SetGates, ...] = ()
    changes: tuple[tuple[int, float], ...] = ()
    """Number and time of those that were asked for, and not refused as far as the loop knows."""
    looks: int = 0
    batches: tuple[Batch, ...] = field(default=())


def copied(loop: ControlLoop) -> ControlLoop:
    """Return a loop of its own that shares the planners, which only remember."""
    return copy.deepcopy(loop, {id(loop._plans): loop._plans})


def facts_of(world: World, load: str) -> FlowFacts:
    rows = LOADS[load]
    kept = {} if world.gates >= 1.0 else {"q": world.gates}
    batch = Batch(
        number=world.looks,
        began=world.now - 0.5,
        seconds=0.1 + rows * world.gates * 1e-3,
        spacing=1.0,
        rows=rows,
        behind=0,
        gates=kept,
    )
    unit = UnitFacts(
        id="u1", sources=("s",), every=1.0, families=(("q",),), active=True, batches=(batch,)
    )
    return FlowFacts(at=world.now, units=(unit,), queries={"q": QUERY}, gates=kept)


def check(world: World) -> World:
    world.loop.check_invariants()
    assert world.gates >= QUERY.floor
    recent = [at for _, at in world.changes if world.now - at < 60]
    assert len(recent) <= CONFIG.most_changes, "too many changes in a minute"
    return world


def asked_of(effects: list[Effect]) -> tuple[SetGates, ...]:
    return tuple(effect for effect in effects if isinstance(effect, SetGates))


def look(world: World, load: str, *, complete: bool = True) -> World:
    loop = copied(world.loop)
    later = replace(world, loop=loop, now=world.now + SECOND, looks=world.looks + 1)
    facts = facts_of(later, load)
    before = loop.snapshot()
    if not complete:
        effects = loop.observe(replace(facts, units=()), later.now)
        assert not asked_of(effects), "it acted on facts with gaps"
    else:
        effects = loop.observe(facts, later.now)
    asked = asked_of(effects)
    if before.pending is not None and before.pending == loop.snapshot().pending:
        assert not asked, "a second change was asked for before the first was settled"
    made = tuple((effect.number, later.now) for effect in asked)
    return check(replace(later, asked=world.asked + asked, changes=world.changes + made))


def perform(world: World, number: int, *, error: str | None, lost: bool) -> World:
    loop = copied(world.loop)
    (effect,) = [each for each in world.asked if each.number == number]
    left = tuple(each for each in world.asked if each.number != number)
    gates = world.gates if error is not None else effect.keep.get("q", 1.0)
    changes = world.changes
    if error is not None and loop.snapshot().pending == number:
        changes = tuple(change for change in changes if change[0] != number)
    if not lost:
        assert asked_of(loop.applied(number, world.now + 0.1, error)) == ()
        assert loop.applied(number, world.now + 0.1, error) == [], "a second answer did something"
    later = replace(world, loop=loop, asked=left, gates=gates, now=world.now + 0.1)
    return check(replace(later, changes=changes))


def steps(world: World) -> Iterator[tuple[str, Step[World]]]:
    if world.looks < MOST_LOOKS:
        for load in LOADS:
            yield load, lambda w, load=load: look(w, load)
        yield "gap", lambda w: look(w, "too much", complete=False)
    for effect in world.asked:
        n = effect.number
        yield f"set {n}", lambda w, n=n: perform(w, n, error=None, lost=False)
        yield f"refuse {n}", lambda w, n=n: perform(w, n, error="no", lost=False)
        yield f"set {n}, unheard", lambda w, n=n: perform(w, n, error=None, lost=True)
    if world.gates < 1.0:
        yield "somebody opens", lambda w: check(replace(w, gates=1.0, now=w.now + 0.1))


MOST_LOOKS = 12
WORLDS = int(os.environ.get("EVENFLOW_LOOP_WORLDS", "800"))
"""How many are visited, the nearest first."""


def shape(world: World) -> Hashable:
    snapshot = world.loop.snapshot()
    return (
        snapshot.state,
        snapshot.gates,
        snapshot.pending,
        tuple(round(world.now - at, 1) for at in snapshot.changes),
        tuple(effect.number for effect in world.asked),
        round(world.gates, 2),
        world.looks,
        tuple((round(fixed, 2), round(factor, 1)) for _, fixed, factor in snapshot.corrections),
    )


def start() -> World:
    return World(loop=ControlLoop(CONFIG, COSTS))


@pytest.mark.slow
def test_no_order_of_events_breaks_a_promise() -> None:
    visited, _ = visit_all(start(), steps, shape, most=WORLDS)
    assert visited >= WORLDS


def test_it_settles_open_when_load_is_low() -> None:
    world = start()
    for load in ("full", "too much", "full"):
        world = look(world, load)
        for effect in world.asked:
            world = perform(world, effect.number, error=None, lost=False)
    assert world.gates < 1.0
    for _ in range(40):
        world = look(world, "idle")
        for effect in world.asked:
            world = perform(world, effect.number, error=None, lost=False)
    assert world.gates == 1.0
    assert world.loop.snapshot().state is State.OPEN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "fault", "value", "found"),
    [
        (budget, "MINUTE", 0.0, "too many changes"),
        (loop_module, "CHANGING", frozenset(), "."),
        (
            loop_module,
            "dropping",
            lambda gates: {name: kept / 2 for name, kept in gates.items()},
            ".",
        ),
    ],
    ids=["the limit is forgotten", "two changes at once", "gates are halved"],
)
def test_the_search_finds_faults(
    module: ModuleType, fault: str, value: object, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, fault, value)
    with pytest.raises((AssertionError, InternalError), match=found):
        visit_all(start(), steps, shape, most=20_000)
