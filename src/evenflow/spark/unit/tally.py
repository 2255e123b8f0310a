"""Counting what became of every tuple, per query, out of the rows that leave the stack.

All figures are tuple-windows. The stack's rows carry them: answers count what contributed; late,
cut and rejected rows what their names say; the ledgers what came in. A ledger's rows are booked for
each part by what the era did with its tuples, so that counts are exact over changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.schedule.layout import Fate, WrittenOff
from evenflow.spark.compile.entries import (
    CUT,
    GATED,
    LATE,
    LEDGER,
    REJECTED,
    REST,
    failed_ledger_of,
    ledger_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from evenflow.model.operator import Window
    from evenflow.schedule.layout import Era, UnitLayout

    Held = Mapping[int, Mapping[str, int]]
    """Sums of count columns, by family number."""


@dataclass(slots=True)
class Counts:
    """in = contributed + late + filtered + rejected + shed + open."""

    tuples_in: int = 0
    contributed: int = 0
    open: int = 0
    late: int = 0
    rejected: int = 0
    paused: int = 0
    cut: int = 0
    quarantined: int = 0
    gate: int = 0

    @property
    def filtered(self) -> int:
        """What the predicate did not want, or had no event time."""
        shed = self.gate + self.paused + self.cut + self.quarantined
        settled = self.contributed + self.late + self.rejected + shed
        return self.tuples_in - settled - self.open

    def add(self, other: Counts) -> None:
        """Add another part of the same query."""
        for name in Counts.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def arrive(self, tuples: int, fate: Fate) -> None:
        """Count tuples that arrive for a part."""
        self.tuples_in += tuples
        if fate is Fate.PAUSED:
            self.paused += tuples
        elif fate is Fate.QUARANTINED:
            self.quarantined += tuples

    def as_json(self) -> dict[str, Any]:
        """Return the object of the interface."""
        return {
            "in": self.tuples_in,
            "contributed": self.contributed,
            "open": self.open,
            "late": self.late,
            "filtered": self.filtered,
            "rejected": self.rejected,
            "shed": {
                "gate": self.gate,
                "paused": self.paused,
                "cut": self.cut,
                "quarantined": self.quarantined,
            },
        }


@dataclass(slots=True)
class StackTally:
    """The running counts of one stack, by the number of the part."""

    layout: UnitLayout
    settled: dict[int, Counts] = field(default_factory=dict)
    """Of rows that have left the state."""

    def __post_init__(self) -> None:
        self.restore({})

    def restore(self, settled: Mapping[int, Counts]) -> None:
        """Set the counts of what has left the state."""
        self.settled = {n: settled.get(n, Counts()) for n in self.layout.numbers}

    def batch(
        self,
        totals: Held,
        failing: Collection[int] = (),
        cut: Mapping[int, int] | None = None,
    ) -> None:
        """Add what left the state in a batch.

        Args:
            totals: What left.
            failing: Parts whose answers could not be delivered.
            cut: By part, what was in windows of which gates dropped the rest.
        """
        for number, counts in self._booked(totals, failing).items():
            not_whole = min(counts.open, (cut or {}).get(number, 0))
            counts.cut += not_whole
            counts.contributed += counts.open - not_whole
            counts.open = 0
            self.settled[number].add(counts)

    def counts(self, state: Held | None = None) -> dict[int, Counts]:
        """Return counts by part.

        Args:
            state: What the state holds. Without it, what is in open windows counts as filtered
                until the state is read, and not at all in a narrow unit.
        """
        made = {number: Counts() for number in self.settled}
        for number, known in self.settled.items():
            made[number].add(known)
        for number, counts in self._booked(state or {}).items():
            made[number].add(counts)
        for number, each in self.layout.written_off.items():
            made[number].late += each.late
            made[number].cut += each.cut
            made[number].gate += each.gate
        return made

    def written_off(self, number: int, state: Held) -> WrittenOff:
        """Return what the state holds of a part whose lease ends."""
        counts = self._booked(state)[number]
        return WrittenOff(counts.late, counts.open + counts.cut, counts.gate)

    def widen(self, state: Held) -> None:
        """Count as arrived what a narrow unit, which is no longer narrow, has in its state.

        All its parts saw the same tuples, whatever has become of them since; others that have
        come with the change saw none.
        """
        before = self.layout.eras[-2].fates if len(self.layout.eras) > 1 else ()
        arrived = max((c.tuples_in for c in self._booked_narrow(state).values()), default=0)
        for number in self.layout.numbers.intersection(before):
            self.settled[number].tuples_in += arrived

    # Booking.

    def _booked(self, held: Held, failing: Collection[int] = ()) -> dict[int, Counts]:
        """Return what rows say; tuples of windows that can still be answered count as open."""
        made = self._booked_narrow(held) if self.layout.narrow else self._arrived(held)
        for number in self.layout.numbers:
            rows = held.get(REJECTED + number, {})
            made[number].rejected += next(iter(rows.values()), 0)
        for lease in self.layout.leases:
            if lease.family is None or lease.count is None:
                continue
            counts, column = made[lease.number], lease.count.name
            tuples = _sum(held, lease.family, column)
            if lease.ended_us is not None:
                counts.cut += tuples
            elif lease.number in failing:
                counts.quarantined += tuples
            else:
                counts.open += tuples
            counts.late += _sum(held, LATE + lease.family, column)
            counts.cut += _sum(held, CUT + lease.family, column)
            counts.gate += _sum(held, GATED + lease.family, column)
        return made

    def _arrived(self, held: Held) -> dict[int, Counts]:
        made = {number: Counts() for number in self.layout.numbers}
        for era, rows in self._ledgers(held, ledger_of):
            for part, fate in era.fates.items():
                made[part].arrive(_tuple_windows(rows, era, self.layout.windows[part]), fate)
        for era, rows in self._ledgers(held, failed_ledger_of):
            for part, fate in era.fates.items():
                if fate is Fate.TAKEN:
                    made[part].rejected += _tuple_windows(rows, era, self.layout.windows[part])
        return made

    def _ledgers(
        self, held: Held, of: Callable[[int], tuple[int, int] | None]
    ) -> Iterator[tuple[Era, dict[int, int]]]:
        """Yield what the ledgers of each era count, by their index."""
        for era in self.layout.eras:
            found = {}
            for family, sums in held.items():
                at = of(family)
                if at is not None and at[0] == era.number:
                    found[at[1]] = next(iter(sums.values()), 0)
            if found:
                yield era, found

    def rejecting(self, totals: Held) -> Iterator[int]:
        """Yield the parts of which tuples were rejected, by what left the state in a batch."""
        for family in totals:
            if REJECTED <= family < LEDGER:
                yield family - REJECTED
        for era, _ in self._ledgers(totals, failed_ledger_of):
            yield from (part for part, fate in era.fates.items() if fate is Fate.TAKEN)

    def _booked_narrow(self, held: Held) -> dict[int, Counts]:
        made = {number: Counts() for number in self.layout.numbers}
        rest = next(iter(held.get(REST, {}).values()), 0)
        failed = sum(rows.get(0, 0) for _, rows in self._ledgers(held, failed_ledger_of))
        for lease in self.layout.leases:
            if lease.family is None or lease.count is None:
                continue
            wanted = _sum(held, lease.family, lease.count.name)
            late = _sum(held, LATE + lease.family, lease.count.name)
            gated = _sum(held, GATED + lease.family, lease.count.name)
            made[lease.number].tuples_in += rest + failed + wanted + late + gated
            made[lease.number].rejected += failed
        return made


def _sum(held: Held, family: int, column: str) -> int:
    return held.get(family, {}).get(column, 0)


def _tuple_windows(ledgers: Mapping[int, int], era: Era, window: Window) -> int:
    """Return in how many windows the tuples of an era's ledgers are."""
    tuples = ledgers.get(0, 0)
    shape = (window.size_us, window.slide_us)
    if shape not in era.irregular:
        return tuples * window.per_tuple
    return tuples * (window.per_tuple - 1) + ledgers.get(1 + era.irregular.index(shape), 0)
