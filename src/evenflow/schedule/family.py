"""Families: slots given out when one is made, and the family as the compiler wants it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from evenflow.errors import StateError
from evenflow.graph.canonical import canonical_text
from evenflow.model import types as t
from evenflow.model.unit import (
    Condition,
    Family,
    KeySlot,
    Kind,
    Member,
    Result,
    Slot,
    SlotUse,
)
from evenflow.schedule.flatten import conjunction
from evenflow.schedule.layout import FamilyLayout, Lease

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.model.expression import AggregateCall, Expression
    from evenflow.schedule.shape import Shape

LEAST_SLOTS = (("count", t.BIGINT), ("sum", t.DOUBLE))
"""Slots that every hash stack has, so that a query can come without a new state. A query that comes
alone makes a family of its own and needs the first slot of each function only. Each slot costs a
few percent of throughput; what does not fit starts a second stack."""

LEAST_KEY_SLOTS = (("long", 1),)
"""Key slots that every hash stack has, for the same reason. A text key, even an unused one, costs
a quarter of the throughput."""


def lay_out_family(
    number: int, shapes: Sequence[Shape], since_us: int | None
) -> tuple[FamilyLayout, tuple[Lease, ...]]:
    """Return a new family for some shapes of equal keys and window, and their leases."""
    uses = _Uses()
    members = [_member(shape, uses) for shape in shapes]
    layout = FamilyLayout(
        number=number,
        since_us=since_us,
        size_us=shapes[0].window.size_us,
        key_slots=_key_slots(shapes[0]),
        slots=uses.given,
    )
    leases = (Lease(number=m.number, family=number, count=m.count) for m in members)
    return layout, tuple(leases)


def build_family(layout: FamilyLayout, shapes: Sequence[Shape]) -> Family:
    """Return a family with the shapes that it still carries.

    Raises:
        StateError: They are not those that it was laid out for.
    """
    uses = _Uses(layout.slots)
    members = tuple(_member(shape, uses) for shape in shapes)
    return Family(
        number=layout.number,
        keys=shapes[0].keys,
        key_slots=layout.key_slots,
        window=shapes[0].window,
        conditions=tuple(uses.conditions),
        uses=tuple(uses.uses.values()),
        members=members,
        since_us=layout.since_us,
    )


class _Uses:
    """The slots of one family; equal uses get the same slot."""

    def __init__(self, known: Mapping[str, Slot] | None = None) -> None:
        self.conditions: dict[Condition, int] = {}
        self.uses: dict[tuple[str, t.DataType, int, Expression | None], SlotUse] = {}
        self.given: dict[str, Slot] = {}
        self._known = known
        self._next: dict[tuple[str, t.DataType], int] = defaultdict(int)

    def condition(self, condition: Condition) -> int:
        return self.conditions.setdefault(condition, len(self.conditions))

    def slot(
        self, function: str, type_: t.DataType, condition: Condition, argument: Expression | None
    ) -> Slot:
        bit = self.condition(condition)
        key = (function, type_, bit, argument)
        if key not in self.uses:
            text = _use_text(function, type_, condition, argument)
            slot = self._give(text, function, type_)
            self.given[text] = slot
            self.uses[key] = SlotUse(slot, bit, argument)
        return self.uses[key].slot

    def _give(self, text: str, function: str, type_: t.DataType) -> Slot:
        if self._known is not None:
            if text not in self._known:
                raise StateError(
                    "this state was laid out by another version of Evenflow",
                    "run it with that version, start over with --replace, or use another --state",
                )
            return self._known[text]
        index = self._next[function, type_]
        self._next[function, type_] += 1
        return Slot(function, type_, index)


def _use_text(
    function: str, type_: t.DataType, condition: Condition, argument: Expression | None
) -> str:
    parts = [f"{function} {type_}", "*" if argument is None else canonical_text(argument)]
    parts += [canonical_text(e) for e in (condition.predicate, *condition.guards)]
    return " | ".join(parts)


def _key_slots(shape: Shape) -> tuple[KeySlot, ...]:
    used: dict[str, int] = defaultdict(int)
    slots = []
    for key in shape.keys:
        kind = carrier(key.type)
        slots.append(KeySlot(kind, used[kind]))
        used[kind] += 1
    return tuple(slots)


def carrier(type_: t.DataType) -> str:
    """Return the carrier of a key: decimals travel as text, other whole things as numbers."""
    if isinstance(type_, t.StringType | t.DecimalType):
        return "string"
    return "double" if isinstance(type_, t.DoubleType) else "long"


def _member(shape: Shape, uses: _Uses) -> Member:
    condition = Condition(shape.predicate, shape.guards)
    count = uses.slot("count", t.BIGINT, condition, None)
    results = tuple(
        Result(name, call, _slots_of(call, condition, uses)) for name, call in shape.aggregates
    )
    return Member(
        query=shape.query,
        number=shape.number,
        condition=uses.condition(condition),
        count=count,
        results=results,
        having=shape.having,
        outputs=shape.outputs,
    )


def _slots_of(call: AggregateCall, condition: Condition, uses: _Uses) -> tuple[Slot, ...]:
    """Return the slots an aggregate needs, its value first."""
    if call.condition is not None:
        predicate = conjunction(condition.predicate, call.condition)
        condition = Condition(predicate, condition.guards)
    argument = call.argument
    if argument is None:
        return (uses.slot("count", t.BIGINT, condition, None),)
    if call.function == "count":
        return (uses.slot("count", t.BIGINT, condition, argument),)
    if call.function == "approx_count_distinct":
        return (uses.slot("distinct", argument.type, condition, argument),)
    if call.function == "stddev":
        return (uses.slot("stddev", t.DOUBLE, condition, argument),)
    if call.function in ("min", "max"):
        return (uses.slot(call.function, _value_type(argument.type), condition, argument),)
    if call.function == "sum" and not _can_overflow(argument.type):
        return (uses.slot("sum", _value_type(argument.type), condition, argument),)
    # Overflow makes a sum NULL, as does having no values: the count of values tells them apart.
    # An average needs it to divide by.
    values = uses.slot("count", t.BIGINT, condition, argument)
    if call.function == "avg" and not isinstance(argument.type, t.DecimalType):
        return (uses.slot("sum", t.DOUBLE, condition, argument), values)
    return (uses.slot(call.function, _value_type(argument.type), condition, argument), values)


def _can_overflow(type_: t.DataType) -> bool:
    """Whether a sum can leave its type before there are 2^32 tuples in a group."""
    return isinstance(type_, t.DecimalType) or type_ == t.BIGINT


def _value_type(type_: t.DataType) -> t.DataType:
    if isinstance(type_, t.DoubleType | t.DecimalType | t.StringType):
        return type_
    return t.BIGINT


def all_slots(families: Sequence[FamilyLayout], kind: Kind) -> tuple[Slot, ...]:
    """Return the slots of a unit: those of its families, and a few to spare."""
    most: dict[tuple[str, str], tuple[t.DataType, int]] = {}
    for family in families:
        for slot in family.slots.values():
            key = (slot.function, str(slot.type))
            held = most.get(key, (slot.type, 0))[1]
            most[key] = (slot.type, max(held, slot.index + 1))
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


def all_key_slots(families: Sequence[FamilyLayout]) -> tuple[KeySlot, ...]:
    """Return the key slots of a unit."""
    most = dict(LEAST_KEY_SLOTS)
    for family in families:
        for slot in family.key_slots:
            most[slot.carrier] = max(most.get(slot.carrier, 0), slot.index + 1)
    return tuple(KeySlot(kind, i) for kind in sorted(most) for i in range(most[kind]))
