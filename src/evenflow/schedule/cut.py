"""Cutting a flow into units: one per trunk and kind of work, with families and slots laid out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.graph.canonical import canonical, canonical_text
from evenflow.model import types as t
from evenflow.model.expression import TRUE, Case
from evenflow.model.functions import can_fail
from evenflow.model.operator import Aggregate, Source, upstream
from evenflow.model.unit import (
    MOST_INLINE,
    Branch,
    Condition,
    Family,
    KeySlot,
    Kind,
    Member,
    Result,
    Slot,
    SlotUse,
    Unit,
)
from evenflow.schedule.flatten import (
    Flat,
    conjunction,
    flatten,
    flatten_input,
    substitute,
)
from evenflow.schedule.group import MOST_CONDITIONS, group_shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evenflow.model.expression import AggregateCall, Expression
    from evenflow.model.operator import Operator, Window
    from evenflow.model.query import Query

LEAST_SLOTS = (("count", t.BIGINT), ("sum", t.DOUBLE))
"""Slots that every hash stack has, so that a query can come without a new state. A query that comes
alone makes a family of its own and needs the first slot of each function only. Each slot costs a
few percent of throughput; what does not fit starts a second stack."""

LEAST_KEY_SLOTS = (("long", 1),)
"""Key slots that every hash stack has, for the same reason. A text key, even an unused one, costs
a quarter of the throughput."""


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


def cut(queries: Sequence[Query], numbers: Mapping[str, int] | None = None) -> tuple[Unit, ...]:
    """Return the units that run the queries.

    Args:
        queries: In any order. Units, families and slots do not depend on it, because a state must
            be understood after queries were written in another order.
        numbers: Query numbers already given out, from a manifest.
    """
    given = dict(numbers or {})
    following = max(given.values(), default=0) + 1
    stateless: dict[str, list[tuple[Query, Branch, Operator]]] = defaultdict(list)
    windowed: dict[tuple[str, Kind, bool], list[tuple[Query, Shape]]] = defaultdict(list)
    for query in sorted(queries, key=lambda q: q.name):
        for part, flat in enumerate(flatten(query.operator)):
            name = query.name if part == 0 else f"{query.name}#{part}"
            if name not in given:
                given[name] = following
                following += 1
            if isinstance(flat.trunk, Aggregate):
                shape = _shape(query, given[name], flat, flat.trunk)
                fine = shape.window.per_tuple > MOST_INLINE
                windowed[shape.trunk.hash, _kind(shape.aggregates), fine].append((query, shape))
            else:
                guards = _guards(e for _, e in flat.outputs)
                condition = Condition(flat.predicate, guards)
                branch = Branch(query.name, given[name], condition, flat.outputs)
                stateless[flat.trunk.hash].append((query, branch, flat.trunk))
    units: list[Unit] = []
    for items in stateless.values():
        units.append(_stateless_unit(f"u{len(units) + 1}", items))
    for (_, kind, _), shapes in windowed.items():
        units.append(_stack_unit(f"u{len(units) + 1}", kind, shapes))
    return tuple(units)


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


def _sources(trunk: Operator) -> tuple[str, ...]:
    return tuple(sorted(o.name for o in upstream(trunk) if isinstance(o, Source)))


def _stateless_unit(unit: str, items: Sequence[tuple[Query, Branch, Operator]]) -> Unit:
    trunk = items[0][2]
    return Unit(
        id=unit,
        kind=Kind.STATELESS,
        trunk=trunk,
        sources=_sources(trunk),
        every=min(query.every for query, _, _ in items),
        branches=tuple(branch for _, branch, _ in items),
    )


def _stack_unit(unit: str, kind: Kind, items: Sequence[tuple[Query, Shape]]) -> Unit:
    trunk = items[0][1].trunk
    families = tuple(
        _family(number, shapes)
        for number, shapes in enumerate(group_shapes([shape for _, shape in items]))
    )
    return Unit(
        id=unit,
        kind=kind,
        trunk=trunk,
        sources=_sources(trunk),
        every=min(query.every for query, _ in items),
        families=families,
        key_slots=_all_key_slots(families),
        slots=_all_slots(families, kind),
    )


def carrier(type_: t.DataType) -> str:
    """Return the carrier of a key: decimals travel as text, other whole things as numbers."""
    if isinstance(type_, t.StringType | t.DecimalType):
        return "string"
    return "double" if isinstance(type_, t.DoubleType) else "long"


class _Layout:
    """Gives out the slots of one family; equal uses get the same slot."""

    def __init__(self) -> None:
        self.conditions: dict[Condition, int] = {}
        self.uses: dict[tuple[str, t.DataType, int, Expression | None], SlotUse] = {}
        self._next: dict[tuple[str, t.DataType], int] = defaultdict(int)

    def condition(self, condition: Condition) -> int:
        return self.conditions.setdefault(condition, len(self.conditions))

    def slot(
        self, function: str, type_: t.DataType, condition: int, argument: Expression | None
    ) -> Slot:
        key = (function, type_, condition, argument)
        if key not in self.uses:
            slot = Slot(function, type_, self._next[function, type_])
            self._next[function, type_] += 1
            self.uses[key] = SlotUse(slot, condition, argument)
        return self.uses[key].slot


def _family(number: int, shapes: Sequence[Shape]) -> Family:
    layout = _Layout()
    members = tuple(_member(shape, layout) for shape in shapes)
    used: dict[str, int] = defaultdict(int)
    key_slots = []
    for key in shapes[0].keys:
        kind = carrier(key.type)
        key_slots.append(KeySlot(kind, used[kind]))
        used[kind] += 1
    return Family(
        number=number,
        keys=shapes[0].keys,
        key_slots=tuple(key_slots),
        window=shapes[0].window,
        conditions=tuple(layout.conditions),
        uses=tuple(layout.uses.values()),
        members=members,
    )


def _member(shape: Shape, layout: _Layout) -> Member:
    guards = shape.guards
    condition = layout.condition(Condition(shape.predicate, guards))
    count = layout.slot("count", t.BIGINT, condition, None)
    results = tuple(
        Result(name, call, _slots_of(call, shape.predicate, guards, layout))
        for name, call in shape.aggregates
    )
    return Member(
        query=shape.query,
        number=shape.number,
        condition=condition,
        count=count,
        results=results,
        having=shape.having,
        outputs=shape.outputs,
    )


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


def _slots_of(
    call: AggregateCall, predicate: Expression, guards: tuple[Expression, ...], layout: _Layout
) -> tuple[Slot, ...]:
    """Return the slots an aggregate needs, its value first."""
    if call.condition is not None:
        predicate = conjunction(predicate, call.condition)
    condition = layout.condition(Condition(predicate, guards))
    argument = call.argument
    if argument is None:
        return (layout.slot("count", t.BIGINT, condition, None),)
    if call.function == "count":
        return (layout.slot("count", t.BIGINT, condition, argument),)
    if call.function == "approx_count_distinct":
        return (layout.slot("distinct", argument.type, condition, argument),)
    if call.function == "stddev":
        return (layout.slot("stddev", t.DOUBLE, condition, argument),)
    if call.function in ("min", "max"):
        return (layout.slot(call.function, _value_type(argument.type), condition, argument),)
    if call.function == "sum" and not _can_overflow(argument.type):
        return (layout.slot("sum", _value_type(argument.type), condition, argument),)
    # Overflow makes a sum NULL, as does having no values: the count of values tells them apart.
    # An average needs it to divide by.
    values = layout.slot("count", t.BIGINT, condition, argument)
    if call.function == "avg" and not isinstance(argument.type, t.DecimalType):
        return (layout.slot("sum", t.DOUBLE, condition, argument), values)
    return (layout.slot(call.function, _value_type(argument.type), condition, argument), values)


def _can_overflow(type_: t.DataType) -> bool:
    """Whether a sum can leave its type before there are 2^32 tuples in a group."""
    return isinstance(type_, t.DecimalType) or type_ == t.BIGINT


def _value_type(type_: t.DataType) -> t.DataType:
    if isinstance(type_, t.DoubleType | t.DecimalType | t.StringType):
        return type_
    return t.BIGINT


def _all_slots(families: Sequence[Family], kind: Kind) -> tuple[Slot, ...]:
    most: dict[tuple[str, str], tuple[t.DataType, int]] = {}
    for family in families:
        for use in family.uses:
            key = (use.slot.function, str(use.slot.type))
            held = most.get(key, (use.slot.type, 0))[1]
            most[key] = (use.slot.type, max(held, use.slot.index + 1))
    if kind is Kind.HASH:
        for function, type_ in LEAST_SLOTS:
            most.setdefault((function, str(type_)), (type_, 1))
    return tuple(
        Slot(function, type_, index)
        for (function, _), (type_, held) in sorted(most.items(), key=_counts_first)
        for index in range(held)
    )


def _counts_first(item: tuple[tuple[str, str], object]) -> tuple[bool, str, str]:
    """Counts lead, so that they are found in the state by position."""
    function, type_ = item[0]
    return function != "count", function, type_


def _all_key_slots(families: Sequence[Family]) -> tuple[KeySlot, ...]:
    most = dict(LEAST_KEY_SLOTS)
    for family in families:
        for slot in family.key_slots:
            most[slot.carrier] = max(most.get(slot.carrier, 0), slot.index + 1)
    return tuple(KeySlot(kind, i) for kind in sorted(most) for i in range(most[kind]))
