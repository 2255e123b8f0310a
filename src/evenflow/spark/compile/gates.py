"""Gates in a stack: which windows of which keys a batch drops before a query's conditions.

Theory of operation
===================
A gate keeps a window of a key if a hash of key and window is below its threshold: load falls evenly
in time, a lower fraction keeps a subset, and what is kept is kept whole. There is a gate for every
condition of a family; members that share a condition share its gate, and get the larger of their
fractions. The gate of a FILTER is at least as wide as those of the members that have it: an answer
has all its aggregates or is dropped. What a gate drops is decided before the condition is
evaluated, and counted as it is.

Open gates cost next to nothing: bits in a few words say which gates are closed, and only behind
such a bit are hashes made and thresholds looked up. `pass masks` say, per family and window of a
tuple, which conditions may see it: bit i for condition i. Those of many families and windows stand
in one column (`PassBits`), all bits set if all gates are open: a column for each, and Spark's
code no longer fits into methods that the JVM compiles well.

Where windows slide so finely that they are made only of rows (`Unit.fine`), rows are dropped that
all gates of their family drop, behind the conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.expand import look_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn

    from evenflow.model.unit import Family, Unit
    from evenflow.spark.gate.history import GateRow

_WORD = 62
"""Gates per word of closed bits. The gates of a family are in one word."""
ONE = 1 << 63
"""A hash is below this."""
OPEN_MASK = -1
VERSION_BITS = 32
"""Where the version of a gate's row stands in the family number of what it dropped."""


def threshold(fraction: float) -> int:
    """Return the number below which the hashes of a fraction of all windows are."""
    return max(0, min(ONE - 1, int(fraction * ONE)))


def positive_hash(columns: Sequence[SparkColumn]) -> SparkColumn:
    """Return a hash that is compared with thresholds."""
    return F.shiftrightunsigned(F.xxhash64(*columns), 1)


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

    That is a version, words of closed bits, thresholds of gates, and the largest of each family.
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
        self.gates = first

    def index(self, family: Family) -> int:
        """Return the place of a family among all."""
        return list(self._families).index(family.number)

    def of(self, family: Family) -> _FamilyGates:
        """Return the gates of a family."""
        return self._families[family.number]

    def told(self, row: GateRow) -> list[int]:
        """Return what a batch is told."""
        words = [0] * self.words
        thresholds: list[int] = []
        limits = []
        for gates in self._families.values():
            fractions = [max(map(row.fraction, parts), default=1.0) for parts in gates.parts]
            thresholds += map(threshold, fractions)
            limits.append(threshold(max(fractions)))
            for offset, fraction in enumerate(fractions):
                if fraction < 1.0:
                    words[gates.word] |= 1 << (gates.shift + offset)
        return [row.version, *words, *thresholds, *limits]


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
        self._closed: dict[int, SparkColumn] = {}
        """By family. Asking Spark for a column takes longer than remembering it."""

    @property
    def built(self) -> bool:
        """Whether there are gates."""
        return self._plan.built

    @property
    def once(self) -> dict[str, SparkColumn]:
        """What is needed once per tuple: all that is told, and the words."""
        told = F.col(_TOLD)
        words = {_word(i): F.get(told, F.lit(self._start + 1 + i)) for i in range(self._plan.words)}
        return {_TOLD: self._told, **words}

    @property
    def version_bits(self) -> SparkColumn:
        """The version, where it stands in the family number of what gates dropped."""
        return F.shiftleft(F.get(self._told, F.lit(self._start)), VERSION_BITS)

    @property
    def any_closed(self) -> SparkColumn:
        """Whether some gate is closed."""
        words = (F.col(_word(i)) for i in range(self._plan.words))
        return reduce(lambda a, b: a.bitwiseOR(b), words) != 0

    def closed(self, family: Family) -> SparkColumn:
        """Whether some gate of a family is closed."""
        if family.number not in self._closed:
            gates = self._plan.of(family)
            word = F.col(_word(gates.word))
            self._closed[family.number] = word.bitwiseAND(_long(gates.bits)) != 0
        return self._closed[family.number]

    def mask(self, family: Family, hash_: SparkColumn) -> SparkColumn:
        """Return the pass mask of a window of a tuple.

        Args:
            family: Whose window.
            hash_: Of key and window.
        """
        gates = self._plan.of(family)
        word = F.col(_word(gates.word))
        bits = []
        for offset in range(len(gates.parts)):
            is_open = word.bitwiseAND(_long(1 << (gates.shift + offset))) == 0
            passes = is_open | (hash_ < self._threshold(gates.first + offset))
            bits.append(F.when(passes, _long(1 << offset)).otherwise(_long(0)))
        some = reduce(lambda a, b: a.bitwiseOR(b), bits)
        return F.when(self.closed(family), some).otherwise(_long((1 << len(gates.parts)) - 1))

    def dropped(self, family: Family, mask: SparkColumn) -> SparkColumn:
        """Return the conditions that a pass mask keeps from seeing a tuple; NULL if none."""
        every = _long((1 << len(self._plan.of(family).parts)) - 1)
        some = F.bitwise_not(mask).bitwiseAND(every)
        return F.when(some != 0, some)

    def drops_row(
        self, families: Sequence[Family | None], at: SparkColumn, hash_: SparkColumn
    ) -> SparkColumn:
        """Return whether all gates of a row's family drop its window.

        Args:
            families: By position of a row.
            at: The position.
            hash_: Of key and window.
        """
        first = self._start + 1 + self._plan.words + self._plan.gates
        places = [None if f is None else first + self._plan.index(f) for f in families]
        words = (F.get(self._told, F.lit(self._start + 1 + i)) for i in range(self._plan.words))
        closed = reduce(lambda a, b: a.bitwiseOR(b), words) != 0
        return closed & F.coalesce(hash_ >= F.get(self._told, look_up(places, at)), F.lit(False))

    def _threshold(self, gate: int) -> SparkColumn:
        return F.get(F.col(_TOLD), F.lit(self._start + 1 + self._plan.words + gate))


class PassBits:
    """Pass masks of many windows of families, side by side in a few columns."""

    def __init__(self) -> None:
        self._masks: list[SparkColumn] = []
        """By column."""
        self._used = _WORD
        self._places: dict[tuple[int, int], tuple[int, int, int]] = {}
        """By family and window: the column, the first bit, and how many."""

    def add(self, family: int, window: int, bits: int, mask: SparkColumn) -> None:
        """Take the mask of a family's window.

        Args:
            family: Its number.
            window: Which of its windows.
            bits: How many conditions there are.
            mask: The lowest bits, and no others.
        """
        if self._used + bits > _WORD:
            self._masks.append(_long(0))
            self._used = 0
        made = F.shiftleft(mask, self._used) if self._used else mask
        self._masks[-1] = self._masks[-1].bitwiseOR(made) if self._used else made
        self._places[family, window] = len(self._masks) - 1, self._used, bits
        self._used += bits

    def columns(self, any_closed: SparkColumn) -> dict[str, SparkColumn]:
        """Return the columns by name, to be computed once per tuple."""
        return {
            _pass(number): F.when(any_closed, mask).otherwise(_long(OPEN_MASK))
            for number, mask in enumerate(self._masks)
        }

    def mask(self, family: int, window: int) -> SparkColumn | None:
        """Return the mask of a family's window; None if it has no gates."""
        place = self._places.get((family, window))
        if place is None:
            return None
        column, shift, bits = place
        mask = F.shiftrightunsigned(F.col(_pass(column)), shift) if shift else F.col(_pass(column))
        return mask.bitwiseAND(_long((1 << bits) - 1))

    def passes(self, family: int, condition: int, window: int | None = None) -> SparkColumn | None:
        """Return whether a condition may see a tuple in a window, or in some; None if none."""
        wanted: dict[int, int] = {}
        for (number, each), (column, shift, _) in self._places.items():
            if number == family and window in (None, each):
                wanted[column] = wanted.get(column, 0) | 1 << (shift + condition)
        tests = [
            F.col(_pass(column)).bitwiseAND(_long(bits)) != 0 for column, bits in wanted.items()
        ]
        return reduce(lambda a, b: a | b, tests) if tests else None


_TOLD = "_told"


def _pass(number: int) -> str:
    return f"_pass{number}"


def _word(number: int) -> str:
    return f"_closed{number}"


def _long(number: int) -> SparkColumn:
    return F.lit(number).cast(LONG)
