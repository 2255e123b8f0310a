"""The input gate of a stack: which tuples no gate of any family keeps in any window.

It asks before the trunk, by the hashes that the gates behind it ask by, and so drops nothing that
one of them keeps. Tuples that it drops are marked (`SHUT`), pass the joins unasked, and are counted
in the stack: as they came, once for each of their windows and families, however many rows of a
table they would have met.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.spark.compile.entries import US, reckoned, window_end
from evenflow.spark.compile.keys import StackKeys
from evenflow.spark.compile.trunk import SHUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from evenflow.model.unit import Unit
    from evenflow.spark.compile.gates import GateColumns
    from evenflow.spark.compile.trunk import Trunk, TrunkBuilder


def gated_trunk(
    builder: TrunkBuilder, unit: Unit, gates: GateColumns, event_time: SparkColumn
) -> Trunk:
    """Return the trunk of a stack, with its input gate if it has one.

    Args:
        builder: Builds it.
        unit: Whose it is.
        gates: Those of the unit.
        event_time: Of a tuple.
    """
    if not gates.draws:
        return builder.build(unit.trunk)
    begun = builder.begin(unit.trunk)
    marked = _marked(begun, StackKeys(unit, begun.resolve), gates, event_time)
    return replace(begun, frame=builder.finish(unit.trunk, marked))


def _marked(
    begun: Trunk, keys: StackKeys, gates: GateColumns, event_time: SparkColumn
) -> DataFrame:
    """Return a trunk's tuples before its joins, and which are shut."""
    # A tuple without event time has no windows, one that failed is rejected: neither is dropped.
    drops = F.col(US).isNotNull()
    if begun.why is not None:
        drops = drops & begun.why.isNull()
    drops = reduce(lambda a, b: a & b, _outside(keys, gates), drops)
    frame = begun.frame.select("*", reckoned(event_time).alias(US))
    shut = F.coalesce(F.when(gates.may_shut, drops), F.lit(False))
    return frame.select("*", shut.alias(SHUT)).drop(US)


def _outside(keys: StackKeys, gates: GateColumns) -> Iterator[SparkColumn]:
    """Yield, by draw and window of a tuple, whether nobody keeps it."""
    for number, draw in enumerate(gates.draws):
        size, slide = draw.window.size_us, draw.window.slide_us
        for back in range(draw.window.per_tuple):
            end = window_end(slide, size - 1 - back * slide)
            yield gates.outside(number, keys.window_hash(draw.families[0], end))
