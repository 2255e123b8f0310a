"""When the meters surge, and how the flow stood at each moment of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CALM, SURGE, AFTER = "calm", "surge", "after"

_CALM_SHARE, _SURGE_SHARE = 0.32, 0.42
"""Of the whole time. Code is compiled in the first part, and gates open in the last."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """How long each phase lasts, in seconds since the first tuple."""

    calm: float
    surge: float
    after: float

    @property
    def seconds(self) -> float:
        """All together."""
        return self.calm + self.surge + self.after

    @property
    def over(self) -> float:
        """When the surge is over."""
        return self.calm + self.surge

    def phase(self, seconds: float) -> str:
        """Return the phase of a moment."""
        if seconds < self.calm:
            return CALM
        return SURGE if seconds < self.over else AFTER


def script_of(seconds: float) -> Script:
    """Return phases that take a time together."""
    calm, surge = round(_CALM_SHARE * seconds, 1), round(_SURGE_SHARE * seconds, 1)
    return Script(calm=calm, surge=surge, after=seconds - calm - surge)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What the meters send."""

    usual: int
    """Rows per second."""
    times: int
    """How many times as many in the surge."""

    def arrived(self, script: Script, begin: float, end: float) -> float:
        """Return how many rows the meters send from one moment to another."""
        inside = min(max(end, script.calm), script.over) - min(max(begin, script.calm), script.over)
        return self.usual * (end - begin + (self.times - 1) * inside)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """How the flow stood."""

    seconds: float
    """Since the first tuple."""
    phase: str
    rows: float | None
    """Rows per second that arrive, as the control loop sees it; None while it warms up."""
    fitting: float | None
    """Rows per second that would fit with all gates open, as it reckons then."""
    load: float | None
    """For the capacity, with the gates in force."""
    load_without_gates: float | None
    """For the capacity. Above rows for fitting while rows have piled up."""
    keep: Mapping[str, float]
    """Share to keep, by query; all of them."""
    ages: Mapping[str, float]
    """Of the newest answers when they became visible, by query."""
    answered: Mapping[str, float]
    """When that was, in seconds since the first tuple."""


def moment_of(status: Mapping[str, Any], script: Script, began: float, now: float) -> Moment:
    """Return how a flow stands.

    Args:
        status: The status object.
        script: The phases.
        began: When the first tuple came, in wall-clock seconds.
        now: Wall-clock seconds.
    """
    told: Mapping[str, Any] = status.get("control") or {}
    queries: Mapping[str, Any] = status["queries"]
    gates: Mapping[str, float] = told.get("gates") or {}
    known = {
        name: query
        for name, query in queries.items()
        if query["delay_seconds"] is not None and query["age_seconds"] is not None
    }
    return Moment(
        seconds=now - began,
        phase=script.phase(now - began),
        rows=_total(told.get("rows_per_second")),
        fitting=_total(told.get("fitting_rows_per_second")),
        load=_share(told.get("load"), told.get("capacity")),
        load_without_gates=_share(told.get("load_without_gates"), told.get("capacity")),
        keep={name: gates.get(name, 1.0) for name in queries},
        ages={name: query["delay_seconds"] for name, query in known.items()},
        answered={name: now - began - query["age_seconds"] for name, query in known.items()},
    )


def _total(by_unit: Mapping[str, float] | None) -> float | None:
    """Return rows per second of the one source; all units read it."""
    return max(by_unit.values()) if by_unit else None


def _share(load: float | None, capacity: float | None) -> float | None:
    return load / capacity if load is not None and capacity else None


def age_now(moment: Moment, query: str, lately: float) -> float | None:
    """Return the age of a query's newest answer, if it came within the last seconds."""
    at = moment.answered.get(query)
    return moment.ages[query] if at is not None and moment.seconds - at <= lately else None


def worst_ages(moments: Sequence[Moment], since: float) -> dict[str, float]:
    """Return the greatest age of answers that became visible from a moment on, by query."""
    worst: dict[str, float] = {}
    for moment in moments:
        for name, age in moment.ages.items():
            if moment.answered[name] >= since:
                worst[name] = max(age, worst.get(name, 0.0))
    return worst
