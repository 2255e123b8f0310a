"""What the loop decides, as records for people; and what it asks of its shell."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Act(enum.Enum):
    """What a decision does."""

    SHED = "shed"
    """Drops begin."""
    ADJUST = "adjust"
    """They change."""
    OPEN = "open"
    """They end."""
    CATCH_UP = "catch-up"
    """Nothing is dropped for what waited while a unit stood still."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One decision."""

    number: int
    at: float
    """Wall-clock seconds."""
    act: Act
    keep: Mapping[str, float]
    """Fractions by query from now on, those that drop something."""
    before: Mapping[str, float]
    """The same until now."""
    facts: Mapping[str, Any]
    """What it was decided from."""
    why: str
    """One sentence for a person."""
    expected: Mapping[str, Any]
    """What should come of it."""
    dry_run: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "decision": self.number,
            "at": round(self.at, 3),
            "act": self.act.value,
            "keep": dict(self.keep),
            "before": dict(self.before),
            "facts": dict(self.facts),
            "why": self.why,
            "expected": dict(self.expected),
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a decision: applied or not, and later what it did."""

    number: int
    at: float
    applied: bool
    reason: str | None = None
    """Why it was not applied, or why nothing was measured."""
    measured: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "outcome": self.number,
            "at": round(self.at, 3),
            "applied": self.applied,
            "reason": self.reason,
            "measured": None if self.measured is None else dict(self.measured),
        }


@dataclass(frozen=True, kw_only=True)
class SetGates:
    """Put gates in force from the next batch on, and say what became of it: `applied`."""

    number: int
    """Of the decision."""
    keep: Mapping[str, float]
    """Those not named keep everything."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Keep a record."""

    entry: Decision | Outcome


@dataclass(frozen=True, kw_only=True)
class SetLimit:
    """Limit what a batch reads of a source, and say whether it can be: `limited`."""

    source: str
    rows: int


Effect = SetGates | SetLimit | Record
