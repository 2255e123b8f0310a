"""The stack: all windowed aggregates of a unit in one stateful operator.

Theory of operation
===================
A tuple is expanded into one row per family and window that wants it, and the rows are grouped by
(family, window end, keys). The expansion is one `posexplode` over an array of 64-bit integers, an
*entry* per family and window of a tuple; an entry is NULL where the family does not want the
tuple. What a row needs to know about its family is looked up by the entry's position in constant
arrays, so that the cost of a row does not grow with the number of families. An entry's value is

* the mask of the family's conditions that hold, bit i for condition i; or
* in a family with one condition and one whole-number key, the key itself (`keyed`): no second
  look-up, and no expression is evaluated for families that do not want the tuple. A NULL key
  cannot be told from "not wanted" there, so such families have a second entry, in a part of the
  array that is only built for tuples in which a column of such a key is NULL.

Where windows slide so finely that a tuple is in very many of them (`Unit.fine`), an entry stands
for all windows of a family, and its rows are expanded a second time, by window.

The array is built in chunks joined by `concat`: Spark compiles each chunk to a method of its own,
small enough for the JVM to optimise. One long array would pass the JVM's limit of 8,000 bytecodes
and be interpreted, six times slower, in any session that was not started with a flag of ours.

The window's end minus one microsecond, as a plain timestamp with the watermark's metadata, is the
event-time key: windows of all sizes live in one state, close and turn late exactly as in Spark.

Three kinds of rows besides answers share the state, so that counts commit with the batch:
late rows (`LATE` + family; their window is closed, their counts say so per condition), rejected
rows (`REJECTED` + member number) and the ledger (`LEDGER`, one row per tuple). They carry the
smallest event time that is not late, `late bound`, and so come out with the next window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as st

from evenflow.model.expression import Column, walk
from evenflow.spark.compile.carriers import LONG
from evenflow.spark.compile.entries import CHUNK, LATE, LEDGER, EntryBuilder, irregular_windows
from evenflow.spark.compile.slots import AT, VALUE, SlotInputs, look_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model.unit import Unit
    from evenflow.spark.compile.columns import Resolve
    from evenflow.spark.compile.entries import Entry

FAMILY, END = "_family", "_end"
"""Columns of the stack's output: what the row is, and its window's last microsecond."""
BACK = "_back"
"""In a unit of fine windows: how many slides before the newest one a row's window is."""


class StackBuilder:
    """Builds the streaming DataFrame of one unit's stack."""

    def __init__(
        self,
        unit: Unit,
        frame: DataFrame,
        resolve: Resolve,
        *,
        event_time: SparkColumn,
        late_bound: SparkColumn,
        delay_ms: int,
        pulse: SparkColumn | None,
    ) -> None:
        """Prepare.

        Args:
            unit: What to build.
            frame: The trunk's tuples, watermark set.
            resolve: Finds the trunk's columns in `frame`.
            event_time: The trunk's event time.
            late_bound: The smallest event time in microseconds that is not late in this batch.
            delay_ms: The watermark's delay, for the metadata of the event-time key.
            pulse: Not NULL on rows that only move the watermark, if there are such rows.
        """
        self._unit = unit
        self._frame = frame
        self._resolve = resolve
        self._event_time = event_time
        self._late_bound = late_bound
        self._delay_ms = delay_ms
        self._pulse = pulse
        self._builder = EntryBuilder(unit, resolve)
        self._slides: list[int] = []

    def build(self) -> DataFrame:
        """Return the grouped and aggregated stream: family, end, key slots, slots."""
        us = self._builder.once.keep("_us", F.unix_micros(self._event_time))
        self._builder.once.keep("_bound", self._late_bound)
        always = list(self._builder.entries())
        null_keys = list(self._builder.null_key_entries())
        entries = always + null_keys
        rows = self._rows(self._expand(always, null_keys), entries, us)
        inputs = SlotInputs(self._unit, self._resolve, entries)
        keys = [FAMILY, END, *(k.name for k in self._unit.key_slots)]
        return rows.groupBy(*keys).agg(*(inputs.aggregate(slot) for slot in self._unit.slots))

    def _expand(self, entries: Sequence[Entry], null_entries: Sequence[Entry]) -> DataFrame:
        arguments = self._arguments()
        slides = sorted({e.slide for e in (*entries, *null_entries) if e.slide is not None})
        us = F.col("_us")
        for at, slide in enumerate(slides):
            start = F.col("_us") - F.pmod(us, F.lit(slide))
            self._builder.once.columns[f"_start{at}"] = start
        self._slides = slides
        for at, values in enumerate(self._builder.key_values):
            if len(values) == 1:
                self._builder.once.columns[f"_key{at}"] = values[0][1]
            elif values:
                self._builder.once.columns[f"_key{at}"] = F.array(*(v for _, v in values))
        chunks = [
            F.array(*(e.value for e in entries[i : i + CHUNK]))
            for i in range(0, len(entries), CHUNK)
        ]
        if null_entries:
            chunks.append(self._builder.null_chunk(null_entries))
        kept = ["_us", "_bound", *arguments]
        kept += [f"_start{at}" for at in range(len(slides))]
        kept += [f"_key{at}" for at, values in enumerate(self._builder.key_values) if values]
        if self._pulse is not None:
            self._builder.once.columns["_pulse"] = self._pulse
            kept.append("_pulse")
        frame = self._frame.select("*", self._builder.once.columns.pop("_us").alias("_us"))
        frame = frame.select(
            "*", *(value.alias(name) for name, value in self._builder.once.columns.items())
        )
        array = chunks[0] if len(chunks) == 1 else F.concat(*chunks)
        return frame.select(*kept, F.posexplode(array).alias(AT, VALUE))

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

    def _rows(self, expanded: DataFrame, entries: Sequence[Entry], us: SparkColumn) -> DataFrame:
        at, bound = F.col(AT), F.col("_bound")
        wanted = F.col(VALUE).isNotNull()
        if self._pulse is not None:
            # Mixed with the entry's position, so that Spark cannot push it below the watermark
            # and remove the pulse before it has moved anything.
            wanted = wanted & (F.col("_pulse").isNull() | (at < 0))
        ledger = [i for i, e in enumerate(entries) if e.family == LEDGER]
        wanted = wanted & (us.isNotNull() | at.isin(*ledger))
        rows = expanded.filter(wanted)
        if self._unit.fine:
            last = look_up([e.windows - 1 for e in entries], at)
            rows = rows.select("*", F.explode(F.sequence(F.lit(0), last)).alias(BACK))
        end = self._end(entries)
        if irregular_windows(self._unit):
            rows = rows.filter(end.isNull() | (end >= us))
        special = [e.of is None for e in entries]
        late = end < bound
        own = F.greatest(end, bound)
        if any(e.slide is not None and e.of is None for e in entries):
            own = F.when(look_up(special, at), bound).otherwise(own)
            late = late & ~look_up(special, at)
        number = look_up([e.family for e in entries], at)
        metadata = {"spark.watermarkDelayMs": self._delay_ms}
        columns = [
            (number + F.when(late, F.lit(LATE)).otherwise(F.lit(0))).alias(FAMILY),
            F.timestamp_micros(own).alias(END, metadata=metadata),
        ]
        for index, slot in enumerate(self._unit.key_slots):
            value = self._key(index, slot.carrier, entries)
            columns.append(F.when(~F.coalesce(late, F.lit(False)), value).alias(slot.name))
        kept = [AT, VALUE, *self._arguments()]
        return rows.select(*kept, *columns)

    def _end(self, entries: Sequence[Entry]) -> SparkColumn:
        """Return the last microsecond of a row's window, NULL where it has none."""
        at = F.col(AT)
        offset = look_up([None if e.slide is None else e.offset for e in entries], at, LONG)
        if self._unit.fine:
            slide = look_up([e.slide or 0 for e in entries], at, LONG)
            offset = offset - F.col(BACK) * slide
        if len(self._slides) == 1:
            return F.col("_start0") + offset
        which = look_up(
            [None if e.slide is None else self._slides.index(e.slide) for e in entries], at
        )
        start = F.col("_start0")
        for index in range(1, len(self._slides)):
            start = F.when(which == index, F.col(f"_start{index}")).otherwise(start)
        return start + offset

    def _key(self, index: int, carrier: str, entries: Sequence[Entry]) -> SparkColumn:
        at = F.col(AT)
        values = self._builder.key_values[index]
        type_ = {"string": st.StringType(), "long": LONG, "double": st.DoubleType()}[carrier]
        slot = self._unit.key_slots[index]
        keyed = [e.keyed and e.of is not None and e.of.key_slots[0] == slot for e in entries]
        held = [e.keys[index] for e in entries]
        if not values:
            found = F.when(at < 0, F.lit(None).cast(type_))
        elif len(values) == 1:
            found = F.col(f"_key{index}")
            if any(h is None for h in held):
                found = F.when(look_up([h is not None for h in held], at), found)
        else:
            found = F.get(F.col(f"_key{index}"), look_up(held, at))
        if all(keyed):
            return F.col(VALUE)
        if any(keyed):
            return F.when(look_up(keyed, at), F.col(VALUE)).otherwise(found)
        return found
