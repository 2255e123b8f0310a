"""Entries of the expansion: what a tuple can become a row of.

One per family and window, one per way to be rejected, and the ledger. `stack` explains the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.model.expression import TRUE
from evenflow.model.operator import Window
from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.columns import compile_expression
from evenflow.spark.compile.expand import ALL_BITS
from evenflow.spark.compile.gates import PassBits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column as SparkColumn

    from evenflow.model.unit import Condition, Family, Member, Unit
    from evenflow.spark.compile.columns import Resolve
    from evenflow.spark.compile.gates import GateColumns
    from evenflow.spark.compile.keys import StackKeys

_KIND = 1 << 28
LATE, CUT, REJECTED, LEDGER, REST, PULSE, FAILED = (kind * _KIND for kind in range(1, 8))
"""Family numbers of rows that are not answers begin here."""

NEWEST = PULSE + 1
"""Family number of what keeps the newest event time read of several sources in the state."""
GATED = REST + _KIND // 2
"""Family numbers of what gates dropped begin here; families are never so many."""
MOST_FAMILIES = _KIND // 2
US = "_us"
"""The tuple's event time in microseconds; NULL if it has none that can be reckoned with."""
_MOST_US = 9 * 10**18
"""Event times beyond this, 285,000 years from 1970, count as none: the ends of windows around them
may not fit into 64 bits, which would end the batch for everybody."""
_SECOND_US = 1_000_000

_LEDGERS = 1024
"""Ledgers that an era can have."""


def ledger(era: int, index: int = 0) -> int:
    """Return the family number of an era's ledger: the plain one, or of an irregular window."""
    return LEDGER + era * _LEDGERS + index


def ledger_of(family: int) -> tuple[int, int] | None:
    """Return era and index if a family number is a ledger's."""
    return divmod(family - LEDGER, _LEDGERS) if LEDGER <= family < REST else None


def failed_ledger(era: int, index: int = 0) -> int:
    """Return the family number of a ledger of tuples on which the trunk failed."""
    return FAILED + era * _LEDGERS + index


def failed_ledger_of(family: int) -> tuple[int, int] | None:
    """Return era and index if a family number is that of a ledger of failed tuples."""
    return divmod(family - FAILED, _LEDGERS) if family >= FAILED else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in the expansion of a tuple."""

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

    def __init__(
        self,
        unit: Unit,
        resolve: Resolve,
        keys: StackKeys,
        failed: SparkColumn | None,
        gates: GateColumns,
        shut: SparkColumn | None = None,
    ) -> None:
        self._unit = unit
        self._shut = shut
        """Whether the input gate drops a tuple: nothing else is asked of it then."""
        self._gates = gates
        self._pass = PassBits(gates)
        """By family and offset of the window."""
        self._resolve = resolve
        self._failed = failed
        self.once = Once()
        self.rejecting: list[SparkColumn] = []
        """The ways to be rejected: whether a tuple is. Known when all entries are."""
        self._keys = keys
        self._conditions: dict[Condition, SparkColumn] = {}

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of the unit: families, then rejects, then the ledger."""
        if self._gates.built:
            self._pass_masks()
        shared = _used_often(self._unit.families)
        for condition in shared:
            name = f"_p{len(self._conditions)}"
            held = self.once.keep(name, self._if_seen(condition))
            self._conditions[condition] = held
        for family in self._unit.families:
            yield from self._family_entries(family)
        for family in self._unit.families:
            for member in family.members:
                yield from self._reject_entries(family, member)
        yield from self._ledger_entries()

    def _family_entries(self, family: Family) -> Iterator[Entry]:
        keyed = self._keys.is_keyed(family)
        keys = self._keys.indexes(family)
        if keyed:
            wanted = self._gated(family, 0, self._condition(family.conditions[0]))
            value = F.when(wanted, self._keys.carried(family))
        else:
            value = self._mask(family)
        if family.window.per_tuple > 1 and not self._unit.fine:
            value = self.once.keep(f"_f{family.number}", value)
        for offset, windows in self._offsets(family.window):
            yield Entry(
                family=family.number,
                value=self._of_window(family, offset, value),
                slide=family.window.slide_us,
                offset=offset,
                keys=keys,
                keyed=keyed,
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
            wanted = self._gated(family, 0, self._condition(family.conditions[0]))
            return F.when(wanted, F.lit(ALL_BITS).cast(LONG))
        bits = []
        for i, condition in enumerate(family.conditions):
            held = self._conditions.get(condition)
            if held is None:
                held = self._gated(family, i, self._holds(condition))
            bits.append(F.when(held, F.lit(1 << i).cast(LONG)).otherwise(F.lit(0).cast(LONG)))
        mask = reduce(lambda a, b: a.bitwiseOR(b), bits)
        if family.window.per_tuple == 1:
            passing = self._pass.mask(family, family.window.size_us - 1)
            mask = mask if passing is None else mask.bitwiseAND(passing)
        mask = self.once.keep(f"_m{family.number}", mask)
        return F.when(mask != 0, mask)

    def _reject_entries(self, family: Family, member: Member) -> Iterator[Entry]:
        error = self._fails(family.conditions[member.condition])
        if error is None:
            return
        if self._failed is not None:
            error = error & ~self._failed
        error = self._unless_shut(self._gated(family, member.condition, error))
        window = family.window
        value = self.once.keep(f"_e{member.number}", F.when(error, F.lit(ALL_BITS).cast(LONG)))
        self.rejecting.append(value.isNotNull())
        for offset, windows in self._offsets(window):
            own = self._of_window(family, offset, value, member.condition)
            special = self._special(REJECTED + member.number, own, window.slide_us, offset)
            yield replace(special, windows=windows)

    def gated_entries(self) -> Iterator[Entry]:
        """Yield the entries of what gates drop before conditions. Known when `entries` are.

        What the input gate drops is among it, for all conditions of all families.
        """
        for family in self._unit.families:
            for offset, windows in self._offsets(family.window):
                value = self._dropped(family, offset)
                if value is None:
                    continue
                if self._failed is not None:
                    value = F.when(~self._failed, value)
                slide = family.window.slide_us
                special = self._special(family.number, value, slide, offset)
                yield replace(special, of=family, windows=windows)

    def _dropped(self, family: Family, offset: int) -> SparkColumn | None:
        some = self._pass.dropped(family, offset)
        if self._shut is None:
            return some
        bits = len(family.conditions)
        every = F.when(self._shut, F.lit(ALL_BITS if bits == 1 else (1 << bits) - 1).cast(LONG))
        return every if some is None else every.otherwise(some)

    def _ledger_entries(self) -> Iterator[Entry]:
        one = F.lit(ALL_BITS).cast(LONG)
        era = self._unit.era
        if self._failed is not None:
            self.rejecting.append(self._failed)
        if self._unit.narrow:
            for family in (REST, PULSE, failed_ledger(era)):
                yield self._special(family, one, None, 0)
            return
        yield from self._ledgers(ledger, one)
        if len(self._unit.sources) > 1:
            yield self._special(NEWEST, one, _SECOND_US, _SECOND_US - 1)
        if self._failed is not None:
            yield from self._ledgers(failed_ledger, F.when(self._failed, one))

    def _ledgers(self, number: Callable[[int, int], int], value: SparkColumn) -> Iterator[Entry]:
        yield self._special(number(self._unit.era, 0), value, None, 0)
        for index, (size, slide) in enumerate(self._unit.irregular):
            oldest = size - 1 - (Window(size, slide).per_tuple - 1) * slide
            yield self._special(number(self._unit.era, 1 + index), value, slide, oldest)

    def nobody(self) -> Entry:
        """Return the entry of a position at which there are no rows."""
        return self._special(0, F.lit(None).cast(LONG), None, 0)

    def _special(self, family: int, value: SparkColumn, slide: int | None, offset: int) -> Entry:
        keys = (None,) * len(self._unit.key_slots)
        return Entry(family, value, slide, offset, keys, False, None)

    # Gates.

    def _pass_masks(self) -> None:
        """Have what gates let pass computed once per tuple, before everything else.

        Where windows are fine they are too many to be told apart before the rows.
        """
        for name, value in self._gates.once.items():
            self.once.keep(name, value)
        ends: dict[tuple[int, int], SparkColumn] = {}
        for family in self._unit.families:
            if self._unit.fine or not any(c.dear for c in family.conditions):
                continue
            slide = family.window.slide_us
            for offset, _ in self._offsets(family.window):
                if (slide, offset) not in ends:
                    end = window_end(slide, offset)
                    ends[slide, offset] = self.once.keep(f"_end{slide}_{offset}", end)
                hash_ = self._keys.window_hash(family, ends[slide, offset])
                if len(family.conditions) > 1:
                    hash_ = self._gates.hash_if_closed(family, hash_)
                    hash_ = self.once.keep(f"_h{family.number}_{offset}", hash_)
                self._pass.add(family, offset, hash_)
        for name, value in self._pass.columns().items():
            self.once.keep(name, value)

    def _gated(self, family: Family, condition: int, wanted: SparkColumn) -> SparkColumn:
        """Return what a condition says of tuples that it may see in some window."""
        passes = self._pass.passes(family, condition)
        return wanted if passes is None else passes & wanted

    def _of_window(
        self, family: Family, offset: int, value: SparkColumn, condition: int | None = None
    ) -> SparkColumn:
        """Return an entry's value, as far as gates let the tuple pass in that window."""
        mask = self._pass.mask(family, offset)
        if mask is None or family.window.per_tuple == 1:
            return value
        if condition is not None or len(family.conditions) == 1:
            passes = self._pass.passes(family, condition or 0, offset)
            return value if passes is None else F.when(passes, value)
        passed = value.bitwiseAND(mask)
        return F.when(passed != 0, passed)

    def _if_seen(self, condition: Condition) -> SparkColumn:
        """Return whether a condition holds, if some family's gate lets it see the tuple."""
        held = self._holds(condition)
        users = [
            (family, bit)
            for family in self._unit.families
            for bit, each in enumerate(family.conditions)
            if each == condition
        ]
        seen = self._pass.some_passes(users)
        return held if seen is None else F.when(seen, held)

    # Conditions.

    def _condition(self, condition: Condition) -> SparkColumn:
        known = self._conditions.get(condition)
        return self._holds(condition) if known is None else known

    def _holds(self, condition: Condition) -> SparkColumn:
        """Return whether a tuple counts; NULL is as good as FALSE."""
        compiled = compile_expression(condition.predicate, self._resolve)
        held = compiled.value
        errors = [compiled.error, self._failed]
        errors += [compile_expression(guard, self._resolve).error for guard in condition.guards]
        held = reduce(lambda a, b: a & ~b, (e for e in errors if e is not None), held)
        return self._unless_shut(held)

    def _unless_shut(self, asked: SparkColumn) -> SparkColumn:
        """Return what is asked of a tuple that the input gate lets pass."""
        return asked if self._shut is None else ~self._shut & asked

    def _fails(self, condition: Condition) -> SparkColumn | None:
        """Return whether a tuple is rejected, or None if it never is."""
        compiled = compile_expression(condition.predicate, self._resolve)
        errors = [] if compiled.error is None else [compiled.error]
        for guard in condition.guards:
            error = compile_expression(guard, self._resolve).error
            if error is not None:
                errors.append(F.coalesce(compiled.value, F.lit(False)) & error)
        return reduce(lambda a, b: a | b, errors) if errors else None


def reckoned(event_time: SparkColumn) -> SparkColumn:
    """Return the `US` of an event time."""
    us = F.unix_micros(event_time)
    return F.when(us.between(-_MOST_US, _MOST_US), us)


def window_end(slide: int, offset: int) -> SparkColumn:
    """Return the last microsecond of a window that a tuple is in."""
    us = F.col(US)
    return us - F.pmod(us, F.lit(slide)) + offset


def _used_often(families: Sequence[Family]) -> list[Condition]:
    """Return conditions that several families evaluate: worth computing once."""
    times: dict[Condition, int] = {}
    for family in families:
        for condition in family.conditions:
            times[condition] = times.get(condition, 0) + 1
    return [c for c, n in times.items() if n > 1 and c.predicate != TRUE]
