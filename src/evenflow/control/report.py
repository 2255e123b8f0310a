"""How the loop stands, as plain values for the status object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.control.loop import LoopSnapshot
    from evenflow.model.costs import Costs


def loop_report(snapshot: LoopSnapshot, costs: Costs, now: float) -> dict[str, Any]:
    """Return how the loop stands."""
    view = snapshot.view
    told: dict[str, Any] = {
        "state": snapshot.state.value,
        "reason": "; ".join(snapshot.gaps[:3]) or None,
        "gates": dict(snapshot.gates),
        "decisions": snapshot.decisions,
        "changes_per_minute": len(snapshot.changes),
        "squeeze": round(snapshot.squeeze, 3),
        "factors": {unit: round(factor, 3) for unit, _, factor in snapshot.corrections},
        "fixed_seconds": {unit: round(fixed, 3) for unit, fixed, _ in snapshot.corrections},
        "costs_age_seconds": _rounded(costs.age(now), 1),
        "costs_certainty": round(costs.certainty(tuple(costs.queries)), 2),
        "catching_up": [],
        "load": None,
        "load_without_gates": None,
        "capacity": None,
        "value": None,
        "rows_per_second": None,
        "fitting_rows_per_second": None,
        "highest_surge": None,
        "highest_rows_per_second": None,
    }
    if view is not None:
        surge, room = view.highest_surge, view.room
        told |= {
            "catching_up": sorted(view.catching_up),
            "load": round(view.load, 3),
            "load_without_gates": round(view.open_load, 3),
            "capacity": round(view.capacity, 3),
            "value": round(view.model.value(view.gates), 3),
            "rows_per_second": {unit: round(rate, 1) for unit, rate in view.rates.items()},
            "fitting_rows_per_second": {
                unit: round(rate * room) for unit, rate in view.rates.items() if room is not None
            },
            "highest_surge": _rounded(surge, 1),
            "highest_rows_per_second": {
                unit: round(rate * surge) for unit, rate in view.rates.items() if surge is not None
            },
        }
    return told


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
