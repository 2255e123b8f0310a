"""What rows put into slots, and the constant look-ups by which a row knows its family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.model import types as t
from evenflow.spark.compile.carriers import LONG, to_slot
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.types import to_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn

    from evenflow.model.expression import Expression
    from evenflow.model.unit import Slot, SlotUse, Unit
    from evenflow.spark.compile.columns import Resolve
    from evenflow.spark.compile.entries import Entry

AT, VALUE = "_at", "_value"
"""Columns of an expanded row: the position of its entry, and the entry's value."""


class SlotInputs:
    """Builds the aggregates of a stack."""

    def __init__(self, unit: Unit, resolve: Resolve, entries: Sequence[Entry]) -> None:
        self._unit = unit
        self._resolve = resolve
        self._entries = entries

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
        condition = self._slot_condition(slot, uses)
        return value if condition is None else F.when(condition, value)

    def _typed(self, slot: Slot, value: SparkColumn) -> SparkColumn:
        return value.cast(to_spark(slot.type))

    def _argument(self, slot: Slot, argument: Expression | None) -> SparkColumn:
        if argument is None:
            return F.lit(1)
        value = compile_expression(argument, self._resolve).value
        if slot.function == "count":
            return F.when(value.isNotNull(), F.lit(1))
        return to_slot(value, argument.type, slot.type)

    def _slot_condition(self, slot: Slot, uses: Sequence[SlotUse | None]) -> SparkColumn | None:
        """Return when a row feeds the slot; None if every row may.

        Rows of the ledger, rejected and late rows feed the first count slot, which is all that is
        read of them; what else they put into their own groups does no harm.
        """
        at, value = F.col(AT), F.col(VALUE)
        first = slot.function == "count" and slot.index == 0
        bits: list[int | None] = []
        for use, entry in zip(uses, self._entries, strict=True):
            if use is not None:
                bits.append(-1 if entry.every else use.condition)
            else:
                bits.append(-1 if first and entry.of is None else None)
        if all(b == -1 for b in bits):
            return None
        if all(b in (-1, None) for b in bits):
            return look_up([b == -1 for b in bits], at)
        masks = [None if b is None else (-1 if b == -1 else 1 << b) for b in bits]
        distinct = {m for m in masks if m is not None}
        if len(distinct) == 1 and None not in masks:
            return value.bitwiseAND(F.lit(distinct.pop()).cast(LONG)) != 0
        # A row of which every condition holds carries a key that may be 0, not a mask.
        always = [m == -1 for m in masks]
        test = value.bitwiseAND(look_up(masks, at, LONG)) != 0
        return (look_up(always, at) | test) if any(always) else test


def _use_of(entry: Entry, slot: Slot) -> SlotUse | None:
    if entry.of is None:
        return None
    return next((use for use in entry.of.uses if use.slot == slot), None)


def look_up(
    values: Sequence[int | bool | None], at: SparkColumn, type_: st.DataType | None = None
) -> SparkColumn:
    """Return the value at a position of a constant array; the constant itself if all are equal."""
    if len(set(values)) == 1:
        value = F.lit(values[0])
        return value.cast(type_) if type_ is not None else value
    kind = type_ or (
        st.BooleanType() if any(isinstance(v, bool) for v in values) else st.IntegerType()
    )
    return F.get(F.array(*(F.lit(v) for v in values)).cast(st.ArrayType(kind)), at)
