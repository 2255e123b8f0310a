"""The keys of a stack's groups.

Theory of operation
===================
Spark aggregates in a fast hash map only rows that have no NULL among their keys; the others take a
map that is half as fast. Families use different key slots, so most rows would have one. Key slots
are therefore never NULL: a slot that a family does not use, or whose key is NULL, holds a constant,
and which keys are NULL is said by bits above the family number, in the same column. NULL and the
constant are different groups. Spark, too, has to see that they are never NULL (`never_null`), in
whatever plan: a state that was made of keys without NULL refuses keys that could be.

Where every family has one condition, the row of a family with one whole-number key carries that
key as its value (`keyed`): no second look-up, and no key is computed for families that do not want
the tuple.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.model.expression import Call, Cast, Column, Literal, walk
from evenflow.model.functions import can_fail
from evenflow.spark.compile.carriers import LONG, to_key
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.expand import AT, VALUE, look_up, one_or_array
from evenflow.spark.compile.gates import positive_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model.expression import Expression
    from evenflow.model.unit import Family, KeySlot, Unit
    from evenflow.spark.compile.columns import Resolve
    from evenflow.spark.compile.entries import Entry

FAMILY = "_family"
"""What a group is: a family's number, below the bits of its NULL keys."""
HASH, BITS = "_hash", "_bits"
"""Of a group: the hash of its keys and window; the bits above the family's number."""

_NULL_BITS = 32
"""The bit of the first key slot."""
_MOST_BITS = 31
"""Key slots that have a bit. The NULLs of any further ones are NULLs of the group."""
_NOWHERE = -(1 << 30)
"""The position of no entry."""
_PER_COLUMN = 60
"""Expressions whose being NULL is noted in one column."""

_TYPES = {"string": st.StringType(), "long": LONG, "double": st.DoubleType()}
_CONSTANTS: dict[str, object] = {"string": "", "long": 0, "double": 0.0}


class StackKeys:
    """Builds the key columns of one unit's stack."""

    def __init__(self, unit: Unit, resolve: Resolve) -> None:
        self._slots = unit.key_slots
        self._resolve = resolve
        self._masks = any(len(family.conditions) > 1 for family in unit.families)
        self._values: list[list[Expression]] = [[] for _ in unit.key_slots]
        """Per slot, the distinct keys that families have in it."""
        self._nullable: list[Expression] = []
        """What may be NULL; the i-th has the i-th bit."""
        self._hashed: dict[int, list[SparkColumn]] = {}
        """By family, the keys by which gates drop."""

    def is_keyed(self, family: Family) -> bool:
        """Whether rows of the family carry their key as value."""
        return not self._masks and _can_carry_key(family)

    def carried(self, family: Family) -> SparkColumn:
        """Return the value of a keyed family's rows."""
        key = compile_expression(family.keys[0], self._resolve).value
        return never_null(to_key(key, family.keys[0].type, "long"), "long")

    def indexes(self, family: Family) -> tuple[int | None, ...]:
        """Return, per slot, which of its distinct keys the family has there."""
        used = dict(zip(family.key_slots, family.keys, strict=True))
        keyed = self.is_keyed(family)
        for key in family.keys:
            for each in _columns(key) if keyed else [key]:
                if each not in self._nullable:
                    self._nullable.append(each)
        return tuple(
            None if keyed or slot not in used else self._index(at, used[slot])
            for at, slot in enumerate(self._slots)
        )

    def _index(self, slot: int, key: Expression) -> int:
        known = self._values[slot]
        if key not in known:
            known.append(key)
        return known.index(key)

    def window_hash(self, family: Family, end: SparkColumn) -> SparkColumn:
        """Return the hash of a tuple's key and window, by which gates drop."""
        if family.number not in self._hashed:
            used = dict(zip(family.key_slots, family.keys, strict=True))
            self._hashed[family.number] = [
                self._key(used[slot], slot) if slot in used else _constant(slot.carrier)
                for slot in self._slots
            ]
        return positive_hash([*self._hashed[family.number], end])

    def once(self) -> dict[str, SparkColumn]:
        """Return what is computed once per tuple and needed by its rows."""
        columns: dict[str, SparkColumn] = {}
        for at, keys in enumerate(self._values):
            made = [self._key(key, self._slots[at]) for key in keys]
            if made:
                columns[f"_key{at}"] = one_or_array(made)
        for number in range(self._columns_of_nulls):
            noted = self._nullable[number * _PER_COLUMN :][:_PER_COLUMN]
            bits = [
                F.when(
                    compile_expression(each, self._resolve).value.isNull(), _bit(offset)
                ).otherwise(_bit(None))
                for offset, each in enumerate(noted)
            ]
            columns[f"_nulls{number}"] = reduce(lambda a, b: a.bitwiseOR(b), bits)
        return columns

    @property
    def _columns_of_nulls(self) -> int:
        return -(-len(self._nullable) // _PER_COLUMN)

    def _key(self, key: Expression, slot: KeySlot) -> SparkColumn:
        value = compile_expression(key, self._resolve).value
        return never_null(to_key(value, key.type, slot.carrier), slot.carrier)

    def row_hash(self, entries: Sequence[Entry], end: SparkColumn) -> SparkColumn:
        """Return the hash of an expanded row's key and window, by which gates drop."""
        keys = [
            never_null(self._of_slot(at, entries), slot.carrier)
            for at, slot in enumerate(self._slots)
        ]
        return positive_hash([*keys, end])

    def columns(self, entries: Sequence[Entry], aside: SparkColumn) -> list[SparkColumn]:
        """Return the key slots of an expanded row. What is set aside is counted without keys."""
        made = []
        for at, slot in enumerate(self._slots):
            key = never_null(self._of_slot(at, entries), slot.carrier)
            if at >= _MOST_BITS:
                # Spark must not find out where none is NULL.
                key = F.when(~self._is_null(at, entries) & (F.col(AT) != _NOWHERE), key)
            made.append(F.when(aside, _constant(slot.carrier)).otherwise(key).alias(slot.name))
        return made

    def _of_slot(self, slot: int, entries: Sequence[Entry]) -> SparkColumn:
        at, nothing = F.col(AT), _constant(self._slots[slot].carrier)
        keyed = [_is_in(e, self._slots[slot]) for e in entries]
        held = [e.keys[slot] for e in entries]
        found = nothing
        if len(self._values[slot]) == 1:
            found = F.col(f"_key{slot}")
            if None in held:
                found = F.when(look_up([h is not None for h in held], at), found).otherwise(nothing)
        elif self._values[slot]:
            found = F.get(F.col(f"_key{slot}"), look_up(held, at))
        if not any(keyed):
            return found
        value = F.col(VALUE)
        return value if all(keyed) else F.when(look_up(keyed, at), value).otherwise(found)

    def null_bits(self, entries: Sequence[Entry]) -> SparkColumn | None:
        """Return the bits of a row's NULL keys; None if there are no keys."""
        nulls = [F.col(f"_nulls{number}") for number in range(self._columns_of_nulls)]
        if not nulls:
            return None
        bits = [
            F.when(self._is_null(at, entries), _bit(_NULL_BITS + at)).otherwise(_bit(None))
            for at in range(min(len(self._slots), _MOST_BITS))
        ]
        some = reduce(lambda a, b: a | b, (each != 0 for each in nulls))
        return F.when(some, reduce(lambda a, b: a.bitwiseOR(b), bits)).otherwise(_bit(None))

    def _is_null(self, slot: int, entries: Sequence[Entry]) -> SparkColumn:
        tests = []
        for number in range(self._columns_of_nulls):
            noted = self._nullable[number * _PER_COLUMN :][:_PER_COLUMN]
            masks = [
                sum(1 << i for i, e in enumerate(noted) if e in self._parts(slot, entry))
                for entry in entries
            ]
            mask = look_up(masks, F.col(AT), LONG)
            tests.append(F.col(f"_nulls{number}").bitwiseAND(mask) != 0)
        return reduce(lambda a, b: a | b, tests)

    def _parts(self, slot: int, entry: Entry) -> list[Expression]:
        """Return what makes the key of an entry NULL in a slot."""
        if entry.of is not None and _is_in(entry, self._slots[slot]):
            return _columns(entry.of.keys[0])
        held = entry.keys[slot]
        return [] if held is None else [self._values[slot][held]]


def without_bits(family: SparkColumn) -> SparkColumn:
    """Return the number of a family, without the bits of NULL keys."""
    return family.bitwiseAND(F.lit((1 << _NULL_BITS) - 1).cast(LONG)).cast(st.IntegerType())


def with_nulls(groups: DataFrame, unit: Unit, end: str) -> DataFrame:
    """Return a stack's groups with their family number alone and with NULL keys.

    Beside them stand the hash by which gates drop, and what is in the bits.
    """
    bits = F.col(FAMILY)
    restored: dict[str, SparkColumn] = {FAMILY: without_bits(bits).alias(FAMILY)}
    for at, slot in enumerate(unit.key_slots[:_MOST_BITS]):
        present = bits.bitwiseAND(_bit(_NULL_BITS + at)) == 0
        restored[slot.name] = F.when(present, F.col(slot.name)).alias(slot.name)
    keys = [never_null(F.col(slot.name), slot.carrier) for slot in unit.key_slots]
    hash_ = positive_hash([*keys, F.unix_micros(F.col(end))])
    return groups.select(
        *(restored.get(name, F.col(name)) for name in groups.columns),
        hash_.alias(HASH),
        F.shiftright(bits, _NULL_BITS).alias(BITS),
    )


def _bit(number: int | None) -> SparkColumn:
    return F.lit(0 if number is None else 1 << number).cast(LONG)


def never_null(value: SparkColumn, carrier: str) -> SparkColumn:
    """Return a value that is not NULL as one that Spark knows not to be."""
    return F.coalesce(value, _constant(carrier))


def _constant(carrier: str) -> SparkColumn:
    return F.lit(_CONSTANTS[carrier]).cast(_TYPES[carrier])


def _is_in(entry: Entry, slot: KeySlot) -> bool:
    """Whether rows of an entry carry the key of a slot."""
    return entry.keyed and entry.of is not None and entry.of.key_slots[0] == slot


def _columns(expression: Expression) -> list[Expression]:
    return [each for each in walk(expression) if isinstance(each, Column)]


def _can_carry_key(family: Family) -> bool:
    """Whether the family's key fits a row's value, and is NULL just if one of its columns is."""
    return (
        len(family.keys) == 1
        and family.key_slots[0].carrier == "long"
        and not can_fail(family.keys[0])
        and bool(_columns(family.keys[0]))
        and all(_passes_nulls_only(e) for e in walk(family.keys[0]))
    )


def _passes_nulls_only(expression: Expression) -> bool:
    match expression:
        case Column() | Cast():
            return True
        case Literal(value=value):
            return value is not None
        case Call(function=function):
            return function in ("+", "-", "*", "%", "neg", "abs", "unix_seconds", "unix_millis")
        case _:
            return False
