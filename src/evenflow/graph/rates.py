"""Rates in and out of every operator, out of what is measured of each part of a query.

A part is measured at four places: what its sources give, what reaches it, what its conditions let
through, and its answers. Chains of operators between two of them are filled in where nothing
between can change the rate; the rest is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenflow.graph.explain.wording import operator_text
from evenflow.model.operator import Aggregate, Select, Source, Table, Union, Where

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from evenflow.model.operator import Operator

Rate = float | None
"""Tuples per second; None if it is not known."""


@dataclass(frozen=True, slots=True)
class PartRates:
    """What is measured of one part of a query."""

    arriving: Rate = None
    """Tuples of its trunk."""
    taken: Rate = None
    """Those that its conditions let through."""
    answers: Rate = None


@dataclass(slots=True)
class OperatorRates:
    """An operator of the graph, and its rates."""

    kind: str
    text: str
    queries: list[str] = field(default_factory=list)
    rate_in: Rate = None
    rate_out: Rate = None


class Rates:
    """The operators of a flow's queries with their rates, each operator once."""

    def __init__(self, read: Mapping[str, float]) -> None:
        """Begin.

        Args:
            read: What each source gives, by name.
        """
        self._read = read
        self._found: dict[str, OperatorRates] = {}

    def add(self, query: str, operator: Operator, parts: Sequence[PartRates]) -> None:
        """Add a query, with one measure for each of its parts in their order."""
        self._down(query, operator, iter(parts))

    def operators(self) -> list[OperatorRates]:
        """Return all operators, sources first."""
        return list(self._found.values())

    def _down(self, query: str, operator: Operator, parts: Iterator[PartRates]) -> Rate:
        """Note an operator above the parts of a query, and return its output rate."""
        match operator:
            case Union(inputs=inputs):
                rates = [self._down(query, each, parts) for each in inputs]
                total = _sum(rates)
                self._note(query, operator, total, total)
                return total
            case Where() | Select() if isinstance(_base(operator), Aggregate | Union):
                return self._above(query, operator, parts)
            case Aggregate():
                part = next(parts, PartRates())
                self._below(query, operator.input, part.taken, part.arriving)
                self._note(query, operator, part.taken, part.answers)
                return part.answers
            case _:
                return self._plain(query, operator, next(parts, PartRates()))

    def _above(self, query: str, operator: Where | Select, parts: Iterator[PartRates]) -> Rate:
        """Note what answers still go through. They are counted at the end of it."""
        if isinstance(operator, Select):
            out = self._down(query, operator.input, parts)
            self._note(query, operator, out, out)
            return out
        mine = [next(parts, PartRates()) for _ in range(_width(operator))]
        # What a HAVING drops is not counted.
        before = [PartRates(part.arriving, part.taken) for part in mine]
        self._down(query, operator.input, iter(before))
        out = _sum([part.answers for part in mine])
        self._note(query, operator, None, out)
        return out

    def _plain(self, query: str, operator: Operator, part: PartRates) -> Rate:
        self._below(query, operator, part.answers, part.arriving)
        return part.answers

    def _below(self, query: str, operator: Operator, out: Rate, arriving: Rate) -> Rate:
        """Note an operator below all windows, given what leaves it, and return its output rate."""
        match operator:
            case Source():
                read = self._read.get(operator.name)
                self._note(query, operator, read, read)
                return read
            case Select():
                below = self._below(query, operator.input, out, arriving)
                known = out if out is not None else below
                self._note(query, operator, known, known)
                return known
            case Where():
                before = _before(operator, arriving)
                below = self._below(query, operator.input, before, arriving)
                # What comes and what passes are counted together; sources, over another time.
                self._note(query, operator, below if before is None else before, out)
                return out
        inputs = [each for each in operator.inputs if not isinstance(each, Table)]
        rates = [self._below(query, each, None, None) for each in inputs]
        known = arriving if out is None else out
        self._note(query, operator, _sum(rates), known)
        return known

    def _note(self, query: str, operator: Operator, rate_in: Rate, rate_out: Rate) -> None:
        found = self._found.setdefault(
            operator.hash, OperatorRates(operator.kind, operator_text(operator))
        )
        if query not in found.queries:
            found.queries.append(query)
        found.rate_in = rate_in if found.rate_in is None else found.rate_in
        found.rate_out = rate_out if found.rate_out is None else found.rate_out


def _before(where: Where, arriving: Rate) -> Rate:
    """Return what comes to a predicate, if nothing else drops tuples before it."""
    below: Operator = where.input
    while isinstance(below, Select):
        below = below.input
    return None if isinstance(below, Where) else arriving


def _base(operator: Operator) -> Operator:
    """Return what a chain of where and select stands on."""
    while isinstance(operator, Where | Select):
        operator = operator.input
    return operator


def _width(operator: Operator) -> int:
    """Return how many parts a query has of which this is the top."""
    base = _base(operator)
    return sum(map(_width, base.inputs)) if isinstance(base, Union) else 1


def _sum(rates: Sequence[Rate]) -> Rate:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None
