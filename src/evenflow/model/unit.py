"""Units: what runs together as one StreamingQuery, down to families and slots.

Pure data. `schedule` decides it, `graph.explain` draws it, `spark` builds it, manifests keep it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.model.functions import is_dear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.model.expression import AggregateCall, Expression
    from evenflow.model.operator import Operator, Window
    from evenflow.model.types import DataType


class Kind(enum.Enum):
    """The kind of work of a unit. Kinds are kept apart because one slows the other down."""

    STATELESS = "stateless"
    HASH = "hash"
    """Aggregates that Spark keeps in a hash map."""
    SORT = "sort"
    """Aggregates for which Spark sorts: min and max of strings."""
    SKETCH = "sketch"
    """approx_count_distinct, whose buffers are wide."""


@dataclass(frozen=True, slots=True, order=True)
class KeySlot:
    """The place of one key in the stack's state."""

    carrier: str
    """string, long or double: the column type that carries the key."""
    index: int

    @property
    def name(self) -> str:
        """The column's name."""
        return f"key_{self.carrier}_{self.index}"


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one aggregate in the stack's state. Typed, because state is."""

    function: str
    """count, sum, avg, min, max, stddev or distinct: what Spark computes in it."""
    type: DataType
    """Type of what is put in."""
    index: int

    @property
    def name(self) -> str:
        """The column's name."""
        kind = str(self.type).lower().replace("(", "_").replace(",", "_").replace(")", "")
        return f"{self.function}_{kind}_{self.index}"


@dataclass(frozen=True, slots=True)
class Condition:
    """Which tuples count: those that satisfy the predicate and on which no guard fails."""

    predicate: Expression
    guards: tuple[Expression, ...] = ()
    """Expressions that can fail on a tuple; the tuple is then rejected for the query."""

    @property
    def dear(self) -> bool:
        """Whether asking costs more than the row that is made if it holds."""
        return any(map(is_dear, (self.predicate, *self.guards)))


@dataclass(frozen=True, slots=True)
class SlotUse:
    """What one family puts into a slot."""

    slot: Slot
    condition: int
    """Index into the family's conditions."""
    argument: Expression | None
    """None counts tuples."""


@dataclass(frozen=True, slots=True)
class Result:
    """An aggregate of a query and the slots that its value is made from."""

    name: str
    """The column of the Aggregate operator, `a0` ..."""
    call: AggregateCall
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One query's part in a family. A UNION ALL of windowed queries has several."""

    query: str
    number: int
    """Never used twice in a flow."""
    condition: int
    """The family's condition that says which tuples are the query's."""
    count: Slot
    """Counts the query's tuples: a group without any is no answer."""
    results: tuple[Result, ...]
    having: Expression | None
    """Over the columns of the query's Aggregate operator, as are the outputs."""
    outputs: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Queries with the same keys and window that share one row per tuple and window."""

    number: int
    """Never used twice in a unit."""
    keys: tuple[Expression, ...]
    key_slots: tuple[KeySlot, ...]
    window: Window
    conditions: tuple[Condition, ...]
    """Distinct ones of members and their FILTER clauses; bit i of a row's mask is the i-th."""
    uses: tuple[SlotUse, ...]
    members: tuple[Member, ...]
    since_us: int | None = None
    """Its windows start later than this; None if all are its own."""

    @property
    def gate_users(self) -> tuple[tuple[int, ...], ...]:
        """By condition, the numbers of members for whom its gate is wide enough.

        A gate keeps the largest fraction of its users. Who shares a condition also keeps windows
        for the others that have it, so these need all their slots there: the users of a member's
        own condition are users of the conditions of its slots, and of those that follow from them.
        """
        condition_of = {use.slot: use.condition for use in self.uses}
        users: list[set[int]] = [set() for _ in self.conditions]
        wider: set[tuple[int, int]] = set()
        for member in self.members:
            users[member.condition].add(member.number)
            slots = (slot for result in member.results for slot in result.slots)
            wider |= {(member.condition, condition_of[slot]) for slot in slots}
        grown = True
        while grown:
            grown = False
            for own, of_slot in sorted(wider):
                grown |= not users[own] <= users[of_slot]
                users[of_slot] |= users[own]
        return tuple(tuple(sorted(each)) for each in users)


@dataclass(frozen=True, slots=True)
class Branch:
    """One query's part in a stateless unit: which tuples pass and what they become."""

    query: str
    number: int
    condition: Condition
    outputs: tuple[tuple[str, Expression], ...]


MOST_INLINE = 12
"""A tuple in more windows than this is expanded in two steps, first by family, then by window.
Each window of a tuple would otherwise be an entry of its own in every tuple's array."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A StreamingQuery to be: one trunk, one kind of work."""

    id: str
    kind: Kind
    trunk: Operator
    """The operator whose tuples all queries of the unit see."""
    sources: tuple[str, ...]
    """Names of the sources that the unit reads, once each time it stands here."""
    every: float
    """Seconds between batches: the smallest of its queries'."""
    branches: tuple[Branch, ...] = ()
    families: tuple[Family, ...] = ()
    key_slots: tuple[KeySlot, ...] = ()
    slots: tuple[Slot, ...] = ()
    """All slots of the stack, spare ones included, in state order."""
    narrow: bool = False
    """Each tuple is one row: of the only family, or of the rest."""
    era: int = 0
    """How often the unit has been changed: the tuples that arrive are counted by era."""
    irregular: tuple[tuple[int, int], ...] = ()
    """Size and slide of windows of which a tuple is not always in the same number."""

    @property
    def fine(self) -> bool:
        """Whether its windows slide so finely that rows are expanded a second time, by window."""
        return any(f.window.per_tuple > MOST_INLINE for f in self.families)

    @property
    def members(self) -> tuple[tuple[Family, Member], ...]:
        """All members with their families."""
        return tuple((family, member) for family in self.families for member in family.members)

    def with_shared_gates(self, keep: Mapping[int, float]) -> dict[int, float]:
        """Return the fractions that parts really keep, because some share their gates.

        Args:
            keep: By part; those not named keep everything.
        """
        kept = dict(keep)
        for family in self.families:
            users = family.gate_users
            for member in family.members:
                sharing = users[member.condition]
                kept[member.number] = max(keep.get(number, 1.0) for number in sharing)
        return kept

    @property
    def queries(self) -> tuple[str, ...]:
        """Names of the queries it carries, sorted."""
        names = {b.query for b in self.branches}
        names |= {m.query for f in self.families for m in f.members}
        return tuple(sorted(names))
