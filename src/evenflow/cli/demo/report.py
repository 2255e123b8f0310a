"""What came of the surge, out of moments, decisions and the final status. Pure.

- *Kept*: of the tuples that came from the beginning of the surge until all gates were open again,
  the share that no gate dropped, nor cut with its window. Before and after nothing is dropped.
- *Worst age*: of all answers that became visible from the beginning of the surge on.
- *Capacity*: rows per second that fit with all gates open, as the control loop has learned it at
  the end; before, code is not yet compiled and it takes the flow for slower than it is.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from evenflow.cli.demo.script import AFTER, worst_ages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.cli.demo.script import Moment, Rates, Script
    from evenflow.model.costs import Costs
    from evenflow.model.query import Query

SETTLED = ("contributed", "filtered", "late", "rejected", "open")
"""What becomes of tuples that are not shed."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """A surge that was played."""

    queries: Sequence[Query]
    costs: Costs
    script: Script
    rates: Rates
    began: float
    """When the first tuple came, in wall-clock seconds."""
    moments: Sequence[Moment]
    decisions: Sequence[Mapping[str, Any]]
    """As `evenflow decisions --json` has them."""
    status: Mapping[str, Any]
    """The final one."""
    ended_early: bool = False
    """Somebody has stopped it."""

    def since_first_tuple(self, decision: Mapping[str, Any]) -> float:
        """Return when a decision was made."""
        return float(decision["at"]) - self.began


def surge_report(played: Played) -> dict[str, Any]:
    """Return what came of it, as plain values."""
    script, rates = played.script, played.rates
    capacity = _capacity(played.moments)
    shut, opened = _shut(played), _opened(played)
    until = script.seconds if opened is None else max(opened, script.over)
    arrived = rates.arrived(script, script.calm, until)
    worst = worst_ages(played.moments, script.calm)
    queries = {
        query.name: _query(played, query, worst.get(query.name), arrived)
        for query in played.queries
    }
    weights = sum(query.weight for query in played.queries)
    return {
        "usual_rows_per_second": rates.usual,
        "surge_rows_per_second": rates.usual * rates.times,
        "capacity_rows_per_second": None if capacity is None else round(capacity),
        "times_capacity": (
            None if not capacity else round(rates.usual * rates.times / capacity, 2)
        ),
        "surge_began_seconds": script.calm,
        "surge_seconds": script.surge,
        "gates_shut_after_seconds": None if shut is None else round(shut - script.calm, 2),
        "gates_open_after_seconds": None if opened is None else round(opened - script.over, 2),
        "value_kept": round(
            sum(each["weight"] * each["kept_in_surge"] for each in queries.values()) / weights, 4
        ),
        "loop_died": _died(played.status),
        "queries": queries,
        "accounted": all(each["accounted"] for each in queries.values()),
        "decisions": [
            {"seconds": round(played.since_first_tuple(each), 2), **each}
            for each in played.decisions
        ],
        "moments": [_rounded(asdict(moment)) for moment in played.moments],
    }


def _query(played: Played, query: Query, worst: float | None, arrived: float) -> dict[str, Any]:
    counts: Mapping[str, Any] = played.status["queries"][query.name]["counts"]
    shed = sum(counts["shed"].values())
    cost = played.costs.of_query(query.name)
    return {
        "weight": query.weight,
        "cost_us": round((cost.row + cost.own) * 1e6, 2),
        "floor": query.floor,
        "kept_in_surge": round(min(1.0, max(0.0, 1.0 - shed / arrived)), 4),
        "worst_age_seconds": None if worst is None else round(worst, 2),
        "deadline_seconds": query.deadline,
        "deadline_held": (
            None if query.deadline is None else worst is None or worst <= query.deadline
        ),
        "counts": dict(counts),
        "accounted": counts["in"] == shed + sum(counts[name] for name in SETTLED),
    }


def _capacity(moments: Sequence[Moment]) -> float | None:
    """Return rows per second that fit, by the last phase of which something is known."""
    for known in (
        [m.fitting for m in moments if m.fitting is not None and m.phase == AFTER],
        [m.fitting for m in moments if m.fitting is not None],
    ):
        if known:
            return statistics.median(known)
    return None


def _shut(played: Played) -> float | None:
    """Return when the surge made gates shut, if it did."""
    for decision in played.decisions:
        at = played.since_first_tuple(decision)
        if at >= played.script.calm and decision["keep"] and decision["applied"]:
            return at
    return None


def _opened(played: Played) -> float | None:
    """Return when all gates were opened for good, if they were."""
    applied = [each for each in played.decisions if each["applied"]]
    if not applied or applied[-1]["keep"]:
        return None
    return played.since_first_tuple(applied[-1])


def _died(status: Mapping[str, Any]) -> str | None:
    """Return why the control loop has ended, if it has by itself."""
    told = status["control"]
    return str(told["reason"]) if told["state"] == "dead" else None


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return value
