"""Which queries share a row: one row per family, or one row per query, by what is cheaper.

A family makes one row per tuple however many of its queries want the tuple, but every row of the
stack is then as wide as the widest family. A query on its own makes a row for each tuple that
passes its predicate, and a narrow one. Selective predicates favour the latter.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

from evenflow.model.expression import TRUE, Call, Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evenflow.schedule.shape import Shape

MOST_CONDITIONS = 60
"""Conditions of a family are bits of one 64-bit mask."""

MOST_SLOTS = 52
"""Slots of a family. All rows of a stack are as wide as its widest family; past this width the JVM
leaves the aggregation interpreted where its flag is not set, and gains little where it is."""

ROW_COST = 110.0
SLOT_COST = 4.0
"""Nanoseconds per row, and per slot of a row, of expanding and partial aggregation. Measured with
`evenflow bench sharing`; only their ratio matters."""


def group_shapes(shapes: Sequence[Shape]) -> list[list[Shape]]:
    """Return the families, each a list of shapes with the same keys and window."""
    alike: dict[tuple[object, ...], list[Shape]] = defaultdict(list)
    for shape in shapes:
        alike[shape.keys, shape.window].append(shape)
    families: list[list[Shape]] = []
    for members in alike.values():
        families.extend(_together_or_apart(members))
    return families


def _together_or_apart(shapes: list[Shape]) -> list[list[Shape]]:
    by_predicate: dict[Expression, list[Shape]] = defaultdict(list)
    for shape in shapes:
        by_predicate[shape.predicate].append(shape)
    groups = list(by_predicate.values())
    if len(groups) == 1:
        return list(_bounded(groups))
    shares = [selectivity(predicate) for predicate in by_predicate]
    slots = [sum(map(_slots, group)) for group in groups]
    nobody = prod(1.0 - share for share in shares)
    together = (1.0 - nobody) * (ROW_COST + SLOT_COST * sum(slots))
    widest = max(slots)
    apart = sum(share * (ROW_COST + SLOT_COST * widest) for share in shares)
    if together <= apart:
        return list(_bounded(groups))
    return [family for group in groups for family in _bounded([group])]


def _bounded(groups: Iterable[list[Shape]]) -> Iterable[list[Shape]]:
    """Join groups into families that stay within the mask and the width."""
    family: list[Shape] = []
    conditions: set[tuple[object, ...]] = set()
    slots = 0
    for shape in (shape for group in groups for shape in group):
        own = {
            (shape.predicate, condition, shape.guards)
            for condition in (None, *(call.condition for _, call in shape.aggregates))
        }
        wide = slots + _slots(shape) > MOST_SLOTS
        if family and (wide or len(conditions | own) > MOST_CONDITIONS):
            yield family
            family, conditions, slots = [], set(), 0
        family.append(shape)
        conditions |= own
        slots += _slots(shape)
    if family:
        yield family


def _slots(shape: Shape) -> int:
    """Return how many slots a query needs at most: its count and its aggregates."""
    return 1 + len(shape.aggregates)


def selectivity(predicate: Expression) -> float:
    """Guess the share of tuples that pass, from the predicate's form alone."""
    if predicate == TRUE:
        return 1.0
    if not isinstance(predicate, Call):
        return 0.5
    if predicate.function == "and":
        return prod(map(selectivity, predicate.arguments))
    if predicate.function == "or":
        return 1.0 - prod(1.0 - selectivity(a) for a in predicate.arguments)
    if predicate.function == "not":
        return 1.0 - selectivity(predicate.arguments[0])
    if predicate.function == "in":
        return min(0.5, _GUESSES["="] * (len(predicate.arguments) - 1))
    return _GUESSES.get(predicate.function, 0.4)


_GUESSES = {
    "=": 0.07,
    "<=>": 0.07,
    "is_null": 0.1,
    "like": 0.1,
    "startswith": 0.1,
    "endswith": 0.1,
    "contains": 0.1,
}
