"""How units are laid out: what the state of each depends on, as data that manifests keep.

A family's number and slots are given once and never to others. What a query owns of a family is a
*lease*: the windows that start after the family's `since`, until the lease ends. Groups of the
stack are keyed by family, so two leases never meet in one group.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.model.operator import Window
from evenflow.model.schema import parse_type
from evenflow.model.unit import KeySlot, Kind, Slot
from evenflow.schedule.shape import Site

if TYPE_CHECKING:
    from collections.abc import Mapping


class Fate(enum.Enum):
    """What becomes of the tuples that arrive for a part of a query."""

    TAKEN = "taken"
    PAUSED = "paused"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyLayout:
    """The slots of a family, and which windows are its own."""

    number: int
    """Never used twice in a flow."""
    since_us: int | None
    """Its windows start later than this; None if all are its own."""
    size_us: int
    key_slots: tuple[KeySlot, ...]
    slots: Mapping[str, Slot]
    """By the text of what is put in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A part of a query in a unit, and in a family if it has windows."""

    number: int
    """The part's number, never used twice in a flow."""
    family: int | None = None
    count: Slot | None = None
    """Counts the part's tuples in the family's groups."""
    ended_us: int | None = None
    """The newest event time read when it ended: windows not answered by then are cut.
    None while it lasts."""


@dataclass(frozen=True, slots=True)
class WrittenOff:
    """Tuples of leases that are over, which were in the state when they ended."""

    late: int = 0
    cut: int = 0
    gate: int = 0

    def __add__(self, other: WrittenOff) -> WrittenOff:
        """Return both together."""
        return WrittenOff(self.late + other.late, self.cut + other.cut, self.gate + other.gate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """The time between two changes of a unit. Tuples that arrive are counted by era."""

    number: int
    fates: Mapping[int, Fate]
    """By the number of the part; a part that is not named does not count the era's tuples."""
    after: int
    """The last batch before it."""
    irregular: tuple[tuple[int, int], ...] = ()
    """Size and slide of windows of which a tuple is not always in the same number. The i-th has
    a ledger of its own."""
    bound_ms: int | None = None
    """The watermark at its end, None while it lasts: its counts leave the state above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLayout:
    """What a unit carries, and where in its state."""

    id: str
    """Never used twice in a flow."""
    site: Site
    sources: tuple[str, ...]
    """In the order in which its plan reads them."""
    source_hashes: tuple[str, ...]
    """Of its sources, in the same order."""
    key_slots: tuple[KeySlot, ...] = ()
    slots: tuple[Slot, ...] = ()
    """Fixed for the life of the unit, because they are the schema of its state."""
    narrow: bool = False
    """Each tuple is one row: of the only family, or of the rest. Ends with the first change."""
    families: tuple[FamilyLayout, ...] = ()
    leases: tuple[Lease, ...] = ()
    windows: Mapping[int, Window] = field(default_factory=dict)
    """Of the parts that it carries and that have windows, by number."""
    eras: tuple[Era, ...] = ()
    """In their order, the present one last; those that no state counts any more are left out."""
    written_off: Mapping[int, WrittenOff] = field(default_factory=dict)
    """By part: of its leases that ended while their families went on for others."""
    donors: tuple[str | None, ...] = ()
    """By source: the unit behind whose reading this one began; None if it read the source from its
    beginning."""

    @property
    def era(self) -> Era:
        """The present one."""
        return self.eras[-1]

    @property
    def numbers(self) -> frozenset[int]:
        """The parts that it carries, running or not."""
        return frozenset(self.era.fates)

    def family(self, number: int) -> FamilyLayout:
        """Return a family by its number."""
        return next(f for f in self.families if f.number == number)


# As JSON.


def layout_to_json(layout: UnitLayout) -> dict[str, Any]:
    """Return a layout as plain values."""
    return {
        "id": layout.id,
        "trunk": layout.site.trunk,
        "kind": layout.site.kind.value,
        "fine": layout.site.fine,
        "sources": list(layout.sources),
        "source_hashes": list(layout.source_hashes),
        "key_slots": [_key_slot_to_json(k) for k in layout.key_slots],
        "slots": [_slot_to_json(s) for s in layout.slots],
        "narrow": layout.narrow,
        "families": [
            {
                "number": f.number,
                "since_us": f.since_us,
                "size_us": f.size_us,
                "key_slots": [_key_slot_to_json(k) for k in f.key_slots],
                "slots": {text: _slot_to_json(slot) for text, slot in f.slots.items()},
            }
            for f in layout.families
        ],
        "leases": [
            {
                "number": lease.number,
                "family": lease.family,
                "count": None if lease.count is None else _slot_to_json(lease.count),
                "ended_us": lease.ended_us,
            }
            for lease in layout.leases
        ],
        "windows": {str(n): [w.size_us, w.slide_us] for n, w in sorted(layout.windows.items())},
        "eras": [
            {
                "number": era.number,
                "fates": {str(n): fate.value for n, fate in sorted(era.fates.items())},
                "after": era.after,
                "irregular": [list(each) for each in era.irregular],
                "bound_ms": era.bound_ms,
            }
            for era in layout.eras
        ],
        "written_off": {
            str(n): [w.late, w.cut, w.gate] for n, w in sorted(layout.written_off.items())
        },
        "donors": list(layout.donors),
    }


def layout_from_json(data: Mapping[str, Any]) -> UnitLayout:
    """Return the layout that `layout_to_json` wrote."""
    return UnitLayout(
        id=data["id"],
        site=Site(data["trunk"], Kind(data["kind"]), data["fine"]),
        sources=tuple(data["sources"]),
        source_hashes=tuple(data["source_hashes"]),
        key_slots=tuple(map(_key_slot, data["key_slots"])),
        slots=tuple(map(_slot, data["slots"])),
        narrow=data["narrow"],
        families=tuple(
            FamilyLayout(
                number=f["number"],
                since_us=f["since_us"],
                size_us=f["size_us"],
                key_slots=tuple(map(_key_slot, f["key_slots"])),
                slots={text: _slot(slot) for text, slot in f["slots"].items()},
            )
            for f in data["families"]
        ),
        leases=tuple(
            Lease(
                number=lease["number"],
                family=lease["family"],
                count=None if lease["count"] is None else _slot(lease["count"]),
                ended_us=lease["ended_us"],
            )
            for lease in data["leases"]
        ),
        windows={int(n): Window(size, slide) for n, (size, slide) in data["windows"].items()},
        eras=tuple(
            Era(
                number=era["number"],
                fates={int(n): Fate(fate) for n, fate in era["fates"].items()},
                after=era["after"],
                irregular=tuple((size, slide) for size, slide in era["irregular"]),
                bound_ms=era["bound_ms"],
            )
            for era in data["eras"]
        ),
        written_off={int(n): WrittenOff(*each) for n, each in data["written_off"].items()},
        donors=tuple(data["donors"]),
    )


def _slot_to_json(slot: Slot) -> list[Any]:
    return [slot.function, str(slot.type), slot.index]


def _slot(data: list[Any]) -> Slot:
    function, type_, index = data
    return Slot(function, parse_type(type_), index)


def _key_slot_to_json(slot: KeySlot) -> list[Any]:
    return [slot.carrier, slot.index]


def _key_slot(data: list[Any]) -> KeySlot:
    carrier, index = data
    return KeySlot(carrier, index)
