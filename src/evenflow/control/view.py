"""What the loop makes of one look: load against capacity, now and with all gates open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenflow.control.demand import demand

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from evenflow.control.facts import FlowFacts
    from evenflow.control.learned import GateHistory
    from evenflow.control.model import FlowModel


PILED = 1.2
"""How many times what arrives a unit is asked for if rows have piled up."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A look, judged by the model."""

    at: float
    model: FlowModel
    rates: Mapping[str, float]
    """Tuples per second that arrive, by unit."""
    pressure: Mapping[str, float]
    """Tuples per second to plan for, by unit."""
    capacity: float
    """Processor-seconds per second for rows."""
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
    rates, pressure = {}, {}
    for unit, own in zip(facts.units, model.units, strict=True):
        newest = unit.under_way or unit.last
        in_force = history.of(newest) if newest is not None else {}
        asked = demand(unit, model, own, in_force, facts.at, adaptive=unit.id in adaptive)
        rates[unit.id], pressure[unit.id] = asked.rate, asked.pressure
    return View(
        at=facts.at,
        model=model,
        rates=rates,
        pressure=pressure,
        capacity=model.capacity(utilisation, rates),
        gates=gates,
    )


def _rounded(values: Mapping[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in values.items()}
