"""Where parts of queries go: into the unit that has room for them, or into a new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenflow.model.functions import can_fail
from evenflow.model.operator import Source, upstream
from evenflow.schedule.family import all_key_slots, all_slots, lay_out_family
from evenflow.schedule.group import group_shapes
from evenflow.schedule.layout import FamilyLayout, Lease, UnitLayout
from evenflow.schedule.shape import Part, Plain, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator
    from evenflow.schedule.life import Facts
    from evenflow.schedule.shape import Site


@dataclass(frozen=True, slots=True)
class Numbers:
    """What has been given out. Nothing is given twice."""

    part: int = 1
    family: int = 0
    unit: int = 1

    def parts(self, count: int) -> tuple[tuple[int, ...], Numbers]:
        """Return the next numbers of parts."""
        return tuple(range(self.part, self.part + count)), replace(self, part=self.part + count)


def place(
    units: Sequence[UnitLayout], parts: Sequence[Part], numbers: Numbers, facts: Facts
) -> tuple[list[UnitLayout], Numbers]:
    """Return the units with parts that have no lease yet, and the numbers that are left.

    A part that some unit carries already stays there; others go where their site is and their
    slots fit. What fits nowhere makes new units, one per site.
    """
    placing = _Placing(units, numbers, facts)
    by_site: dict[Site, list[Part]] = {}
    for part in parts:
        home = placing.home(part)
        if home is None:
            by_site.setdefault(part.site, []).append(part)
        else:
            placing.put([part], home)
    for site in sorted(by_site, key=lambda s: s.kind.value != "stateless"):
        placing.put_all(site, by_site[site])
    return list(placing.units.values()), placing.numbers


class _Placing:
    """The state of one placement."""

    def __init__(self, units: Sequence[UnitLayout], numbers: Numbers, facts: Facts) -> None:
        self.units = {unit.id: unit for unit in units}
        self.numbers = numbers
        self._before = tuple(units)
        self._facts = facts

    def home(self, part: Part) -> str | None:
        """Return the unit that carries a part already, though it has no lease."""
        for unit in self._before:
            if unit.eras and part.number in unit.numbers:
                return unit.id
        return None

    def put_all(self, site: Site, parts: Sequence[Part]) -> None:
        """Put parts of one site into its units, and the rest into a new one."""
        there = [unit.id for unit in self._before if unit.site == site]
        rest: list[Part] = []
        for group in _groups(parts):
            fitting = next((id_ for id_ in there if self.fits(group, id_)), None)
            if fitting is not None:
                self.put(group, fitting)
                continue
            for part in group:
                alone = next((id_ for id_ in there if self.fits([part], id_)), None)
                if alone is None:
                    rest.append(part)
                else:
                    self.put([part], alone)
        if rest:
            self._open(site, rest)

    def fits(self, group: Sequence[Part], unit: str) -> bool:
        """Whether a unit's state has the slots that a family of the group would need."""
        shapes = [part for part in group if isinstance(part, Shape)]
        if not shapes:
            return True
        family, _ = lay_out_family(0, shapes, None)
        there = self.units[unit]
        return set(family.slots.values()) <= set(there.slots) and set(family.key_slots) <= set(
            there.key_slots
        )

    def put(self, group: Sequence[Part], unit: str) -> None:
        """Put a group into a unit: parts with windows as a new family."""
        there = self.units[unit]
        since = self._facts.read_us.get(unit, self._read_by(there.donors))
        families, leases = self._leases(group, since)
        self.units[unit] = replace(
            there, families=(*there.families, *families), leases=(*there.leases, *leases)
        )

    def _leases(
        self, group: Sequence[Part], since_us: int | None
    ) -> tuple[list[FamilyLayout], list[Lease]]:
        shapes = [part for part in group if isinstance(part, Shape)]
        leases = [Lease(number=part.number) for part in group if isinstance(part, Plain)]
        if not shapes:
            return [], leases
        family, of_family = lay_out_family(self.numbers.family, shapes, since_us)
        self.numbers = replace(self.numbers, family=self.numbers.family + 1)
        return [family], [*leases, *of_family]

    def _open(self, site: Site, parts: Sequence[Part]) -> None:
        """Make a unit. It begins behind what others have read of the same sources."""
        unit = f"u{self.numbers.unit}"
        self.numbers = replace(self.numbers, unit=self.numbers.unit + 1)
        sources = sources_of(parts[0].trunk)
        hashes = tuple(source.hash for source in sources)
        donors = tuple(self._donor(hash_) for hash_ in hashes)
        since = self._read_by(donors)
        families: list[FamilyLayout] = []
        leases: list[Lease] = []
        groups = _groups(parts)
        for group in groups:
            made, held = self._leases(group, since)
            families += made
            leases += held
        self.units[unit] = UnitLayout(
            id=unit,
            site=site,
            sources=tuple(source.name for source in sources),
            source_hashes=hashes,
            key_slots=all_key_slots(families) if families else (),
            slots=all_slots(families, site.kind) if families else (),
            narrow=not any(donors) and is_narrow(groups),
            families=tuple(families),
            leases=tuple(leases),
            donors=donors,
        )

    def _donor(self, source_hash: str) -> str | None:
        """Return the first unit that has begun to read a source."""
        reading = (u.id for u in self._before if source_hash in u.source_hashes)
        return next((id_ for id_ in reading if id_ in self._facts.batch), None)

    def _read_by(self, units: Iterable[str | None]) -> int | None:
        """Return the newest event time that units have read."""
        read = (self._facts.read_us.get(unit) for unit in units if unit is not None)
        return max((us for us in read if us is not None), default=None)


def _groups(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the families-to-be; parts without windows are one group."""
    plain: list[Part] = [part for part in parts if isinstance(part, Plain)]
    families = group_shapes([part for part in parts if isinstance(part, Shape)])
    groups: list[list[Part]] = [list(shapes) for shapes in families]
    return [plain, *groups] if plain else groups


def sources_of(trunk: Operator) -> tuple[Source, ...]:
    """Return the sources that a trunk reads, in the order in which its plan does."""
    return tuple(each for each in upstream(trunk) if isinstance(each, Source))


def is_narrow(groups: Sequence[Sequence[Part]]) -> bool:
    """Whether each tuple can be one row: of the only family, or of the rest."""
    if len(groups) != 1:
        return False
    shapes = [part for part in groups[0] if isinstance(part, Shape)]
    if not shapes or not isinstance(shapes[0].trunk, Source):
        return False
    conditions: set[tuple[Expression, ...]] = set()
    for shape in shapes:
        filtered = any(call.condition is not None for _, call in shape.aggregates)
        if filtered or shape.window.per_tuple > 1:
            return False
        conditions.add((shape.predicate, *shape.guards))
    return len(conditions) == 1 and not any(can_fail(e) for e in conditions.pop())
