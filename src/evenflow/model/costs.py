"""What tuples cost, as calibration found it, with age and certainty. Pure data."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evenflow.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping

GUESSED_READING = 2e-6
GUESSED_QUERY = 2e-6
"""Processor-seconds per tuple where nothing was measured. Only their ratio matters: the factor of
a unit brings them to what its batches take."""
FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class QueryCost:
    """What one query adds to reading, in processor-seconds per tuple that is read."""

    trunk: float = 0.0
    """For operators that it shares with all queries of its unit."""
    row: float = 0.0
    """For the row that it shares with its family."""
    own: float = 0.0
    """For itself."""
    certainty: float = 0.0
    """1 if all rounds of the calibration agreed, towards 0 the less they did; 0 for a guess."""

    @property
    def alone(self) -> float:
        """What it costs without others."""
        return self.trunk + self.row + self.own


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Everything that calibration found."""

    reading: Mapping[str, float] = field(default_factory=dict)
    """By source."""
    queries: Mapping[str, QueryCost] = field(default_factory=dict)
    measured_at: float | None = None
    """Wall-clock seconds; None if nothing was measured."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """By query, the structural hash of what was to be measured; also of queries for which there
    was no time, and which are guessed."""

    def of_source(self, name: str) -> float:
        """Return the cost of reading a tuple of a source; a guess if it is not known."""
        known = list(self.reading.values())
        return self.reading.get(name, statistics.median(known) if known else GUESSED_READING)

    def of_query(self, name: str) -> QueryCost:
        """Return the cost of a query; if it is not known a guess: as the others cost."""
        known = self.queries.get(name)
        if known is not None:
            return known
        if not self.queries:
            return QueryCost(own=GUESSED_QUERY)
        each = self.queries.values()
        return QueryCost(
            row=statistics.median(cost.row for cost in each),
            own=statistics.median(cost.own for cost in each),
        )

    def certainty(self, queries: tuple[str, ...]) -> float:
        """Return that of the least certain of some queries."""
        return min((self.of_query(name).certainty for name in queries), default=0.0)

    def age(self, now: float) -> float | None:
        """Return seconds since the calibration."""
        return None if self.measured_at is None else max(0.0, now - self.measured_at)

    def holding(self, hashes: Mapping[str, str]) -> Costs:
        """Return it without queries that have changed since.

        Args:
            hashes: By query, what it is now.
        """
        same = {name: cost for name, cost in self.queries.items() if self._is(name, hashes)}
        return replace(self, queries=same)

    def covers(self, hashes: Mapping[str, str]) -> bool:
        """Return whether all queries of a flow were to be measured as they are now."""
        return all(self._is(name, hashes) for name in hashes)

    def _is(self, name: str, hashes: Mapping[str, str]) -> bool:
        return name in hashes and self.hashes.get(name) == hashes[name]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "format": FORMAT,
            "measured_at": self.measured_at,
            "reading": dict(self.reading),
            "queries": {
                name: [cost.trunk, cost.row, cost.own, cost.certainty]
                for name, cost in self.queries.items()
            },
            "hashes": dict(self.hashes),
        }


def costs_from_json(body: Any) -> Costs:
    """Return costs out of plain values.

    Raises:
        StateError: They are of another version, or damaged.
    """
    try:
        if body["format"] != FORMAT:
            raise StateError(f"costs of format {str(body['format'])[:20]}, this is {FORMAT}")
        return Costs(
            measured_at=body["measured_at"],
            reading={str(name): float(cost) for name, cost in body["reading"].items()},
            queries={
                str(name): QueryCost(trunk=trunk, row=row, own=own, certainty=certainty)
                for name, (trunk, row, own, certainty) in body["queries"].items()
            },
            hashes={str(name): str(each) for name, each in body["hashes"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise StateError(f"costs are damaged: {exc}") from exc
