"""A tiny flow: rows pile up, batches take them, gates thin them. Processor sharing, no Spark."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from evenflow.control.config import LoopConfig
from evenflow.control.decision import Decision, Effect, Outcome, Record, SetGates, SetLimit
from evenflow.control.facts import Batch, FlowFacts, QueryFacts, UnitFacts
from evenflow.control.loop import ControlLoop
from evenflow.model.costs import Costs, QueryCost

STEP = 0.05
LOOK = 0.25
CORES = 2.0
FIXED = 0.15
PARALLEL = 8

Rate = Callable[[float], float]


@dataclass
class SimUnit:
    """A unit with true costs, in processor-seconds per tuple."""

    id: str
    families: tuple[tuple[str, ...], ...]
    costs: Mapping[str, QueryCost]
    rate: Rate
    reading: float = 2e-6
    every: float = 1.0
    limit: int | None = None
    """Rows that a batch reads at most."""
    tells: bool = True
    """Whether the source says how many rows a batch has, and how many wait."""
    counts: bool = False
    """Whether it says at any time how many wait."""
    windowed: bool = False
    closes: bool = False
    """Whether a batch without rows follows one that had some, as Spark's do, to close windows."""
    stands: Callable[[float], bool] = lambda _: False
    """At which times it stands still: no batch begins, rows wait."""
    started: float | None = None
    stood: bool = False
    waiting: float = 0.0
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=PARALLEL))
    number: int = -1
    began: float = float("-inf")
    before: float = float("-inf")
    earlier: float = float("-inf")
    """When the batch before that began."""
    rows: int = 0
    behind: int = 0
    left: float = 0.0
    """Machine-seconds that the running batch still needs."""
    had: float = 0.0
    running: bool = False
    latched: dict[str, float] = field(default_factory=dict)
    """Gates of the next batch: those in force when the one before it ended."""
    gates: dict[str, float] = field(default_factory=dict)

    def per_tuple(self, keep: Mapping[str, float]) -> float:
        cost, most = self.reading, 0.0
        for family in self.families:
            kept = [keep.get(name, 1.0) for name in family]
            most = max(most, *kept)
            cost += max(self.costs[name].row for name in family) * max(kept)
            cost += sum(self.costs[n].own * k for n, k in zip(family, kept, strict=True))
        return cost + most * max(self.costs[n].trunk for f in self.families for n in f)


class SimFlow:
    """Units on one machine. `run` drives a loop beside it and keeps what happened."""

    def __init__(
        self,
        units: list[SimUnit],
        queries: Mapping[str, QueryFacts],
        *,
        cores: float = CORES,
        fixed: float = FIXED,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.units = units
        self.queries = dict(queries)
        self.cores = cores
        self.fixed = fixed
        """Machine-seconds that a batch takes without rows."""
        self.now = 1000.0
        self.start = self.now
        self.gates: dict[str, float] = {}
        self.history: list[tuple[float, dict[str, float]]] = []
        self.taken: list[float] = []
        """When a batch got other gates than the one before."""
        self.decisions: list[Decision] = []
        self.outcomes: list[Outcome] = []
        self.delays: list[tuple[float, float]] = []
        """When an answer became visible, and how old it was."""
        self.limits = False
        """Whether its source can be limited while it runs."""
        self.refuse: Callable[[float], str | None] = lambda _: None
        self.spoil: Callable[[FlowFacts], FlowFacts | None] = lambda facts: facts
        self.after_look: Callable[[ControlLoop], None] = lambda loop: loop.check_invariants()
        self._noise = noise
        self._random = random.Random(seed)

    @property
    def clock(self) -> float:
        """Seconds since the start."""
        return self.now - self.start

    def run(self, loop: ControlLoop, seconds: float) -> None:
        end, look = self.now + seconds, self.now
        while self.now < end - 1e-9:
            self._step()
            if self.now >= look - 1e-9:
                look = self.now + LOOK
                facts = self.spoil(self.facts())
                if facts is not None:
                    self.perform(loop, loop.observe(facts, self.now))
                self.after_look(loop)

    def run_steps(self, steps: int) -> None:
        """Let it run without a loop."""
        for _ in range(steps):
            self._step()

    def perform(self, loop: ControlLoop, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Record):
                kept = self.decisions if isinstance(effect.entry, Decision) else self.outcomes
                kept.append(effect.entry)  # type: ignore[arg-type]
            elif isinstance(effect, SetGates):
                error = self.refuse(self.now)
                if error is None:
                    self.gates = dict(effect.keep)
                    self.history.append((self.clock, self.gates))
                self.perform(loop, loop.applied(effect.number, self.now, error))
            elif isinstance(effect, SetLimit):
                if self.limits:
                    for unit in self.units:
                        unit.limit = effect.rows
                loop.limited(effect.source, done=self.limits)

    def _step(self) -> None:
        self.now += STEP
        for unit in self.units:
            unit.waiting += unit.rate(self.clock) * STEP
            stands = unit.stands(self.clock)
            if unit.stood and not stands:
                unit.started = self.now
            unit.stood = stands
            if (
                not unit.running
                and not stands
                and (unit.waiting >= 1 or (unit.closes and unit.rows))
                and self.now - unit.began >= unit.every - 1e-9
            ):
                self._begin(unit)
        active = [unit for unit in self.units if unit.running]
        for unit in active:
            unit.left -= STEP / len(active)
            unit.had += STEP / len(active)
            if unit.left <= 1e-9:
                self._finish(unit)

    def _begin(self, unit: SimUnit) -> None:
        unit.rows = int(unit.waiting if unit.limit is None else min(unit.waiting, unit.limit))
        unit.waiting -= unit.rows
        unit.behind = int(unit.waiting)
        unit.number += 1
        unit.earlier, unit.before, unit.began = unit.before, unit.began, self.now
        unit.gates = unit.latched
        work = self.fixed + unit.rows * unit.per_tuple(unit.gates) / self.cores
        unit.left = work * self._random.uniform(1 - self._noise, 1 + self._noise)
        unit.had, unit.running = 0.0, True

    def _finish(self, unit: SimUnit) -> None:
        unit.running = False
        if unit.latched != self.gates:
            self.taken.append(self.clock)
        unit.latched = dict(self.gates)
        unit.batches.append(self._batch(unit, self.now - unit.began))
        since = unit.earlier if unit.windowed else unit.before
        if since > 0:
            delay = self.now - since
            self.delays.append((self.clock, delay))
            for name in {n for f in unit.families for n in f}:
                self.queries[name] = replace(self.queries[name], delay=delay, answered_at=self.now)

    def _batch(self, unit: SimUnit, seconds: float | None) -> Batch:
        known = unit.tells or seconds is not None
        # Of the first batch since a start Spark does not report when the one before it was.
        first = seconds is not None and unit.started is not None and unit.before < unit.started
        share = unit.had / seconds if seconds else 1.0
        return Batch(
            number=unit.number,
            began=unit.began,
            seconds=seconds,
            spacing=unit.began - unit.before if unit.before > 0 and not first else None,
            rows=unit.rows if known else None,
            behind=unit.behind if unit.tells else None,
            share=min(1.0, max(share, 0.01)),
            gates=dict(unit.gates),
        )

    def facts(self) -> FlowFacts:
        units = tuple(
            UnitFacts(
                id=unit.id,
                sources=("s",),
                every=unit.every,
                families=unit.families,
                active=not unit.stood,
                windowed=unit.windowed,
                batches=tuple(unit.batches),
                under_way=self._batch(unit, None) if unit.running else None,
                waiting=int(unit.waiting) if unit.counts else None,
                idle=not unit.batches and not unit.running and unit.waiting < 1,
                started=unit.started,
            )
            for unit in self.units
        )
        return FlowFacts(
            at=self.now, units=units, queries=dict(self.queries), gates=dict(self.gates)
        )

    def kept_at(self, name: str, clock: float) -> float:
        """Return the fraction that the gate of a query was set to, some seconds after the start."""
        set_before = [gates for at, gates in self.history if at <= clock]
        return set_before[-1].get(name, 1.0) if set_before else 1.0

    def worst_delay(self, since: float, until: float = float("inf")) -> float:
        """Return the largest delay of answers that became visible in a time."""
        return max((d for at, d in self.delays if since <= at <= until), default=0.0)


def bursts(rate: float, period: float) -> Rate:
    """Return a rate whose rows come all at once, every few seconds."""

    def at(t: float) -> float:
        number, before = ((clock + STEP / 2) // period for clock in (t, t - STEP))
        return rate * period / STEP if number > before else 0.0

    return at


def surge(base: float, times: float, begin: float, end: float) -> Rate:
    """Return a rate that goes up and comes back."""
    return lambda t: base * (times if begin <= t < end else 1.0)


SIX = {"a": 20e-6, "b": 20e-6, "c": 40e-6, "d": 40e-6, "e": 80e-6, "f": 80e-6}
"""The six queries of the surge benchmark: processor-seconds per tuple."""
WEIGHTS = {"a": 4.0, "b": 1.0, "c": 4.0, "d": 1.0, "e": 4.0, "f": 1.0}
SIX_RATE = 2200.0
"""Of which about half the machine is needed."""


def six(
    rate: Rate,
    *,
    floors: Mapping[str, float] | None = None,
    deadline: float | None = 4.0,
    **options: object,
) -> SimFlow:
    """Return six queries in families of their own over one source."""
    costs = {name: QueryCost(row=cost / 4, own=3 * cost / 4) for name, cost in SIX.items()}
    unit = SimUnit(id="u1", families=tuple((n,) for n in SIX), costs=costs, rate=rate)
    for name in ("tells", "counts", "limit", "every", "closes", "windowed", "stands"):
        if name in options:
            setattr(unit, name, options.pop(name))
    asked = {
        name: QueryFacts(weight=w, floor=(floors or {}).get(name, 0.0), deadline=deadline)
        for name, w in WEIGHTS.items()
    }
    return SimFlow([unit], asked, **options)  # type: ignore[arg-type]


def six_costs(times: float = 1.0, **other: float) -> Costs:
    """Return the costs of the six queries, wrong by a factor, some by another."""
    return Costs(
        reading={"s": 2e-6 * times},
        queries={
            name: QueryCost(
                row=cost / 4 * (other.get(name, times)),
                own=3 * cost / 4 * (other.get(name, times)),
                certainty=0.9,
            )
            for name, cost in SIX.items()
        },
        measured_at=0.0,
    )


def loop_for(costs: Costs | None = None, **settings: object) -> ControlLoop:
    """Return a loop for two cores."""
    config = LoopConfig(cores=CORES, **settings)  # type: ignore[arg-type]
    return ControlLoop(config, six_costs() if costs is None else costs)
