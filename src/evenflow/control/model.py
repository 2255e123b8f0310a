"""From facts and costs to a load model of the flow: what tuples cost at any gates.

Each unit reads its input, which nothing can avoid; each of its families makes a row of what passes,
each member adds its own part. Fractions of queries in one family are nested (a lower one keeps a
subset of the tuples that a higher one keeps), so that a family's row is paid for the largest of
them. Queries that share a gate have one fraction, and are one part. A trunk behind an input gate is
paid for what passes that. `flow_network` has the same as a network for planners, but for trunks of
several draws: there it is the largest fraction, and `plans` makes gates narrower until they fit.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING

from evenflow.control.demand import gets_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evenflow.control.correction import Correction
    from evenflow.control.facts import FlowFacts, UnitFacts
    from evenflow.model.costs import Costs

READING, TRUNK = "reading ", "trunk "
"""Items of a unit that are no query's: no query has such a name."""
LEAST_SPAN = 1.4
"""How many times what a batch takes without rows it must be allowed to take."""
MOST_FIXED = 0.5
"""Share of the time that batches may take without rows. If those of all units take more, as they do
on a slow machine, or where there are many, all come less often: no gate makes them shorter."""
LEAST_CAPACITY = 0.05
"""Share of the cores that is left for rows, however much batches take without them."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What passes one gate in a family: one query's part, or that of several which share it."""

    query: str
    """Its name; of several, the first."""
    own: float
    weight: float
    floor: float
    never: bool
    sharing: tuple[str, ...] = ()
    """All queries with this gate, if there are several; also those that do not run now, because
    what they keep counts too."""

    @property
    def queries(self) -> tuple[str, ...]:
        """All queries with this gate."""
        return self.sharing or (self.query,)

    def kept(self, keep: Mapping[str, float]) -> float:
        """Return the fraction that passes: the largest of those that share the gate."""
        if self.never:
            return 1.0
        if not self.sharing:
            return keep.get(self.query, 1.0)
        return max(keep.get(name, 1.0) for name in self.sharing)


@dataclass(frozen=True, kw_only=True)
class FamilyModel:
    """Queries that share a row."""

    row: float
    parts: tuple[Part, ...]
    name: str = ""
    """Among the families of its unit."""
    draw: int = 0
    """Of the input gate: what families of one draw keep is nested."""
    windows: int = 1
    """In which a tuple is; the input gate lets it pass if one of them is kept."""


@dataclass(frozen=True, kw_only=True)
class UnitModel:
    """What a unit costs, in processor-seconds per tuple: the calibration, corrected."""

    id: str
    sources: tuple[str, ...]
    reading: float
    trunk: float
    """0 if nothing can be dropped before it: it then counts as reading."""
    families: tuple[FamilyModel, ...]
    fixed: float
    """Machine-seconds that a batch takes without rows."""
    factor: float
    """What it costs with all gates open, for what the calibration says."""
    span: float
    """Seconds that its batches should take at most."""

    def per_tuple(self, keep: Mapping[str, float]) -> float:
        """Return what a tuple costs at some gates: `costs` times what is `kept`, for each item."""
        cost = self.reading
        kept_of: list[float] = []
        for family in self.families:
            largest = 0.0
            for part in family.parts:
                kept = part.kept(keep)
                cost += part.own * kept
                largest = max(largest, kept)
            cost += family.row * largest
            kept_of.append(largest)
        return cost + self.trunk * self._passing(kept_of) if self.trunk > 0 else cost

    def _passing(self, kept: Sequence[float]) -> float:
        """Return what share of tuples passes the input gate, by what each family keeps.

        In one draw that is the largest fraction; draws, and windows of a tuple, are kept or dropped
        each by a hash of its own, so that the more there are, the fewer tuples all of them drop.
        """
        dropped: dict[int, float] = {}
        for family, share in zip(self.families, kept, strict=True):
            own = (1.0 - share) ** family.windows
            dropped[family.draw] = min(own, dropped.get(family.draw, 1.0))
        return 1.0 - math.prod(dropped.values())

    def costs(self) -> dict[str, float]:
        """Return what a tuple costs that comes to each of the items that it is made of."""
        found = {READING: self.reading}
        if self.trunk > 0:
            found[TRUNK] = self.trunk
        for family in self.families:
            if family.row > 0:
                found[_row(family)] = family.row
            found |= {_own(family, part): part.own for part in family.parts}
        return found

    def kept(self, keep: Mapping[str, float]) -> dict[str, float]:
        """Return what share of all tuples comes to each item at some gates."""
        found = {READING: 1.0}
        kept_of: list[float] = []
        for family in self.families:
            kept = {part: part.kept(keep) for part in family.parts}
            largest = max(kept.values(), default=0.0)
            found[_row(family)] = largest
            found |= {_own(family, part): share for part, share in kept.items()}
            kept_of.append(largest)
        return {**found, TRUNK: self._passing(kept_of)}

    def corrected(self, correction: Correction, cores: float) -> UnitModel:
        """Return it with what its batches have told."""

        def cost(item: str, calibrated: float) -> float:
            return cores * correction.of(item, calibrated / cores)

        families = tuple(
            replace(
                family,
                row=cost(_row(family), family.row) if family.row > 0 else 0.0,
                parts=tuple(replace(p, own=cost(_own(family, p), p.own)) for p in family.parts),
            )
            for family in self.families
        )
        return replace(
            self,
            reading=cost(READING, self.reading),
            trunk=cost(TRUNK, self.trunk) if self.trunk > 0 else 0.0,
            families=families,
            factor=correction.factor,
        )


@dataclass(frozen=True, kw_only=True)
class FlowModel:
    """What the whole flow costs."""

    units: tuple[UnitModel, ...]
    cores: float

    def parts(self) -> Iterator[Part]:
        """Yield all parts of all queries."""
        for unit in self.units:
            for family in unit.families:
                yield from family.parts

    def work(self, unit: UnitModel, rows: float, keep: Mapping[str, float]) -> float:
        """Return machine-seconds that rows of a unit should take."""
        return rows * unit.per_tuple(keep) / self.cores

    def load(self, rates: Mapping[str, float], keep: Mapping[str, float]) -> float:
        """Return processor-seconds per second at some gates.

        Args:
            rates: Tuples per second by unit.
            keep: Fractions by query; those not named keep everything.
        """
        return sum(rates.get(unit.id, 0.0) * unit.per_tuple(keep) for unit in self.units)

    def floors(self) -> dict[str, float]:
        """Return the smallest fractions that may be: floors, and all of what is never shed."""
        least: dict[str, float] = {}
        for part in self.parts():
            floor = 1.0 if part.never else part.floor
            for name in part.queries:
                least[name] = max(least.get(name, 0.0), floor)
        return least

    def capacity(self, utilisation: float, rates: Mapping[str, float]) -> float:
        """Return the load that rows may make: what batches take without rows is off already."""
        idle = sum(u.fixed / u.span for u in self.units if rates.get(u.id, 0.0) > 0)
        return self.cores * max(LEAST_CAPACITY, utilisation - idle)

    def highest_surge(self, rates: Mapping[str, float], capacity: float) -> float | None:
        """Return by how much rates can grow until not even the floors fit; None without load.

        Reading cannot be shed: with floors of 0 it is what remains.
        """
        least = self.load(rates, self.floors())
        return capacity / least if least > 0 else None

    def value(self, keep: Mapping[str, float]) -> float:
        """Return the share of the greatest value: weights times the shares that are kept."""
        parts = {part.query: part for part in self.parts()}.values()
        total = sum(part.weight for part in parts)
        kept = sum(
            part.weight * max(keep.get(name, 1.0) for name in part.queries) for part in parts
        )
        return kept / total if total > 0 else 1.0


def _row(family: FamilyModel) -> str:
    """Return how the row of a family is called among the items of a unit."""
    return f"row of {family.name}"


def _own(family: FamilyModel, part: Part) -> str:
    """Return how a query's part is called: one that is in several families has several."""
    return f"{part.query} in {family.name}"


def flow_model(
    facts: FlowFacts, costs: Costs, corrections: Mapping[str, Correction], cores: float
) -> FlowModel:
    """Return the model of a flow as it stands."""
    gates = _gates(facts)
    units = [
        calibrated_unit(unit, facts, costs, corrections[unit.id].fixed, gates).corrected(
            corrections[unit.id], cores
        )
        for unit in facts.units
    ]
    return FlowModel(units=tuple(_spaced(facts, units)), cores=cores)


def _spaced(facts: FlowFacts, units: list[UnitModel]) -> list[UnitModel]:
    """Return units with batches that come less often, if all together would leave too little."""
    pairs = list(zip(facts.units, units, strict=True))
    running = [made for unit, made in pairs if not gets_nothing(unit, facts.at)]
    crowding = sum(made.fixed / made.span for made in running)
    if crowding <= MOST_FIXED:
        return units
    times = crowding / MOST_FIXED
    return [
        replace(own, span=_longer_span(unit, facts, own, times, turn_of(own, running)))
        for unit, own in pairs
    ]


def often(other: UnitModel, own: UnitModel) -> float:
    """Return in how many batches of a unit one of another is met: in all, if it has as many."""
    return min(1.0, own.span / other.span)


def turn_of(own: UnitModel, running: Iterable[UnitModel]) -> float:
    """Return what is taken without rows, all units together, until a batch is done."""
    others = (other for other in running if other.id != own.id)
    return own.fixed + sum(often(other, own) * other.fixed for other in others)


def _gates(facts: FlowFacts) -> dict[str, tuple[str, ...]]:
    """Return, by query that shares a gate, all that share it, directly or by way of others.

    A query has one fraction, in whatever families it is: two that share a gate with a third one
    have its fraction too.
    """
    found: dict[str, tuple[str, ...]] = {}
    for unit in facts.units:
        for names in unit.shared:
            joined = {each for name in names for each in found.get(name, (name,))}
            found |= dict.fromkeys(joined, tuple(sorted(joined)))
    return found


def calibrated_unit(
    unit: UnitFacts,
    facts: FlowFacts,
    costs: Costs,
    fixed: float,
    gates: Mapping[str, tuple[str, ...]] | None = None,
) -> UnitModel:
    """Return the model of a unit by the calibration alone.

    Args:
        unit: The unit.
        facts: The look.
        costs: As calibrated.
        fixed: Machine-seconds that its batches take without rows.
        gates: By query that shares a gate, all that do, if that is known.
    """
    gates = _gates(facts) if gates is None else gates
    running = [name for name in unit.queries if facts.queries[name].running]
    trunk = max((costs.of_query(name).trunk for name in running), default=0.0)
    reading = sum(map(costs.of_source, unit.sources)) / max(1, len(unit.sources))
    # A UNION ALL has several parts, and was calibrated as a whole.
    parts = Counter(name for each in facts.units for family in each.families for name in family)
    return UnitModel(
        id=unit.id,
        sources=unit.sources,
        reading=reading if unit.gated_trunk else reading + trunk,
        trunk=trunk if unit.gated_trunk else 0.0,
        families=tuple(
            replace(made, name=name, draw=draw, windows=windows)
            for (name, family), (draw, windows) in zip(
                _named(unit.families), unit.draws or repeat((0, 1)), strict=False
            )
            if (made := _family(family, facts, costs, gates, parts)).parts
        ),
        fixed=fixed,
        factor=1.0,
        span=_span(unit, facts, fixed),
    )


def _named(families: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield families with names that they have for life: that of a member, and how manieth it is.

    Others come and go while what was learned of these is kept.
    """
    times: dict[str, int] = {}
    for family in families:
        first = min(family, default="")
        times[first] = times.get(first, 0) + 1
        yield f"{first} {times[first]}", family


def _family(
    names: tuple[str, ...],
    facts: FlowFacts,
    costs: Costs,
    gates: Mapping[str, tuple[str, ...]],
    parts: Mapping[str, int],
) -> FamilyModel:
    running = [name for name in names if facts.queries[name].running]
    by_gate: dict[tuple[str, ...], float] = {}
    for name in running:
        gate = gates.get(name, (name,))
        own = costs.of_query(name).own / parts[name]
        by_gate[gate] = by_gate.get(gate, 0.0) + own
    return FamilyModel(
        row=max((costs.of_query(name).row for name in running), default=0.0),
        parts=tuple(_part(gate, own, facts) for gate, own in by_gate.items()),
    )


def _part(gate: tuple[str, ...], own: float, facts: FlowFacts) -> Part:
    """Return a part of queries that share a gate: worth what all are, and no floor is missed."""
    running = [query for name in gate if (query := facts.queries[name]).running]
    return Part(
        query=gate[0],
        own=own,
        weight=sum(query.weight for query in running),
        floor=max(query.floor for query in running),
        never=not all(query.sheddable for query in running),
        sharing=gate if len(gate) > 1 else (),
    )


def _span(unit: UnitFacts, facts: FlowFacts, fixed: float) -> float:
    """Return how long batches should take: as often as asked, unless they cannot be so short."""
    most, allowed = fixed / MOST_FIXED, _allowed(unit, facts)
    # A deadline that leaves no time for rows is missed anyway, and must not make them too short.
    if allowed is not None and allowed >= LEAST_SPAN * fixed:
        most = min(most, allowed)
    return max(unit.every, most)


def _longer_span(
    unit: UnitFacts, facts: FlowFacts, made: UnitModel, times: float, turn: float
) -> float:
    """Return how long batches should take beside many others: longer, unless deadlines forbid.

    Args:
        unit: The unit.
        facts: The look.
        made: Its model.
        times: How many times longer those of all units had to be, to leave time for rows.
        turn: What all units together take without rows until one of its batches is done.
    """
    allowed = _allowed(unit, facts)
    if allowed is None or allowed < LEAST_SPAN * turn:
        return times * made.span
    return max(made.span, min(times * made.span, allowed))


def _allowed(unit: UnitFacts, facts: FlowFacts) -> float | None:
    """Return how long batches may take for the tightest deadline; None if there is none.

    An answer is as old as two or three of them, when its tuples came as the first began.
    """
    tightest = facts.tightest(unit.queries)
    return None if tightest is None else tightest / (1 + unit.batches_before)
