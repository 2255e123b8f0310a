"""The stack: all windowed aggregates of a unit in one stateful operator.

Theory of operation
===================
A tuple is expanded into one row per family and window that wants it, and the rows are grouped by
(family, window end, keys). The expansion (`expand`) is one loop over *entries*, one per family and
window of a tuple; an entry's value is NULL where the family does not want the tuple. What a row
needs to know about its family is looked up by the entry's position in constant arrays, so that
the cost of a row does not grow with the number of families. An entry's value is

* the mask of the family's conditions that hold, bit i for condition i; or
* the key itself, where every family has but one condition (see `keys`).

A unit with a single family of tumbling windows and one condition that cannot fail is *narrow*: a
tuple becomes one row and is not expanded. It is the family's, or one of the rest (`REST`) if the
family does not want it; both together are the ledger. There are no filters at all, so the rows of
the pulse are a family of their own (`PULSE`).

Where windows slide so finely that a tuple is in very many of them (`Unit.fine`), an entry stands
for all windows of a family, and its rows are expanded a second time, by window.

The window's end minus one microsecond, as a plain timestamp with the watermark's metadata, is the
event-time key: windows of all sizes live in one state, close and turn late exactly as in Spark.

Five kinds of rows besides answers share the state, so that counts commit with the batch: late rows
(`LATE` + family; their window is closed, their counts say so per condition), cut rows (`CUT` +
family; their window began before the family did), rejected rows (`REJECTED` + member number), rows
of what gates dropped, the input gate too (`GATED` + family, with the version of the gates; they
leave with the answers of their window, and tell which of those are not whole) and the ledgers
(`LEDGER`, one row per tuple, by era; `FAILED`, of those on which the trunk failed and which all
reject). All but those of gates carry the smallest event time that is not late, `late bound`, and so
come out with the next window. Samples of rejected tuples are observed on the way (`sample`).

The watermark tells how far a unit has read, but of several sources it is that of the slowest.
There a row per second of event time (`NEWEST`) stays in the state until the watermark has passed
it: the last one tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.model.expression import Column, walk
from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.entries import (
    CUT,
    GATED,
    LATE,
    NEWEST,
    US,
    EntryBuilder,
    failed_ledger,
    ledger,
    reckoned,
    window_end,
)
from evenflow.spark.compile.expand import (
    AT,
    VALUE,
    choose,
    expand,
    guarded_from,
    look_up,
    one_or_array,
    pick,
)
from evenflow.spark.compile.gates import ANY_CLOSED
from evenflow.spark.compile.keys import FAMILY, HASH, StackKeys, never_null, with_nulls
from evenflow.spark.compile.sample import observe_rejects, sample_text
from evenflow.spark.compile.slots import SlotInputs
from evenflow.spark.compile.trunk import SHUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model.unit import Unit
    from evenflow.spark.compile.columns import Resolve
    from evenflow.spark.compile.entries import Entry
    from evenflow.spark.compile.gates import GateColumns

END = "_end"
"""The last microsecond of a group's window."""
BACK = "_back"
"""In a unit of fine windows: how many slides before the newest one a row's window is."""


_DROPPED = "_dropped"
"""Of a row: gates dropped it."""

START, LAST, TOO_EARLY = "_start", "_last", "_too_early"
"""Of a tuple: where its newest windows start, in a unit of fine windows; the last microseconds of
its windows; the last microseconds of windows that begin too early for families that begin now."""

NOT_YET = -(1 << 62)
"""The `since_us` of families that begin when the unit is started: it is known only then."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What each batch is told: event times in microseconds, and what gates keep."""

    late: SparkColumn
    """The smallest that is not late."""
    gates: GateColumns
    since: SparkColumn | None = None
    """The newest that was read before the families began whose `since_us` is `NOT_YET`."""


@dataclass(frozen=True, slots=True)
class _Gated:
    """Which positions are those of rows that gates drop."""

    twins: int
    """From here on: rows of families a second time, for the conditions that drop them."""
    before: int
    """From here on: what was dropped before conditions."""


class StackBuilder:
    """Builds the streaming DataFrame of one unit's stack."""

    def __init__(
        self,
        unit: Unit,
        frame: DataFrame,
        resolve: Resolve,
        *,
        event_time: SparkColumn,
        bounds: Bounds,
        delay_ms: int,
        pulse: SparkColumn | None,
        why: SparkColumn | None = None,
    ) -> None:
        """Prepare.

        Args:
            unit: What to build.
            frame: The trunk's tuples, watermark set; it may say which the input gate drops.
            resolve: Finds the trunk's columns in `frame`.
            event_time: The trunk's event time.
            bounds: What is late, what is cut, and what gates drop.
            delay_ms: The watermark's delay, for the metadata of the event-time key.
            pulse: Not NULL on rows that only move the watermark, if there are such rows.
            why: Not NULL on tuples that all queries reject, if there are such tuples.
        """
        self._unit = unit
        self._frame = frame
        self._resolve = resolve
        self._event_time = event_time
        self._bounds = bounds
        self._gates = bounds.gates
        self._delay_ms = delay_ms
        self._pulse = pulse
        self._narrow = unit.narrow
        self._keys = StackKeys(unit, resolve)
        self._why = why
        self._failed = None if why is None else why.isNotNull()
        shut = F.col(SHUT) if SHUT in frame.columns else None
        self._builder = EntryBuilder(unit, resolve, self._keys, self._failed, bounds.gates, shut)

    def build(self) -> DataFrame:
        """Return the grouped and aggregated stream: family, end, key slots, slots, hash, bits."""
        self._builder.once.keep("_bound", self._bounds.late)
        entries = list(self._builder.entries())
        twins = [e for e in entries if e.of is not None] if self._has_twins else []
        before = list(self._builder.gated_entries())
        guarded = twins + before
        start = len(entries)
        if guarded and not self._narrow:
            start = guarded_from(len(entries), len(guarded))
        # Between the two there are positions of no entry.
        between = [self._builder.nobody()] * (start - len(entries))
        rows = self._expand(entries, guarded)
        entries += between + guarded
        rows = self._rows(rows, entries, _Gated(start, start + len(twins)))
        inputs = SlotInputs(self._unit, self._resolve, entries)
        keys = [FAMILY, END, *(k.name for k in self._unit.key_slots)]
        groups = rows.groupBy(*keys).agg(*(inputs.aggregate(slot) for slot in self._unit.slots))
        return with_nulls(groups, self._unit, END)

    @property
    def _has_twins(self) -> bool:
        """Whether gates may drop a row for some of its conditions only."""
        return self._gates.built and any(len(f.conditions) > 1 for f in self._unit.families)

    def _expand(self, entries: Sequence[Entry], guarded: Sequence[Entry]) -> DataFrame:
        once = self._builder.once
        us = F.col(US)
        kept = self._times(entries) | self._keys.once()
        if self._pulse is not None:
            kept["_pulse"] = self._pulse
        if self._narrow:
            once.keep("_wanted", entries[0].value)
        first = {US: reckoned(self._event_time)}
        if self._bounds.since is not None:
            first["_since"] = self._bounds.since
        frame = self._frame.select("*", *(value.alias(name) for name, value in first.items()))
        made = once.columns | kept
        frame = frame.select("*", *(value.alias(name) for name, value in made.items()))
        if self._builder.rejecting:
            sample = sample_text(self._unit.trunk, self._why)
            frame = observe_rejects(frame, self._builder.rejecting, sample)
        closed = [ANY_CLOSED] if self._gates.built else []
        names = [US, "_bound", *closed, *self._arguments(), *kept]
        if not self._narrow:
            more = (F.col(ANY_CLOSED), [e.value for e in guarded]) if guarded else None
            return expand(frame, names, [e.value for e in entries], more)
        family, rest, pulse, failed, dropped = range(5)
        drops = us.isNotNull() & guarded[0].value.isNotNull() if guarded else F.lit(False)
        wanted = us.isNotNull() & F.col("_wanted").isNotNull()
        which = F.when(drops, F.lit(dropped)).when(wanted, F.lit(family)).otherwise(F.lit(rest))
        if self._failed is not None:
            which = F.when(self._failed, F.lit(failed)).otherwise(which)
        if self._pulse is not None:
            which = F.when(F.col("_pulse").isNotNull(), F.lit(pulse)).otherwise(which)
        return choose(frame, names, which, F.col("_wanted"))

    def _arguments(self) -> list[str]:
        """Return the trunk's columns that slots need after the expansion."""
        columns: dict[str, None] = {}
        for family in self._unit.families:
            for use in family.uses:
                if use.argument is not None:
                    for each in walk(use.argument):
                        if isinstance(each, Column):
                            columns[each.path[0]] = None
        names = []
        for name in columns:
            at = [f.name for f in self._unit.trunk.schema].index(name)
            names.append(f"c{at}")
        return names

    def _rows(self, expanded: DataFrame, entries: Sequence[Entry], gated: _Gated) -> DataFrame:
        """Return what is grouped."""
        at, bound, us = F.col(AT), F.col("_bound"), F.col(US)
        rows = expanded if self._narrow else self._wanted(expanded, entries)
        if self._unit.fine:
            last = look_up([e.windows - 1 for e in entries], at)
            rows = rows.select("*", F.explode(F.sequence(F.lit(0), last)).alias(BACK))
        end = self._end(entries)
        if self._unit.irregular:
            rows = rows.filter(end.isNull() | (end >= us))
        if self._gates.built:
            rows = self._gate(rows, entries, gated, end)
        late = F.coalesce(end < bound, F.lit(False))
        own = F.greatest(end, bound)
        if any(e.slide is not None and e.of is None for e in entries):
            special = look_up([e.of is None for e in entries], at)
            at_bound = look_up([e.of is None and e.family != NEWEST for e in entries], at)
            own = F.when(at_bound, bound).otherwise(own)
            late = late & ~special
        number = look_up([e.family for e in entries], at).cast(LONG)
        family, aside = F.when(late, number + F.lit(LATE).cast(LONG)), late
        cut = self._cut(entries, end)
        if cut is not None:
            own = F.when(cut, bound).otherwise(own)
            family = family.when(cut, number + F.lit(CUT).cast(LONG))
            aside = aside | cut
        if self._gates.built:
            # The last: what is late or cut would tell of a window that nobody will answer.
            as_dropped = (number + F.lit(GATED).cast(LONG)).bitwiseOR(self._gates.version_bits)
            family = family.when(F.col(_DROPPED), as_dropped)
            aside = aside | F.col(_DROPPED)
        nulls = self._keys.null_bits(entries)
        family = family.otherwise(number if nulls is None else number.bitwiseOR(nulls))
        metadata = {"spark.watermarkDelayMs": self._delay_ms}
        ended = F.timestamp_micros(never_null(own, "long"))
        columns = [never_null(family, "long").alias(FAMILY), ended.alias(END, metadata=metadata)]
        columns += self._keys.columns(entries, aside)
        kept = [AT, VALUE, *self._arguments()]
        return rows.select(*kept, *columns)

    def _gate(
        self, rows: DataFrame, entries: Sequence[Entry], gated: _Gated, end: SparkColumn
    ) -> DataFrame:
        """Return rows of what passes gates, and of what they drop, and which is which."""
        at, value, closed = F.col(AT), F.col(VALUE), F.col(ANY_CLOSED)
        hash_ = F.when(closed, self._keys.row_hash(entries, end)).otherwise(F.lit(0).cast(LONG))
        rows = rows.select("*", hash_.alias(HASH))
        families = [e.of if i < gated.before else None for i, e in enumerate(entries)]
        lost = self._gates.lost(families, at, F.col(HASH))
        if not self._has_twins:
            return rows.select("*", ((lost != 0) | (at >= gated.twins)).alias(_DROPPED))
        # `_kept` is for Spark alone: what it finds twice it puts into a method of its own, and the
        # method that all rows run through stays small.
        names = {"_lost": lost, "_kept": F.bitwise_not(lost)}
        # Spark would push the filter down, below the watermark even, and the whole computation
        # with it, and do it twice. It does not push through what differs by partition.
        names["_partition"] = F.spark_partition_id()
        rows = rows.select("*", *(each.alias(name) for name, each in names.items()))
        passed = F.when(at < gated.twins, value.bitwiseAND(F.col("_kept")))
        passed = passed.when(at < gated.before, value.bitwiseAND(F.col("_lost"))).otherwise(value)
        rows = rows.filter((F.col("_partition") >= 0) & (~closed | (passed != 0)))
        others = [name for name in rows.columns if name != VALUE]
        passed = F.when(closed, passed).otherwise(value)
        return rows.select(*others, passed.alias(VALUE), (at >= gated.twins).alias(_DROPPED))

    def _times(self, entries: Sequence[Entry]) -> dict[str, SparkColumn]:
        """Return what is reckoned once per tuple of the windows that its rows are for.

        Sums are slow (see `expand`), so that rows only pick theirs.
        """
        us = F.col(US)
        times = {}
        if self._unit.fine:
            slides = self._slides(entries)
            times[START] = one_or_array([us - F.pmod(us, F.lit(slide)) for slide in slides])
        elif self._ends(entries):
            times[LAST] = one_or_array([window_end(*each) for each in self._ends(entries)])
        if self._bounds.since is not None:
            sizes = self._sizes_to_come(entries)
            times[TOO_EARLY] = one_or_array([F.col("_since") + size for size in sizes])
        return times

    def _slides(self, entries: Sequence[Entry]) -> list[int]:
        return sorted({e.slide for e in entries if e.slide is not None})

    def _ends(self, entries: Sequence[Entry]) -> list[tuple[int, int]]:
        return sorted({(e.slide, e.offset) for e in entries if e.slide is not None})

    def _sizes_to_come(self, entries: Sequence[Entry]) -> list[int]:
        return sorted({size for e in entries if (size := _size_to_come(e)) is not None})

    def _cut(self, entries: Sequence[Entry], end: SparkColumn) -> SparkColumn | None:
        """Return whether a row's window began before its family; None if none can have."""
        at = F.col(AT)
        begun = [_last_before(entry) for entry in entries]
        limit = look_up(begun, at, LONG) if any(x is not None for x in begun) else None
        if self._bounds.since is not None:
            coming = pick(TOO_EARLY, self._sizes_to_come(entries), map(_size_to_come, entries), at)
            limit = coming if limit is None else F.coalesce(coming, limit)
        return None if limit is None else F.coalesce(end <= limit, F.lit(False))

    def _wanted(self, expanded: DataFrame, entries: Sequence[Entry]) -> DataFrame:
        """Return the rows of tuples with an event time, and of all others the ledger's.

        Conditions on the tuple alone are mixed with the entry's position, so that Spark cannot
        push them below the watermark and remove what has yet to move it.
        """
        at = F.col(AT)
        ledgers = (ledger(self._unit.era), failed_ledger(self._unit.era))
        every = [i for i, e in enumerate(entries) if e.family in ledgers]
        wanted = F.col(US).isNotNull() | at.isin(*every)
        if self._pulse is not None:
            wanted = wanted & (F.col("_pulse").isNull() | (at < 0))
        return expanded.filter(wanted)

    def _end(self, entries: Sequence[Entry]) -> SparkColumn:
        """Return the last microsecond of a row's window, NULL where it has none."""
        at = F.col(AT)
        if not self._slides(entries):
            return F.lit(None).cast(LONG)
        if not self._unit.fine:
            own = ((e.slide, e.offset) if e.slide is not None else None for e in entries)
            return pick(LAST, self._ends(entries), own, at)
        start = pick(START, self._slides(entries), (e.slide for e in entries), at)
        offset = look_up([None if e.slide is None else e.offset for e in entries], at, LONG)
        slide = look_up([e.slide or 0 for e in entries], at, LONG)
        return start + offset - F.col(BACK) * slide


def _last_before(entry: Entry) -> int | None:
    """Return the last microsecond of the last window that began before the entry's family did."""
    if entry.of is None or entry.of.since_us in (None, NOT_YET):
        return None
    return entry.of.since_us + entry.of.window.size_us - 1


def _size_to_come(entry: Entry) -> int | None:
    """Return the size, less a microsecond, of the windows of a family that begins now."""
    if entry.of is None or entry.of.since_us != NOT_YET:
        return None
    return entry.of.window.size_us - 1
