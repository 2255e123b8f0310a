"""Entries as neighbours exchange them: rates and scores, without local plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evenflow.shed.program import Numbers


class Entries:
    """The columns of a table that a parent needs. Immutable, equal and hashed by content."""

    __slots__ = ("_key", "ceilings", "rates", "scores")

    def __init__(self, rates: Numbers, scores: Numbers, ceilings: Numbers | None) -> None:
        self.rates = _frozen(rates)
        self.scores = _frozen(scores)
        self.ceilings = None if ceilings is None else _frozen(ceilings)
        above = b"" if self.ceilings is None else self.ceilings.tobytes()
        self._key = (self.rates.shape, self.rates.tobytes(), self.scores.tobytes(), above)

    def __len__(self) -> int:
        return len(self.scores)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entries) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Entries({len(self)})"

    def __deepcopy__(self, memo: object) -> Entries:
        return self

    def take(self, rows: NDArray[np.intp]) -> Entries:
        """Return some of the entries, in the order given."""
        above = None if self.ceilings is None else self.ceilings[rows]
        return Entries(self.rates[rows], self.scores[rows], above)

    def table(self) -> Table:
        """Return a table that has nothing but these columns."""
        return Table(
            rates=self.rates,
            scores=self.scores,
            ceilings=self.ceilings,
            flows=np.zeros((len(self), 0)),
            choices=np.zeros((len(self), 0), dtype=np.int64),
        )


def entries_of(table: Table) -> Entries:
    """Return what is sent of a table."""
    return Entries(table.rates, table.scores, table.ceilings)


def stacked(one: Entries, other: Entries) -> Entries:
    """Return the entries of both, in order. Both have ceilings, or neither, or one is empty."""
    if len(one) == 0 or len(other) == 0:
        return one if len(other) == 0 else other
    above = None
    if one.ceilings is not None and other.ceilings is not None:
        above = np.concatenate([one.ceilings, other.ceilings])
    return Entries(
        np.concatenate([one.rates, other.rates]), np.concatenate([one.scores, other.scores]), above
    )


def _frozen(numbers: Numbers) -> Numbers:
    copied = np.ascontiguousarray(numbers, dtype=np.float64).copy()
    copied.flags.writeable = False
    return copied
