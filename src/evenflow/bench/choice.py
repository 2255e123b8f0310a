"""What of a benchmark is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Only:
    """Which cases to run, and how much of them; None is all, and as planned."""

    case: str | None = None
    queries: int | None = None
    rows: int | None = None
    """Per batch."""
    seconds: float | None = None
