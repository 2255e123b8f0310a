"""What rows put into slots."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.model import types as t
from evenflow.spark.compile.carriers import LONG, to_slot
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.expand import ALL_BITS, AT, VALUE, look_up
from evenflow.spark.compile.types import to_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn

    from evenflow.model.expression import Expression
    from evenflow.model.unit import Slot, SlotUse, Unit
    from evenflow.spark.compile.columns import Resolve
    from evenflow.spark.compile.entries import Entry


class SlotInputs:
    """Builds the aggregates of a stack."""

    def __init__(self, unit: Unit, resolve: Resolve, entries: Sequence[Entry]) -> None:
        self._unit = unit
        self._resolve = resolve
        self._entries = entries
        self._made: set[tuple[object, ...]] = set()
        """What tells the aggregates apart that were made: function, arguments, who asks."""

    def aggregate(self, slot: Slot) -> SparkColumn:
        """Return the aggregate of a slot over the rows of a group."""
        uses: list[SlotUse | None] = [_use_of(e, slot) for e in self._entries]
        value = self._input(slot, uses)
        match slot.function:
            case "count":
                made = F.count(value)
            case "sum":
                made = F.sum(value) if slot.type == t.DOUBLE else F.try_sum(value)
            case "avg":
                made = F.try_avg(value)
            case "min":
                made = F.min(value)
            case "max":
                made = F.max(value)
            case "stddev":
                made = F.stddev(value)
            case _:
                made = F.approx_count_distinct(value)
        return made.alias(slot.name)

    def _input(self, slot: Slot, uses: Sequence[SlotUse | None]) -> SparkColumn:
        at = F.col(AT)
        if not any(uses) and slot == self._unit.slots[0]:
            # The ledger is counted here, also where all queries are paused.
            return self._apart(slot, (None, ()), F.lit(1))
        if not any(uses):
            # A spare slot. Different for each, or Spark would merge equal aggregates into one.
            nothing = self._typed(slot, F.lit(0))
            return F.when(at == F.lit(-1 - self._unit.slots.index(slot)), nothing)
        arguments: list[Expression | None] = []
        for use in uses:
            if use is not None and use.argument not in arguments:
                arguments.append(use.argument)
        inputs = [self._argument(slot, argument) for argument in arguments]
        value = inputs[0]
        which = [None if u is None else arguments.index(u.argument) for u in uses]
        for index in range(1, len(inputs)):
            value = F.when(look_up(which, at) == index, inputs[index]).otherwise(value)
        masks = self._masks(uses)
        condition = self._slot_condition(slot, uses, masks)
        value = value if condition is None else F.when(condition, value)
        positions = which if len(inputs) > 1 else ()
        return self._apart(slot, (*arguments, *positions, masks), value)

    def _apart(self, slot: Slot, told: tuple[object, ...], value: SparkColumn) -> SparkColumn:
        """Return the same, but never what Spark would merge with another slot's aggregate.

        Members that leave, or are paused, can leave two slots with the same argument.
        """
        made = (slot.function, *told)
        if made in self._made:
            return F.when(F.col(AT) > F.lit(-1 - slot.index), value)
        self._made.add(made)
        return value

    def _typed(self, slot: Slot, value: SparkColumn) -> SparkColumn:
        return value.cast(to_spark(slot.type))

    def _argument(self, slot: Slot, argument: Expression | None) -> SparkColumn:
        if argument is None:
            return F.lit(1)
        value = compile_expression(argument, self._resolve).value
        if slot.function == "count":
            return _never_folded(F.when(value.isNotNull(), F.lit(1)), slot)
        return to_slot(value, argument.type, slot.type)

    def _masks(self, uses: Sequence[SlotUse | None]) -> tuple[int, ...]:
        """Return the bits of which rows need one, by position; one mask for all, or none."""
        masks = tuple(_mask(e, use) for e, use in zip(self._entries, uses, strict=True))
        distinct = set(masks) - {ALL_BITS}
        # Rows of other masks have all bits, or only such as no slot of theirs asks for.
        return masks if len(distinct) > 1 else tuple(distinct)

    def _slot_condition(
        self, slot: Slot, uses: Sequence[SlotUse | None], masks: tuple[int, ...]
    ) -> SparkColumn | None:
        """Return when a row feeds the slot; None if every row may.

        A slot that a row's family does not use is never read in its groups: what a row puts there
        does no harm, and not asking is cheaper, unless the aggregate is dear. Of special rows
        only the first count is read, and all bits of their masks are set.
        """
        conditions: list[SparkColumn] = []
        users = [use is not None for use in uses]
        if slot.function in _DEAR and not all(users):
            conditions.append(look_up(users, F.col(AT)))
        if masks:
            conditions.append(F.col(VALUE).bitwiseAND(look_up(masks, F.col(AT), LONG)) != 0)
        return reduce(lambda a, b: a & b, conditions) if conditions else None


_DEAR = ("distinct", "stddev")


def _never_folded(counted: SparkColumn, slot: Slot) -> SparkColumn:
    """Return the same for every position, in a form that Spark cannot simplify.

    Where an argument is never NULL, or always, Spark would make its count equal to another one, or
    a constant, and take it out of the state, in which counts are found by their place.
    """
    at, nowhere = F.col(AT), F.lit(-1 - slot.index)
    return F.when(at > nowhere, F.coalesce(counted, F.when(at < nowhere, F.lit(1))))


def _mask(entry: Entry, use: SlotUse | None) -> int:
    """Return the bits of which a row needs one to feed a slot."""
    if use is None or entry.of is None or len(entry.of.conditions) == 1:
        return ALL_BITS
    return 1 << use.condition


def _use_of(entry: Entry, slot: Slot) -> SlotUse | None:
    if entry.of is None:
        return None
    return next((use for use in entry.of.uses if use.slot == slot), None)
