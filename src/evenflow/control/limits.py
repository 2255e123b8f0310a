"""How much batches may read: so much that none is many times as long as it should be.

A surge is known when a batch has begun, and gates hold from the next one on: the first batch would
take as long as its rows do. A limit makes it short. What waits meanwhile is not lost: it is planned
for, and the limit grows with the gates that are set for it. Sources that cannot be limited while a
flow runs say so once, and are left alone.

Units that read the same source have one limit, that of the slowest. As long as what arrives fits it
is never so low that rows pile up for another one, whose batches may come less often; nor that a
unit cannot read what gates are set for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.control.decision import SetLimit
from evenflow.control.model import often, turn_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from evenflow.control.facts import FlowFacts, UnitFacts
    from evenflow.control.model import UnitModel
    from evenflow.control.view import View

SPANS = 1.5
"""How many spans the longest batch may take."""
LEAST_SPANS = 0.3
"""How many spans its rows may take at least, however long batches take without."""
LEAST_ROWS, MOST_ROWS = 100, 10**9
ROOM = 1.5
"""How many times what arrives in a span a batch may read at least, if that fits."""
CHANGE = 0.15
"""Limits that differ by less are the same."""


class Limits:
    """The limits of all sources."""

    def __init__(self) -> None:
        self._set: dict[str, int] = {}
        """By source, what was asked for last."""
        self._refused: set[str] = set()

    def limited(self, source: str, *, done: bool) -> None:
        """Take whether a source could be limited."""
        if not done:
            self._refused.add(source)
            self._set.pop(source, None)

    def adaptive(self, facts: FlowFacts) -> frozenset[str]:
        """Return units of which all sources are limited by the loop."""
        return frozenset(
            unit.id for unit in facts.units if all(name in self._set for name in unit.sources)
        )

    def wanted(
        self, facts: FlowFacts, view: View, gates: Mapping[str, float]
    ) -> Iterator[SetLimit]:
        """Yield limits that are to change.

        Args:
            facts: The look.
            view: What it comes to.
            gates: That are in force from the next batch on which has not been told its own.
        """
        rows: dict[str, float] = {}
        needed: dict[str, float] = {}
        fits = view.model.load(view.rates, {}) <= view.capacity
        following = {unit.id: _next_gates(unit, gates) for unit in facts.units}
        held = view.model.load(view.pressure, _widest(following.values())) <= view.capacity
        for unit, own in zip(facts.units, view.model.units, strict=True):
            most = _most_rows(view, own, following)
            arriving = ROOM * view.rates[unit.id] * own.span if fits else 0.0
            planned = view.pressure[unit.id] * view.spans[unit.id] if held else 0.0
            least = max(arriving, planned)
            for source in unit.sources:
                share = max(unit.source_shares.get(source, 0.0), 1 / len(unit.sources))
                rows[source] = min(rows.get(source, share * most), share * most)
                needed[source] = max(needed.get(source, 0.0), share * least)
        for source, most in rows.items():
            wanted = round(max(LEAST_ROWS, most, needed[source]))
            limit, known = min(MOST_ROWS, wanted), self._set.get(source)
            if source in self._refused:
                continue
            if known is None or abs(limit - known) > CHANGE * known:
                self._set[source] = limit
                yield SetLimit(source=source, rows=limit)


def _most_rows(view: View, unit: UnitModel, following: Mapping[str, Mapping[str, float]]) -> float:
    """Return how many rows a batch can have and take no longer than it may.

    Units with a source in common read the same rows, and share the machine meanwhile.
    """
    beside = [
        other
        for other in view.model.units
        if other.id != unit.id
        and set(other.sources) & set(unit.sources)
        and view.rates.get(other.id, 0.0) > 0
    ]

    def work(each: UnitModel) -> float:
        return view.model.work(each, 1.0, following[each.id])

    per_row = work(unit) + sum(often(other, unit) * work(other) for other in beside)
    seconds = max(LEAST_SPANS * unit.span, SPANS * unit.span - turn_of(unit, beside))
    return seconds / per_row if per_row > 0 else MOST_ROWS


def _next_gates(unit: UnitFacts, gates: Mapping[str, float]) -> dict[str, float]:
    """Return the gates of the next batch; the wider ones if it may have been told before."""
    last = unit.last
    if unit.under_way is not None or last is None or last.gates is None:
        return dict(gates)
    return _widest((gates, last.gates))


def _widest(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return what gates keep at most."""
    known = list(several)
    names = set(known[0]).intersection(*known) if known else ()
    return {name: max(gates[name] for gates in known) for name in names}
