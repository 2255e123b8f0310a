"""Where a unit's input gate stands, and what it asks of a tuple: pure data.

Behind a trunk each query has a gate on its branch. If all of these drop a tuple, a dear trunk has
worked for nothing. The input gate stands before it and drops what every one of them would drop,
which it finds out by the same hashes: of the tuple's identity in a stateless unit, of its keys and
windows in a stack. It can stand where these are known before the joins that make the trunk dear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.model.expression import Column, walk
from evenflow.model.functions import is_dear
from evenflow.model.operator import Join, Select, Source, Union, Where, upstream
from evenflow.model.unit import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator, Window
    from evenflow.model.unit import Family, Unit

MOST_HASHES = 32
"""Keys and windows of a tuple that an input gate looks at. There is code for each."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Families with the same keys and window: of a tuple they keep the same windows, or fewer."""

    families: tuple[Family, ...]

    @property
    def window(self) -> Window:
        """That of each of them."""
        return self.families[0].window

    @property
    def parts(self) -> tuple[int, ...]:
        """The members' numbers. The draw keeps the largest of their fractions."""
        return tuple(member.number for family in self.families for member in family.members)


@dataclass(frozen=True, slots=True)
class InputGate:
    """The input gate of a unit."""

    draws: tuple[Draw, ...]
    """A tuple is dropped if in all of them all its windows are; none in a stateless unit, whose
    branches all go by the tuple's identity."""


def below_joins(operator: Operator) -> Operator:
    """Return what feeds the first of the joins that an operator ends with; itself without any.

    Its columns are the first ones of the operator's, under the same names.
    """
    while isinstance(operator, Join):
        operator = operator.input
    return operator


def input_gate(unit: Unit) -> InputGate | None:
    """Return the input gate of a unit; None if it has none.

    There is none before a cheap trunk; before a user's function, which must see all; where
    something dear stands below the joins, too, as in a union of joins; and in a stack whose keys
    come out of a join, or are dear themselves, or whose windows are too many to be looked at.
    """
    if not isinstance(unit.trunk, Join):
        return None
    below = below_joins(unit.trunk)
    if not _is_cheap(below):
        return None
    if unit.kind is Kind.STATELESS:
        return InputGate(()) if unit.branches else None
    known = set(below.schema.names)
    if not unit.families or not all(_is_known(f.keys, known) for f in unit.families):
        return None
    draws = _draws(unit.families)
    if sum(draw.window.per_tuple for draw in draws) > MOST_HASHES:
        return None
    return InputGate(draws)


def _is_cheap(operator: Operator) -> bool:
    """Whether an operator and all that feed it do next to nothing."""
    for each in upstream(operator):
        match each:
            case Source() | Union():
                continue
            case Where(predicate=predicate) if not is_dear(predicate):
                continue
            case Select(columns=columns) if not any(is_dear(e) for _, e in columns):
                continue
            case _:
                return False
    return True


def _is_known(keys: Iterable[Expression], names: set[str]) -> bool:
    """Whether keys are cheap, and made of some columns alone."""
    return all(
        not is_dear(key)
        and all(each.path[0] in names for each in walk(key) if isinstance(each, Column))
        for key in keys
    )


def _draws(families: Iterable[Family]) -> tuple[Draw, ...]:
    alike: dict[object, list[Family]] = {}
    for family in families:
        alike.setdefault((family.keys, family.key_slots, family.window), []).append(family)
    return tuple(Draw(tuple(each)) for each in alike.values())
