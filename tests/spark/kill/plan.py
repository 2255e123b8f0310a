"""Cases: the six kills that are worth most, and others at random, the same for the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.schedule.request import QueryState
from tests.spark.kill.points import BATCH, CHANGE, EXECUTORS, RECOVERY, SEED, STOP
from tests.spark.kill.process import Kill, at_random

if TYPE_CHECKING:
    import random

    from tests.spark.kill.case import KilledSet
    from tests.spark.kill.report import Report

SIX_FIXED, SIX_FILES = ("plain", "q0", "rejects"), 8
FIXED = (("plain", "q0"), ("q0", "q1", "rejects"), ("plain",))
"""Whether a new unit begins behind one with windows or without depends on these."""
_OPENING = ("sorted", "twin", "plain")
"""Queries that open a unit, unless one of their kind is there: the first two are equal."""
_MANIFEST = ("before the manifest", "half a manifest", "after the manifest")
_SEVERAL = {"while sowing": 2, "seed half removed": 5, "batch begun": 2, "answers, no counts": 2}
"""Points that are reached several times, and at which of them to kill at most."""


def live_six(case: KilledSet) -> Report:
    """Kill six times."""
    case.begin()
    case.read(3, Kill("after a write"))
    case.change("subscribe", "sorted", Kill("before the manifest"), Kill("while sowing"))
    case.read(2, Kill("answers, no counts", 2), Kill("recovery, after the manifest"))
    case.change("pause", "q0", Kill("before starting"))
    case.read(1)
    case.change("resume", "q0")
    case.read(2)
    return case.judge(case.stop())


def files_for(kills: int) -> int:
    """Return how many files `live_at_random` reads."""
    return 4 + 2 * -(-kills // 4)


def live_at_random(case: KilledSet, rng: random.Random, kills: int) -> Report:
    """Kill some times, while the flow reads, changes and starts."""
    left = kills - 1
    case.begin()
    case.read(2)
    while case.laid < case.files - 2:
        now = min(left, 2)
        case.read(2, *_reading(case, rng, now))
        left -= now
        now = min(left, 2)
        _change(case, rng, now)
        left -= now
    case.read(2)
    return case.judge(case.stop(_at(rng, tuple(STOP))))


def _at(rng: random.Random, points: tuple[str, ...]) -> Kill:
    point = rng.choice(points)
    return Kill(point, rng.randint(1, _SEVERAL.get(point, 1)))


def _reading(case: KilledSet, rng: random.Random, count: int) -> list[Kill]:
    """Draw kills while the flow reads: the first while it runs, the next as it starts."""
    first = at_random(rng, 2.0) if rng.random() < 0.2 else _at(rng, tuple(BATCH))
    if rng.random() < 0.3:
        return [first, at_random(rng, 12.0)][:count]
    plain = case.life.states.get("plain") is QueryState.RUNNING
    return [first, _at(rng, (*RECOVERY, *(EXECUTORS if plain else ())))][:count]


def _change(case: KilledSet, rng: random.Random, count: int) -> None:
    """Make a change at random, killed."""
    move, name, points = _move(case, rng)
    if rng.random() < 0.2:
        kills = [at_random(rng, 2.0), at_random(rng, 12.0)]
    else:
        kills = [_at(rng, points), _at(rng, (*points, *RECOVERY))]
    case.change(move, name, *kills[:count], again=rng.random() < 0.7)


def _move(case: KilledSet, rng: random.Random) -> tuple[str, str, tuple[str, ...]]:
    """Draw a change, and return with it the points that it reaches."""
    states, fixed = case.life.states, case.life.fixed
    there = {"sorted", "twin"} & set(states)
    opening = [n for n in _OPENING if n not in states and not (n != "plain" and there)]
    if opening and rng.random() < 0.6:
        return "subscribe", rng.choice(opening), (*SEED, *_MANIFEST)
    name = rng.choice([n for n in case.life.names if n not in opening])
    state = states.get(name)
    if state is None:
        return "subscribe", name, _MANIFEST
    if state is QueryState.PAUSED:
        return "resume", name, tuple(CHANGE)
    if name in fixed or (state is QueryState.RUNNING and rng.random() < 0.4):
        return "pause", name, tuple(CHANGE)
    if state is QueryState.RUNNING and rng.random() < 0.4:
        return "keep", name, tuple(CHANGE)
    return "unsubscribe", name, (*_MANIFEST, "before stopping", "after stopping")
