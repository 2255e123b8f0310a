"""Entries of the expansion: what a tuple can become a row of.

One per family and window, one per way to be rejected, and the ledger. `stack` explains the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.model.expression import TRUE, Call, Cast, Column, Literal, walk
from evenflow.model.functions import can_fail
from evenflow.model.operator import Window
from evenflow.spark.compile.carriers import LONG, to_key
from evenflow.spark.compile.columns import compile_expression

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column as SparkColumn

    from evenflow.model.expression import Expression
    from evenflow.model.unit import Condition, Family, Member, Unit
    from evenflow.spark.compile.columns import Resolve

LATE = 1_000_000
REJECTED = 2_000_000
LEDGER = 3_000_000
"""Family numbers of rows that are not answers begin here."""

CHUNK = 10
"""Entries per generated method. Ten predicates stay well below 8,000 bytecodes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in the expanded array."""

    family: int
    value: SparkColumn
    slide: int | None
    """Microseconds; None for rows without a window of their own."""
    offset: int
    """From the start of the slide that the tuple is in to the window's last microsecond."""
    keys: tuple[int | None, ...]
    """Per key slot: index into the distinct keys of that slot, or None."""
    keyed: bool
    """The value is the key itself, not a mask."""
    every: bool
    """All conditions of the family hold on every row: there is but one."""
    of: Family | None
    """The family whose slots it feeds."""
    windows: int = 1
    """Windows that a row of it is for: this one and the ones before, one slide apart."""


@dataclass(slots=True)
class Once:
    """What is computed once per tuple, before the expansion."""

    columns: dict[str, SparkColumn] = field(default_factory=dict)

    def keep(self, name: str, value: SparkColumn) -> SparkColumn:
        """Add a column and return the reference to it."""
        self.columns[name] = value
        return F.col(name)


class EntryBuilder:
    """Makes the entries of a unit, and what they need computed once per tuple."""

    def __init__(self, unit: Unit, resolve: Resolve) -> None:
        self._unit = unit
        self._resolve = resolve
        self.once = Once()
        self._conditions: dict[Condition, SparkColumn] = {}
        self.key_values: list[list[tuple[Expression, SparkColumn]]] = [[] for _ in unit.key_slots]
        """Per key slot, the distinct keys that families carry in it."""

    def entries(self) -> Iterator[Entry]:
        """Yield the entries that every tuple has."""
        shared = _used_often(self._unit.families)
        for condition in shared:
            name = f"_p{len(self._conditions)}"
            self._conditions[condition] = self.once.keep(name, self._holds(condition))
        for family in self._unit.families:
            yield from self._family_entries(family)
        for family in self._unit.families:
            for member in family.members:
                yield from self._reject_entries(family, member)
        yield from self._ledger_entries()

    def _family_entries(self, family: Family) -> Iterator[Entry]:
        keyed = is_keyed(family)
        if keyed:
            key = compile_expression(family.keys[0], self._resolve).value
            wanted = self._condition(family.conditions[0])
            value = F.when(wanted, to_key(key, family.keys[0].type, "long"))
        else:
            value = self._mask(family)
        if family.window.per_tuple > 1 and not self._unit.fine:
            value = self.once.keep(f"_f{family.number}", value)
        keys = (None,) * len(self._unit.key_slots) if keyed else self._key_indexes(family)
        for offset, windows in self._offsets(family.window):
            yield Entry(
                family=family.number,
                value=value,
                slide=family.window.slide_us,
                offset=offset,
                keys=keys,
                keyed=keyed,
                every=len(family.conditions) == 1,
                of=family,
                windows=windows,
            )

    def _offsets(self, window: Window) -> Iterator[tuple[int, int]]:
        """Yield offset and number of windows of the entries that a window needs, newest first."""
        newest = window.size_us - 1
        if self._unit.fine:
            yield newest, window.per_tuple
            return
        for back in range(window.per_tuple):
            yield newest - back * window.slide_us, 1

    def _mask(self, family: Family) -> SparkColumn:
        if len(family.conditions) == 1:
            return F.when(self._condition(family.conditions[0]), F.lit(1).cast(LONG))
        bits = [
            F.when(self._condition(c), F.lit(1 << i).cast(LONG)).otherwise(F.lit(0).cast(LONG))
            for i, c in enumerate(family.conditions)
        ]
        mask = reduce(lambda a, b: a.bitwiseOR(b), bits)
        mask = self.once.keep(f"_m{family.number}", mask)
        return F.when(mask != 0, mask)

    def null_key_entries(self) -> Iterator[Entry]:
        """Yield the entries that only tuples with a NULL in a key have."""
        for family in self._unit.families:
            if not is_keyed(family):
                continue
            key = compile_expression(family.keys[0], self._resolve).value
            wanted = self._condition(family.conditions[0]) & key.isNull()
            value = F.when(wanted, F.lit(1).cast(LONG))
            for offset, windows in self._offsets(family.window):
                yield Entry(
                    family=family.number,
                    value=value,
                    slide=family.window.slide_us,
                    offset=offset,
                    keys=(None,) * len(self._unit.key_slots),
                    keyed=False,
                    every=True,
                    of=family,
                    windows=windows,
                )

    def _reject_entries(self, family: Family, member: Member) -> Iterator[Entry]:
        error = self._fails(family.conditions[member.condition])
        if error is None:
            return
        window = family.window
        value = self.once.keep(f"_e{member.number}", F.when(error, F.lit(1).cast(LONG)))
        for offset, windows in self._offsets(window):
            special = self._special(REJECTED + member.number, value, window.slide_us, offset)
            yield replace(special, windows=windows)

    def _ledger_entries(self) -> Iterator[Entry]:
        one = F.lit(1).cast(LONG)
        yield self._special(LEDGER, one, None, 0)
        for index, (size, slide) in enumerate(irregular_windows(self._unit)):
            oldest = size - 1 - (Window(size, slide).per_tuple - 1) * slide
            yield self._special(LEDGER + 1 + index, one, slide, oldest)

    def _special(self, family: int, value: SparkColumn, slide: int | None, offset: int) -> Entry:
        keys = (None,) * len(self._unit.key_slots)
        return Entry(family, value, slide, offset, keys, False, False, None)

    # Conditions.

    def _condition(self, condition: Condition) -> SparkColumn:
        known = self._conditions.get(condition)
        return self._holds(condition) if known is None else known

    def _holds(self, condition: Condition) -> SparkColumn:
        """Return whether a tuple counts; NULL is as good as FALSE."""
        compiled = compile_expression(condition.predicate, self._resolve)
        held = compiled.value
        if compiled.error is not None:
            held = held & ~compiled.error
        for guard in condition.guards:
            error = compile_expression(guard, self._resolve).error
            held = held if error is None else held & ~error
        return held

    def _fails(self, condition: Condition) -> SparkColumn | None:
        """Return whether a tuple is rejected, or None if it never is."""
        compiled = compile_expression(condition.predicate, self._resolve)
        errors = [] if compiled.error is None else [compiled.error]
        for guard in condition.guards:
            error = compile_expression(guard, self._resolve).error
            if error is not None:
                errors.append(F.coalesce(compiled.value, F.lit(False)) & error)
        return reduce(lambda a, b: a | b, errors) if errors else None

    # Keys.

    def _key_indexes(self, family: Family) -> tuple[int | None, ...]:
        used = dict(zip(family.key_slots, family.keys, strict=True))
        indexes: list[int | None] = []
        for at, slot in enumerate(self._unit.key_slots):
            if slot not in used:
                indexes.append(None)
                continue
            known = self.key_values[at]
            found = next((i for i, (e, _) in enumerate(known) if e == used[slot]), None)
            if found is None:
                found = len(known)
                value = compile_expression(used[slot], self._resolve).value
                known.append((used[slot], to_key(value, used[slot].type, slot.carrier)))
            indexes.append(found)
        return tuple(indexes)

    def null_chunk(self, null_entries: Sequence[Entry]) -> SparkColumn:
        """Return the part of the array that is only built where a key may be NULL."""
        columns = {
            each
            for entry in null_entries
            if entry.of is not None
            for each in walk(entry.of.keys[0])
            if isinstance(each, Column)
        }
        some = reduce(
            lambda a, b: a | b,
            (self._resolve(c).isNull() for c in sorted(columns, key=str)),
        )
        parts = [
            F.array(*(e.value for e in null_entries[i : i + CHUNK]))
            for i in range(0, len(null_entries), CHUNK)
        ]
        array = parts[0] if len(parts) == 1 else F.concat(*parts)
        return F.when(some, array).otherwise(F.array().cast(st.ArrayType(LONG)))


def _used_often(families: Sequence[Family]) -> list[Condition]:
    """Return conditions that several families or windows evaluate: worth computing once."""
    times: dict[Condition, int] = {}
    for family in families:
        for condition in family.conditions:
            times[condition] = times.get(condition, 0) + 1
    return [c for c, n in times.items() if n > 1 and c.predicate != TRUE]


def is_keyed(family: Family) -> bool:
    """Whether a row of the family can carry its key instead of a mask.

    The key must be NULL only if one of its columns is: see `EntryBuilder.null_chunk`.
    """
    return (
        len(family.conditions) == 1
        and len(family.keys) == 1
        and family.key_slots[0].carrier == "long"
        and not can_fail(family.keys[0])
        and any(isinstance(e, Column) for e in walk(family.keys[0]))
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


def irregular_windows(unit: Unit) -> list[tuple[int, int]]:
    """Return (size, slide) of windows of which a tuple is not always in the same number."""
    found = {
        (f.window.size_us, f.window.slide_us)
        for f in unit.families
        if f.window.size_us % f.window.slide_us
    }
    return sorted(found)
