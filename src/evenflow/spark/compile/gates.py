"""Gates in a stack: which windows of which keys a batch drops before they are aggregated.

Theory of operation
===================
A gate keeps a window of a key if a hash of key and window is within its threshold: load falls
evenly in time, a lower fraction keeps a subset, and what is kept is kept whole. There is a gate for
every condition of a family; members that share a condition share its gate, and get the larger of
their fractions. The gate of a FILTER is at least as wide as those of the members that have it: an
answer has all its aggregates or is dropped.

Gates work on rows, behind the conditions (`GateColumns.lost`): thresholds are looked up by the
row's position, so that the code does not grow with the number of families. Spark writes the code of
every batch anew, and code that is not run costs, too. Open gates are one test per row.

A condition that is dear (`Condition.dear`) has to be spared, not only the row. Unless windows are
fine, too many to be told apart before the rows, gates also work before it: `pass masks` say, per
family and window of a tuple, which conditions may see it, bit i for condition i. Those of several
families and windows stand in one column (`PassBits`), all bits set if their gates are open. What a
gate drops before a condition is counted as it is; behind it, what the condition wanted.

Before a dear trunk stands the input gate (`input_gate`, `shut`): it drops what all of these would.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.schedule.input_gate import input_gate
from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.expand import ALL_BITS, look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn

    from evenflow.model.unit import Family, Unit
    from evenflow.schedule.input_gate import Draw
    from evenflow.spark.gate.history import GateRow

_WORD = 62
"""Gates per word of closed bits. The gates of a family are in one word."""
ONE = 1 << 63
"""Hashes are below this."""
_SEED = 42
"""Of Spark's xxhash64, as its documentation says."""
_COLUMN = 16
"""Bits of a column of pass masks, as long as a family does not need more."""
ANY_CLOSED = "_any_closed"
"""Of a tuple: whether some gate is closed in its batch."""
VERSION_BITS = 32
"""Where the version of a gate's row stands in the family number of what it dropped."""


def threshold(fraction: float) -> int:
    """Return the largest hash that a fraction of all windows keeps; -1 if none."""
    return min(ONE, max(0, int(fraction * ONE))) - 1


def positive_hash(columns: Sequence[SparkColumn]) -> SparkColumn:
    """Return a hash that is compared with thresholds."""
    return F.shiftrightunsigned(F.xxhash64(*columns), 1)


def identity_hash(
    identity: Sequence[SparkColumn] | None, columns: Sequence[SparkColumn]
) -> SparkColumn:
    """Return the hash of a tuple's identity; of all its columns where that is NULL, or none.

    Spark's hash passes over NULLs. Without this all tuples that have no identity would have the
    hash of nothing, which is its seed and is within every threshold. Those in which all is NULL are
    the first to be dropped.

    Args:
        identity: What tells tuples apart, or which are kept together, if that is known.
        columns: All there is of a tuple.
    """
    hash_ = F.lit(ONE - 1).cast(LONG)
    for known in (columns, identity):
        if known is not None:
            own = positive_hash(known)
            hash_ = F.when(own == F.lit(_SEED >> 1).cast(LONG), hash_).otherwise(own)
    return hash_


@dataclass(frozen=True, slots=True)
class _FamilyGates:
    """Where the gates of a family stand."""

    word: int
    shift: int
    """Of the first one's bit in the word."""
    first: int
    """Of all gates of the unit."""
    parts: tuple[tuple[int, ...], ...]
    """By condition, the parts that use it."""

    @property
    def bits(self) -> int:
        """Of all its gates, in its word."""
        return ((1 << len(self.parts)) - 1) << self.shift


class GatePlan:
    """The gates of a unit, and how batches are told of them.

    That is a version, words of closed bits, thresholds, and behind these what the input gate is
    told: whether it may drop something, and a threshold for each draw.
    """

    built = True
    """Whether the stack has gates."""

    def __init__(self, unit: Unit) -> None:
        self._families: dict[int, _FamilyGates] = {}
        word = used = first = 0
        for family in unit.families:
            parts = family.gate_users
            if used + len(parts) > _WORD:
                word, used = word + 1, 0
            self._families[family.number] = _FamilyGates(word, used, first, parts)
            used += len(parts)
            first += len(parts)
        self.words = word + 1
        self.count = first
        """Of all gates."""
        found = input_gate(unit) if self.built else None
        self.draws = () if found is None else found.draws
        """Of the input gate; none if there is no such gate."""

    def of(self, family: Family) -> _FamilyGates:
        """Return the gates of a family."""
        return self._families[family.number]

    def told(self, row: GateRow) -> list[int]:
        """Return what a batch is told."""
        words = [0] * self.words
        thresholds: list[int] = []
        for gates in self._families.values():
            fractions = [max(map(row.fraction, parts), default=1.0) for parts in gates.parts]
            thresholds += map(threshold, fractions)
            for offset, fraction in enumerate(fractions):
                if fraction < 1.0:
                    words[gates.word] |= 1 << (gates.shift + offset)
        return [row.version, *words, *thresholds, *self._told_input(row)]

    def _told_input(self, row: GateRow) -> list[int]:
        if not self.draws:
            return []
        widest = [max(map(row.fraction, draw.parts)) for draw in self.draws]
        # Where one keeps everything there is nothing to look for.
        return [int(max(widest) < 1.0), *map(threshold, widest)]


class NoGates(GatePlan):
    """Leaves the gates out. Only benchmarks do, which tell what gates cost."""

    built = False


class GateColumns:
    """What the gates of a unit keep in the batch that evaluates it."""

    def __init__(self, plan: GatePlan, told: SparkColumn, start: int) -> None:
        """Prepare.

        Args:
            plan: The gates.
            told: An array of numbers.
            start: Where in it those of the gates begin.
        """
        self._plan = plan
        self._told = told
        self._start = start

    @property
    def built(self) -> bool:
        """Whether there are gates."""
        return self._plan.built

    @property
    def once(self) -> dict[str, SparkColumn]:
        """What is needed once per tuple: the words, and whether some gate is closed."""
        words = {
            _word(i): F.coalesce(F.get(self._told, F.lit(self._start + 1 + i)), _long(0))
            for i in range(self._plan.words)
        }
        return {**words, ANY_CLOSED: _either([F.col(name) for name in words]) != 0}

    @property
    def version_bits(self) -> SparkColumn:
        """The version, where it stands in the family number of what gates dropped."""
        return F.shiftleft(F.get(self._told, F.lit(self._start)), VERSION_BITS)

    def bits(self, family: Family) -> tuple[int, int]:
        """Return the word that says which gates of a family are closed, and their bits in it."""
        gates = self._plan.of(family)
        return gates.word, gates.bits

    def hash_if_closed(self, family: Family, hash_: SparkColumn) -> SparkColumn:
        """Return a hash, not to be made while all gates of a family are open."""
        word, bits = self.bits(family)
        return F.when(_some_bit(_word, {word: bits}), hash_).otherwise(_long(0))

    def passing(self, family: Family, hash_: SparkColumn, shift: int) -> list[SparkColumn]:
        """Return the bits of a pass mask: each as a number, or 0. Cheap conditions see all tuples.

        Args:
            family: Whose window.
            hash_: Of key and window.
            shift: Where the first bit is to be.
        """
        gates = self._gates(family)
        bits = [_long(1 << (shift + i)) for i in range(len(family.conditions))]
        return [
            F.when(hash_ <= F.get(self._told, F.lit(gates[i])), bits[i]).otherwise(_long(0))
            if condition.dear
            else bits[i]
            for i, condition in enumerate(family.conditions)
        ]

    def lost(
        self, families: Sequence[Family | None], at: SparkColumn, hash_: SparkColumn
    ) -> SparkColumn:
        """Return the conditions whose gates drop the window of a row; all bits if it has but one.

        Args:
            families: By position of a row; None where nothing is dropped.
            at: The position.
            hash_: Of key and window.
        """
        most = max((len(f.conditions) for f in families if f is not None), default=0)
        bits = []
        for i in range(most):
            gates = [
                self._gates(f)[i] if f is not None and i < len(f.conditions) else None
                for f in families
            ]
            drops = hash_ > F.get(self._told, look_up(gates, at))
            lost = [_lost_bits(f, i) for f in families]
            bits.append(F.when(drops, look_up(lost, at, LONG)).otherwise(_long(0)))
        return F.when(F.col(ANY_CLOSED), _either(bits)).otherwise(_long(0)) if bits else _long(0)

    # The input gate.

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Of the input gate; none if there is no such gate."""
        return self._plan.draws

    @property
    def may_shut(self) -> SparkColumn:
        """Whether the input gate may drop something in the batch."""
        return F.coalesce(F.get(self._told, F.lit(self._input)) != 0, F.lit(False))

    def outside(self, draw: int, hash_: SparkColumn) -> SparkColumn:
        """Return whether none of a draw's gates keeps a window, by the hash of key and window."""
        return hash_ > F.get(self._told, F.lit(self._input + 1 + draw))

    @property
    def _input(self) -> int:
        """Where it begins that the input gate is told."""
        return self._start + 1 + self._plan.words + self._plan.count

    def _gates(self, family: Family) -> range:
        """Return where the thresholds of a family are told."""
        first = self._start + 1 + self._plan.words + self._plan.of(family).first
        return range(first, first + len(family.conditions))


class PassBits:
    """Pass masks of many windows of families, side by side in a few columns."""

    def __init__(self, gates: GateColumns) -> None:
        self._gates = gates
        self._bits: list[list[SparkColumn]] = []
        """By column."""
        self._closable: list[dict[int, int]] = []
        """By column, the bits of its gates by word."""
        self._places: dict[tuple[int, int], tuple[int, int, int]] = {}
        """By family and window: the column, the first bit, and how many."""

    def add(self, family: Family, window: int, hash_: SparkColumn) -> None:
        """Take a window of a family.

        Args:
            family: Whose.
            window: Which of its windows.
            hash_: Of key and window.
        """
        count = len(family.conditions)
        if not self._bits or len(self._bits[-1]) + count > _COLUMN:
            self._bits.append([])
            self._closable.append({})
        column, shift = len(self._bits) - 1, len(self._bits[-1])
        self._bits[-1] += self._gates.passing(family, hash_, shift)
        word, bits = self._gates.bits(family)
        self._closable[-1][word] = self._closable[-1].get(word, 0) | bits
        self._places[family.number, window] = column, shift, count

    def columns(self) -> dict[str, SparkColumn]:
        """Return the columns by name, to be computed once per tuple."""
        made = {}
        for number, (bits, closable) in enumerate(zip(self._bits, self._closable, strict=True)):
            some_closed = _some_bit(_word, closable)
            made[_pass(number)] = F.when(some_closed, _either(bits)).otherwise(_long(ALL_BITS))
        return made

    def mask(self, family: Family, window: int) -> SparkColumn | None:
        """Return the mask of a family's window; None if all its conditions see all tuples."""
        place = self._places.get((family.number, window))
        if place is None:
            return None
        column, shift, bits = place
        mask = F.shiftrightunsigned(F.col(_pass(column)), shift) if shift else F.col(_pass(column))
        return mask.bitwiseAND(_long((1 << bits) - 1))

    def passes(
        self, family: Family, condition: int, window: int | None = None
    ) -> SparkColumn | None:
        """Return whether a condition may see a tuple in a window, or in some; None if it may."""
        return self.some_passes([(family, condition)], window)

    def some_passes(
        self, conditions: Sequence[tuple[Family, int]], window: int | None = None
    ) -> SparkColumn | None:
        """Return whether one of some families' conditions may see a tuple; None if all may."""
        wanted: dict[int, int] = {}
        for family, condition in conditions:
            if not family.conditions[condition].dear:
                continue
            for (number, each), (column, shift, _) in self._places.items():
                if number == family.number and window in (None, each):
                    wanted[column] = wanted.get(column, 0) | 1 << (shift + condition)
        return _some_bit(_pass, wanted) if wanted else None

    def dropped(self, family: Family, window: int) -> SparkColumn | None:
        """Return the conditions that may not see a tuple in a window; NULL if all may.

        All bits if the family has but one: its rows have no masks.
        """
        place = self._places.get((family.number, window))
        if place is None:
            return None
        column, shift, bits = place
        if bits == 1:
            misses = F.col(_pass(column)).bitwiseAND(_long(1 << shift)) == 0
            return F.when(misses, _long(ALL_BITS))
        some = F.shiftrightunsigned(F.bitwise_not(F.col(_pass(column))), shift)
        some = some.bitwiseAND(_long((1 << bits) - 1))
        return F.when(some != 0, some)


def _lost_bits(family: Family | None, condition: int) -> int:
    return ALL_BITS if family is not None and len(family.conditions) == 1 else 1 << condition


def _some_bit(name: Callable[[int], str], wanted: Mapping[int, int]) -> SparkColumn:
    """Return whether one of some bits is set, by number of the column that they are in."""
    tests = [F.col(name(i)).bitwiseAND(_long(bits)) != 0 for i, bits in wanted.items()]
    return reduce(lambda a, b: a | b, tests)


def _either(numbers: Sequence[SparkColumn]) -> SparkColumn:
    """Return the bits of all numbers. A chain of them would be nested as deeply as it is long."""
    if len(numbers) == 1:
        return numbers[0]
    half = len(numbers) // 2
    return _either(numbers[:half]).bitwiseOR(_either(numbers[half:]))


def _pass(number: int) -> str:
    return f"_pass{number}"


def _word(number: int) -> str:
    return f"_closed{number}"


def _long(number: int) -> SparkColumn:
    return F.lit(number).cast(LONG)
