"""Queries taken apart into what one unit can carry: windowed shapes and plain branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.graph.canonical import canonical, canonical_text
from evenflow.model import types as t
from evenflow.model.expression import TRUE, Case
from evenflow.model.functions import can_fail
from evenflow.model.operator import Aggregate
from evenflow.model.unit import MOST_INLINE, Branch, Condition, Kind
from evenflow.schedule.flatten import Flat, flatten, flatten_input, substitute
from evenflow.schedule.group import MOST_CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evenflow.model.expression import AggregateCall, Expression
    from evenflow.model.operator import Operator, Window
    from evenflow.model.query import Query


@dataclass(frozen=True, slots=True)
class Site:
    """Where a part can run: parts of equal sites can share a unit."""

    trunk: str
    """Hash of the operator whose tuples the part sees."""
    kind: Kind
    fine: bool
    """Its windows slide so finely that they are expanded in two steps."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One windowed branch of a query, in normal form."""

    query: str
    number: int
    trunk: Operator
    predicate: Expression
    keys: tuple[Expression, ...]
    window: Window
    aggregates: tuple[tuple[str, AggregateCall], ...]
    guards: tuple[Expression, ...]
    """What can fail on a tuple of the query beside the predicate."""
    having: Expression | None
    outputs: tuple[tuple[str, Expression], ...]

    @property
    def site(self) -> Site:
        """Where it can run."""
        fine = self.window.per_tuple > MOST_INLINE
        return Site(self.trunk.hash, _kind(self.aggregates), fine)


@dataclass(frozen=True, slots=True)
class Plain:
    """One branch of a query without windows."""

    trunk: Operator
    branch: Branch

    @property
    def number(self) -> int:
        """The part's number."""
        return self.branch.number

    @property
    def site(self) -> Site:
        """Where it can run."""
        return Site(self.trunk.hash, Kind.STATELESS, fine=False)


Part = Shape | Plain


def count_parts(query: Query) -> int:
    """Return how many parts a query has: one, unless it is a UNION ALL."""
    return sum(1 for _ in flatten(query.operator))


def parts_of(query: Query, numbers: Sequence[int]) -> tuple[Part, ...]:
    """Return the parts of a query, the i-th under the i-th number."""
    flats = flatten(query.operator)
    return tuple(_part(query, n, flat) for n, flat in zip(numbers, flats, strict=True))


def _part(query: Query, number: int, flat: Flat) -> Part:
    if isinstance(flat.trunk, Aggregate):
        return _shape(query, number, flat, flat.trunk)
    guards = _guards(e for _, e in flat.outputs)
    condition = Condition(flat.predicate, guards)
    return Plain(flat.trunk, Branch(query.name, number, condition, flat.outputs))


def _shape(query: Query, number: int, flat: Flat, aggregate: Aggregate) -> Shape:
    below = flatten_input(aggregate)
    known = dict(below.outputs)
    keys = tuple(substitute(e, known) for _, e in aggregate.keys)
    calls = tuple((n, _rebase(call, known)) for n, call in aggregate.aggregates)
    if len({call.condition for _, call in calls}) > MOST_CONDITIONS:
        calls = tuple((n, _unconditional(call)) for n, call in calls)
    return Shape(
        query=query.name,
        number=number,
        trunk=below.trunk,
        predicate=below.predicate,
        keys=keys,
        window=aggregate.window,
        aggregates=calls,
        guards=_guards(_guarded(keys, calls)),
        having=None if flat.predicate == TRUE else flat.predicate,
        outputs=flat.outputs,
    )


def _rebase(call: AggregateCall, known: Mapping[str, Expression]) -> AggregateCall:
    argument = None if call.argument is None else substitute(call.argument, known)
    condition = None if call.condition is None else substitute(call.condition, known)
    return type(call)(call.function, argument, condition, call.type)


def _unconditional(call: AggregateCall) -> AggregateCall:
    """Return the same aggregate with its FILTER inside the argument, where it needs no bit."""
    if call.condition is None:
        return call
    value = TRUE if call.argument is None else call.argument
    argument = canonical(Case(((call.condition, value),), None, value.type))
    return type(call)(call.function, argument, None, call.type)


def _kind(aggregates: Iterable[tuple[str, AggregateCall]]) -> Kind:
    kind = Kind.HASH
    for _, call in aggregates:
        if call.function in ("min", "max") and call.type == t.STRING:
            return Kind.SORT
        if call.function == "approx_count_distinct":
            kind = Kind.SKETCH
    return kind


def _guarded(
    keys: Iterable[Expression], aggregates: Iterable[tuple[str, AggregateCall]]
) -> Iterator[Expression]:
    yield from keys
    for _, call in aggregates:
        if call.condition is None:
            if call.argument is not None:
                yield call.argument
        elif call.argument is None or not can_fail(call.argument):
            yield call.condition
        else:
            # As in Spark, what FILTER leaves out is not evaluated.
            yield Case(((call.condition, call.argument),), None, call.argument.type)


def _guards(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
    failing = {canonical_text(e): e for e in expressions if can_fail(e)}
    return tuple(failing[text] for text in sorted(failing))
