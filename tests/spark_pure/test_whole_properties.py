"""Which answers are whole: the fast way against the plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.spark.compile.answers import AnswerPlan
from evenflow.spark.compile.gates import ONE, threshold
from evenflow.spark.compile.keys import BITS, HASH
from evenflow.spark.compile.stack import END
from evenflow.spark.gate.history import GateRow
from evenflow.spark.gate.whole import FamilyRows, Window, split_windows, untouched

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = (1, 2, 3)
FRACTIONS = st.sampled_from((0.0, 1e-18, 0.25, 0.5, 1 - 2**-53, 1.0))
ENDS = st.sampled_from((-1, 0, 9_999_999, 19_999_999, 2**62))
VERSIONS = range(1, 5)
"""The last one is never known."""
HASHES = st.one_of(
    st.integers(0, ONE - 1), FRACTIONS.map(lambda f: max(0, threshold(f))), st.just(ONE - 1)
)
COUNTS = st.one_of(st.just(0), st.integers(0, 2**40))


def plan(part: int) -> AnswerPlan:
    """The first two parts share a gate."""
    sharing = (1, 2) if part < 3 else (3,)
    return AnswerPlan("q", part, 7, 10_000_000, f"n{part}", None, (), (), (), sharing)


def table(rows: list[tuple[int, int, list[int]]], second: str) -> pa.Table:
    counts = {
        f"n{part}": pa.array([r[2][i] for r in rows], pa.int64()) for i, part in enumerate(PARTS)
    }
    ends = pa.array([r[0] for r in rows], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({END: ends, second: pa.array([r[1] for r in rows], pa.int64()), **counts})


TUPLES = st.lists(COUNTS, min_size=3, max_size=3)
FAMILIES = st.one_of(st.none(), st.lists(st.tuples(ENDS, HASHES, TUPLES), max_size=12))
DROPPED = st.lists(st.tuples(ENDS, st.sampled_from(VERSIONS), TUPLES), min_size=1, max_size=12)
GATES = st.dictionaries(
    st.sampled_from(VERSIONS[:-1]), st.dictionaries(st.sampled_from(PARTS), FRACTIONS)
)


def plainly(
    family: list[tuple[int, int, list[int]]] | None,
    dropped: list[tuple[int, int, list[int]]],
    at: int,
    gates: Mapping[int, GateRow],
) -> tuple[list[int], int, list[Window]]:
    """Return which rows are whole, what is cut, and the windows: row by row."""
    limits: dict[int, int] = {}
    missed: dict[int, int] = {}
    for end, version, counts in dropped:
        if counts[at]:
            row = gates.get(version)
            sharing = plan(PARTS[at]).sharing
            fraction = 0.0 if row is None else max(map(row.fraction, sharing))
            limits[end] = min(limits.get(end, ONE), threshold(fraction))
            missed[end] = missed.get(end, 0) + counts[at]
    kept, cut = dict.fromkeys(limits, 0), dict.fromkeys(limits, 0)
    whole = []
    for number, (end, hash_, counts) in enumerate(family or ()):
        if hash_ <= limits.get(end, ONE - 1):
            whole.append(number)
        if end in limits:
            (kept if hash_ <= limits[end] else cut)[end] += counts[at]
    windows = [
        Window(end, (limits[end] + 1) / ONE, kept[end], missed[end], cut[end])
        for end in sorted(limits)
    ]
    return whole, sum(cut.values()), windows


@settings(deadline=None, max_examples=300)
@given(family=FAMILIES, dropped=DROPPED, keeps=GATES)
def test_the_fast_way_tells_what_the_plain_one_does(
    family: list[tuple[int, int, list[int]]] | None,
    dropped: list[tuple[int, int, list[int]]],
    keeps: dict[int, dict[int, float]],
) -> None:
    gates = {version: GateRow(version, version, keep) for version, keep in keeps.items()}
    there = None if family is None else table(family, HASH)
    rows = FamilyRows(there, table(dropped, BITS))
    for at, part in enumerate(PARTS):
        whole, cut, windows = plainly(family, dropped, at, gates)
        parted = split_windows(rows, plan(part), gates)
        assert parted.windows == windows
        assert parted.cut == cut
        if there is None:
            assert parted.whole is None
        else:
            assert parted.whole is not None
            assert parted.whole.equals(there.take(pa.array(whole, pa.int64())))
            named = {window.end_us for window in windows}
            rest = untouched(parted.whole, plan(part), named)
            assert not named & {window.end_us for window in rest}
            assert {window.fraction for window in rest} <= {1.0}
            kept = sum(window.kept for window in (*windows, *rest))
            assert kept + cut == sum(counts[at] for _, _, counts in family or ())
