"""Order and connection in graphs without cycles, for things that have names."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Set

T = TypeVar("T")


def in_order(before: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the keys so that each stands after those that are named for it.

    Names that are no keys do not count. The order is the same for the same mapping.

    Raises:
        CycleError: There is none; `cycle_of` says why.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, names in before.items():
        sorter.add(name, *(each for each in names if each in before))
    return tuple(sorter.static_order())


def cycle_of(before: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return names that stand before one another in a circle, or nothing if there are none."""
    try:
        in_order(before)
    except CycleError as exc:
        return tuple(exc.args[1])
    return ()


def joined(items: Iterable[T], touched: Callable[[T], Set[Hashable]]) -> list[list[T]]:
    """Return items in groups: two are together if what they touch overlaps, also by way of others.

    Groups and their members keep the order of the items.
    """
    groups: list[tuple[set[Hashable], list[tuple[int, T]]]] = []
    for position, item in enumerate(items):
        own, members = set(touched(item)), [(position, item)]
        apart = []
        for held, earlier in groups:
            if own.isdisjoint(held):
                apart.append((held, earlier))
            else:
                # Groups are disjoint from one another, so that the union meets no third one.
                own |= held
                members += earlier
        groups = [*apart, (own, members)]
    for _, members in groups:
        members.sort(key=lambda member: member[0])
    groups.sort(key=lambda group: group[1][0][0])
    return [[item for _, item in members] for _, members in groups]
