"""Placing boxes in columns so that arrows point right, cross little and pass no box.

The usual steps for layered drawings: columns by longest path; an invisible point in every column
that an arrow passes; an order within columns by the mean place of neighbours; heights that are
as near to the neighbours' as the order allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROW_GAP = 12.0
COLUMN_GAP = 56.0
_POINT_HEIGHT = 4.0
_SWEEPS = 12


@dataclass(frozen=True, slots=True)
class Box:
    """Something to place."""

    id: str
    width: float
    height: float
    column: int | None = None
    """The column that it must have; None for the first that its arrows allow. -1 is the last."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a box came to lie."""

    x: float
    """Its left edge."""
    y: float
    """The middle of its height."""
    right: float
    """The right edge of its column, up to which arrows run level, past wider boxes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes with their places, and arrows with the points they pass."""

    places: dict[str, Place]
    arrows: dict[tuple[str, str], list[tuple[float, float, float]]]
    """Per arrow the columns that it passes: left edge, right edge, height."""
    width: float
    height: float


@dataclass(slots=True)
class _Item:
    """A box, or a point where an arrow passes a column."""

    id: str
    column: int
    width: float
    height: float
    left: list[_Item] = field(default_factory=list)
    right: list[_Item] = field(default_factory=list)
    y: float = 0.0


def place(boxes: Sequence[Box], arrows: Sequence[tuple[str, str]]) -> Layout:
    """Return a layout. Arrows go from earlier boxes to later ones."""
    columns_of = _columns(boxes, arrows)
    items = {b.id: _Item(b.id, columns_of[b.id], b.width, b.height) for b in boxes}
    chains = {arrow: _chain(items[arrow[0]], items[arrow[1]]) for arrow in dict.fromkeys(arrows)}
    columns = _in_columns(items.values(), chains.values())
    _order(columns)
    _lift(columns)
    lefts, widths = _horizontal(columns)
    top = min((i.y - i.height / 2 for c in columns for i in c), default=0.0)
    bottom = max((i.y + i.height / 2 for c in columns for i in c), default=0.0)
    return Layout(
        places={
            i.id: Place(lefts[i.column], i.y - top, lefts[i.column] + widths[i.column])
            for i in items.values()
        },
        arrows={
            arrow: [(lefts[i.column], lefts[i.column] + widths[i.column], i.y - top) for i in chain]
            for arrow, chain in chains.items()
        },
        width=lefts[-1] + widths[-1] if lefts else 0.0,
        height=bottom - top,
    )


def _columns(boxes: Sequence[Box], arrows: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the columns: one right of the rightmost input; leaves just left of their user."""
    inputs: dict[str, list[str]] = {box.id: [] for box in boxes}
    users: dict[str, list[str]] = {box.id: [] for box in boxes}
    for source, target in arrows:
        inputs[target].append(source)
        users[source].append(target)
    found: dict[str, int] = {}
    for box in boxes:
        found[box.id] = max((found[each] + 1 for each in inputs[box.id]), default=0)
    last = max(found.values(), default=0)
    for box in boxes:
        if box.column is not None:
            found[box.id] = last if box.column < 0 else box.column
    for box in boxes:
        if not inputs[box.id] and users[box.id] and box.column is None:
            found[box.id] = min(found[user] for user in users[box.id]) - 1
    return found


def _chain(source: _Item, target: _Item) -> list[_Item]:
    """Return the points of an arrow between two items, linked to both."""
    points = [
        _Item(f"{source.id}>{target.id}@{column}", column, 0.0, _POINT_HEIGHT)
        for column in range(source.column + 1, target.column)
    ]
    line = [source, *points, target]
    for before, after in pairwise(line):
        before.right.append(after)
        after.left.append(before)
    return points


def _in_columns(items: Iterable[_Item], chains: Iterable[list[_Item]]) -> list[list[_Item]]:
    everything = [*items, *(point for chain in chains for point in chain)]
    count = max((i.column for i in everything), default=-1) + 1
    columns: list[list[_Item]] = [[] for _ in range(count)]
    for item in everything:
        columns[item.column].append(item)
    return columns


def _order(columns: list[list[_Item]]) -> None:
    """Sort each column by the mean place of its neighbours; keep the order that crosses least."""
    for column in columns:
        _number(column)
    best, least = [list(column) for column in columns], _crossings(columns)
    for sweep in range(_SWEEPS):
        rightwards = sweep % 2 == 0
        for column in columns if rightwards else reversed(columns):
            means = {i.id: _mean(i.left if rightwards else i.right, i.y) for i in column}
            column.sort(key=lambda item, means=means: means[item.id])  # type: ignore[misc]
            _number(column)
        crossings = _crossings(columns)
        if crossings < least:
            best, least = [list(column) for column in columns], crossings
    for column, kept in zip(columns, best, strict=True):
        column[:] = kept
        _number(column)


def _number(column: Sequence[_Item]) -> None:
    for index, item in enumerate(column):
        item.y = float(index)


def _mean(neighbours: Sequence[_Item], otherwise: float) -> float:
    return sum(n.y for n in neighbours) / len(neighbours) if neighbours else otherwise


def _crossings(columns: Sequence[Sequence[_Item]]) -> int:
    total = 0
    for column in columns:
        ends = [n.y for item in column for n in sorted(item.right, key=lambda each: each.y)]
        total += sum(
            1 for i, first in enumerate(ends) for second in ends[i + 1 :] if second < first
        )
    return total


def _lift(columns: list[list[_Item]]) -> None:
    """Give heights: first packed, then near the neighbours on either side in turn."""
    for column in columns:
        _settle(column, {item.id: item.y for item in column})
    for sweep in range(_SWEEPS):
        rightwards = sweep % 2 == 1
        for column in columns if rightwards else reversed(columns):
            wanted = {
                item.id: _mean((item.left if rightwards else item.right), item.y) for item in column
            }
            _settle(column, wanted)


def _settle(column: Sequence[_Item], wanted: Mapping[str, float]) -> None:
    """Move items as near as possible to what they want, in order and without overlap.

    Least squares under an order: neighbours that would overlap form a block, which lies at the
    mean of what its items want.
    """
    blocks: list[tuple[float, int]] = []  # sum of wishes, count
    offsets: list[float] = []
    offset = 0.0
    for index, item in enumerate(column):
        if index:
            offset += (column[index - 1].height + item.height) / 2 + ROW_GAP
        offsets.append(offset)
        blocks.append((wanted[item.id] - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = (blocks[-1][0] + total, blocks[-1][1] + count)
    at = 0
    for total, count in blocks:
        for index in range(at, at + count):
            column[index].y = total / count + offsets[index]
        at += count


def _horizontal(columns: Sequence[Sequence[_Item]]) -> tuple[list[float], list[float]]:
    widths = [max((item.width for item in column), default=0.0) for column in columns]
    lefts: list[float] = []
    x = 0.0
    for width in widths:
        lefts.append(x)
        x += width + COLUMN_GAP
    return lefts, widths
