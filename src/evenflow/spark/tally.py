"""Counting what became of every tuple, per query, out of the rows that leave the stack.

All figures are tuple-windows. The stack's rows carry them: answers count what contributed, late
and rejected rows what their names say, the ledger what came in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.spark.compile.entries import LEDGER, PULSE, REJECTED, REST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.spark.compile.answers import AnswerPlan
    from evenflow.spark.sink.demux import Totals


@dataclass(slots=True)
class Counts:
    """in = contributed + late + filtered + rejected + shed + open."""

    tuples_in: int = 0
    contributed: int = 0
    open: int = 0
    late: int = 0
    rejected: int = 0
    answers: int = 0
    answers_rejected: int = 0

    @property
    def filtered(self) -> int:
        """What the predicate did not want, or had no event time."""
        return self.tuples_in - self.contributed - self.open - self.late - self.rejected

    def add(self, other: Counts) -> None:
        """Add another part of the same query."""
        for name in Counts.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_json(self) -> dict[str, Any]:
        """Return the object of the interface."""
        return {
            "in": self.tuples_in,
            "contributed": self.contributed,
            "open": self.open,
            "late": self.late,
            "filtered": self.filtered,
            "rejected": self.rejected,
            "shed": {"gate": 0, "paused": 0, "cut": 0, "quarantined": 0},
        }


@dataclass(slots=True)
class StackTally:
    """The running counts of one stack."""

    plans: tuple[AnswerPlan, ...]
    first_count: str
    """The count slot that ledger and rejected rows are counted in."""
    narrow: bool = False
    """Tuples are in the ledger only if no family wants them."""
    settled: dict[int, Counts] = field(default_factory=dict)
    """By member number, of rows that have left the state."""
    ledger: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restore({}, {})

    def restore(self, settled: Mapping[int, Counts], ledger: Mapping[int, int]) -> None:
        """Set the counts of what has left the state."""
        self.settled = {p.number: settled.get(p.number, Counts()) for p in self.plans}
        self.ledger = dict(ledger)

    def batch(self, totals: Totals) -> None:
        """Add what left the state in a batch."""
        for family, sums in totals.items():
            if LEDGER <= family < PULSE:
                held = self.ledger.get(family - LEDGER, 0)
                self.ledger[family - LEDGER] = held + sums[self.first_count]
        for plan in self.plans:
            counts = self.settled[plan.number]
            counts.contributed += _held(totals, plan.family, plan.count)
            counts.late += _held(totals, plan.late_family, plan.count)
            counts.rejected += _held(totals, REJECTED + plan.number, self.first_count)

    def counts(self, state: Mapping[int, Mapping[str, int]] | None = None) -> dict[int, Counts]:
        """Return counts by member number.

        Args:
            state: What the state holds: per family number, the sum of each count slot. Without
                it, what is in open windows counts as filtered until the state is read, and not
                at all in a narrow unit.
        """
        state = state or {}
        ledger = dict(self.ledger)
        for family, sums in state.items():
            if LEDGER <= family < PULSE:
                seen = sums[self.first_count]
                ledger[family - LEDGER] = ledger.get(family - LEDGER, 0) + seen
        made: dict[int, Counts] = {}
        for plan in self.plans:
            known = self.settled[plan.number]
            counts = Counts(
                contributed=known.contributed,
                open=_held(state, plan.family, plan.count),
                late=known.late + _held(state, plan.late_family, plan.count),
                rejected=known.rejected + _held(state, REJECTED + plan.number, self.first_count),
                answers=known.answers,
                answers_rejected=known.answers_rejected,
            )
            if self.narrow:
                rest = ledger.get(REST - LEDGER, 0)
                counts.tuples_in = rest + counts.contributed + counts.open + counts.late
            else:
                counts.tuples_in = _tuples_in(plan, ledger)
            made[plan.number] = counts
        return made


def _held(state: Mapping[int, Mapping[str, int]], family: int, column: str) -> int:
    return state.get(family, {}).get(column, 0)


def _tuples_in(plan: AnswerPlan, ledger: Mapping[int, int]) -> int:
    tuples = ledger.get(0, 0)
    if plan.irregular is None:
        return tuples * plan.windows
    return tuples * (plan.windows - 1) + ledger.get(1 + plan.irregular, 0)
