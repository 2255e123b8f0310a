"""What the loop makes of one look: load against capacity, now and with all gates open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenflow.control.demand import burst_gap, demand

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from evenflow.control.facts import FlowFacts, UnitFacts
    from evenflow.control.learned import GateHistory
    from evenflow.control.model import FlowModel, UnitModel


PILED = 1.2
"""How many times what arrives a unit is asked for if rows have piled up."""
USED = 0.8
"""Share of the tightest deadline that batches may use up which work off what has piled up."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A look, judged by the model."""

    at: float
    model: FlowModel
    rates: Mapping[str, float]
    """Tuples per second that arrive, by unit."""
    pressure: Mapping[str, float]
    """Tuples per second to plan for, by unit."""
    spans: Mapping[str, float]
    """Seconds that the next batch may take, by unit: the pressure is its rows in this time."""
    capacity: float
    """Processor-seconds per second for rows."""
    unsqueezed: float
    """The capacity, were no part of it held back because answers are late."""
    gates: Mapping[str, float]
    """In force, or as if they were in a dry run."""
    late: tuple[str, ...] = ()
    """Queries whose answers are late although gates had time to help."""
    catching_up: frozenset[str] = frozenset()
    """Units that work off what waited while they stood still."""

    def squeezed(self, squeeze: float, late: tuple[str, ...]) -> View:
        """Return the view with a part of the capacity, because some queries are late."""
        return replace(self, capacity=self.capacity * squeeze, late=late)

    def excused(self, arriving: Mapping[str, float]) -> View:
        """Return the view with some units planned for what arrives, and not for what waits.

        Args:
            arriving: Tuples per second, by unit that catches up.
        """
        pressure = {
            unit: min(rate, arriving.get(unit, rate)) for unit, rate in self.pressure.items()
        }
        return replace(self, pressure=pressure, catching_up=frozenset(arriving))

    @property
    def load(self) -> float:
        """With the gates in force."""
        return self.model.load(self.pressure, self.gates)

    @property
    def open_load(self) -> float:
        """With all gates open."""
        return self.model.load(self.pressure, {})

    @property
    def piled(self) -> bool:
        """Whether more is planned for than arrives."""
        return any(self.pressure[unit] > PILED * rate for unit, rate in self.rates.items())

    @property
    def is_of_several(self) -> bool:
        """Whether several units have something to do."""
        return sum(rate > 0 for rate in self.rates.values()) > 1

    @property
    def longest_span(self) -> float:
        """The longest time that batches of some unit should take."""
        return max((unit.span for unit in self.model.units), default=1.0)

    @property
    def shortest_span(self) -> float:
        """The same of the unit whose batches come most often: it shows first how load changes."""
        return min((unit.span for unit in self.model.units), default=1.0)

    @property
    def highest_surge(self) -> float | None:
        """How many times what arrives the flow could still serve."""
        return self.model.highest_surge(self.rates, self.capacity)

    @property
    def room(self) -> float | None:
        """How many times what arrives would fit with all gates open; None without load."""
        load = self.model.load(self.rates, {})
        return self.capacity / load if load > 0 else None

    def seconds_to_work_off(self, unit: str, rows: float) -> float | None:
        """Return how long rows of a unit take beside what arrives; None if they never end."""
        spare = self.model.cores - self.load
        return round(self.model.load({unit: rows}, self.gates) / spare, 1) if spare > 0 else None

    def batch_seconds(self, keep: Mapping[str, float]) -> dict[str, float]:
        """Return how long the next batches should take at some gates, by unit."""
        work = self.model.work
        return {
            unit.id: round(unit.fixed + work(unit, self._next_rows(unit), keep), 3)
            for unit in self.model.units
        }

    def _next_rows(self, unit: UnitModel) -> float:
        return self.pressure[unit.id] * self.spans[unit.id]

    def facts(self, facts: FlowFacts) -> dict[str, Any]:
        """Return what decisions are made from, as plain values."""
        return {
            "rows_per_second": _rounded(self.rates, 1),
            "planned_for": _rounded(self.pressure, 1),
            "load": round(self.open_load, 4),
            "capacity": round(self.capacity, 4),
            "batch_seconds": {
                u.id: None if u.last is None else u.last.seconds for u in facts.units
            },
            "factors": {unit.id: round(unit.factor, 3) for unit in self.model.units},
            "late": list(self.late),
            "catching_up": sorted(self.catching_up),
        }


def view_of(
    facts: FlowFacts,
    model: FlowModel,
    history: GateHistory,
    gates: Mapping[str, float],
    utilisation: float,
    adaptive: Container[str] = (),
) -> View:
    """Return what a look comes to.

    Args:
        facts: The look.
        model: The flow.
        history: Gates that batches ran with.
        gates: In force.
        utilisation: Share of the machine that may be used.
        adaptive: Units of which the loop sets what they read.
    """
    asked = {}
    for unit, own in zip(facts.units, model.units, strict=True):
        newest = unit.under_way or unit.last
        in_force = history.of(newest) if newest is not None else {}
        asked[unit.id] = demand(unit, model, own, in_force, facts.at, adaptive=unit.id in adaptive)
    rates = {unit: each.rate for unit, each in asked.items()}
    capacity = model.capacity(utilisation, rates)
    busy = model.load(rates, {}) / capacity
    spans = {
        unit.id: _next_span(unit, own, facts, busy)
        for unit, own in zip(facts.units, model.units, strict=True)
    }
    return View(
        at=facts.at,
        model=model,
        rates=rates,
        pressure={own.id: asked[own.id].pressure * own.span / spans[own.id] for own in model.units},
        spans=spans,
        capacity=capacity,
        unsqueezed=capacity,
        gates=gates,
    )


def _next_span(unit: UnitFacts, own: UnitModel, facts: FlowFacts, busy: float) -> float:
    """Return how long the next batch of a unit may take.

    As long as batches should, if what arrives does not fit: it would go on like that. If it fits,
    what has piled up may take as long as deadlines allow. The answers after it are as old as the
    batch before it, itself, and the one after it, in which there is what arrived meanwhile. A burst
    may also take that long until the next one comes, whether they fit or not.
    """
    deadline = facts.tightest(unit.queries) or facts.tightest(facts.queries)
    if deadline is None:
        return own.span
    allowed = (USED * deadline - unit.every) / (1.0 + min(1.0, busy))
    return max(own.span, allowed if busy <= 1.0 else min(allowed, burst_gap(unit)))


def _rounded(values: Mapping[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in values.items()}
