"""Plans made ahead, and the choice of one when load changes (section 4, phases 1 and 3).

The network that is planned for has the costs of a unit for one another, rounded, and a capacity of
1; how fast the flow really is, and how much of the machine rows may take, are in the rates that it
is asked for. So a planner serves while costs are corrected, and what `exact` has met is met for
good. What rounding does to the load is made up for by the rates, too.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenflow.control.flow_network import Terms, flow_network
from evenflow.errors import EvenflowError
from evenflow.shed.linear.exact import Exact

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from evenflow.control.flow_network import FlowNetwork
    from evenflow.control.model import FlowModel, Part, UnitModel

MOST_PLANNERS = 32
STEP = 1.1
"""Ratios of rates between units are rounded to powers of this, so that planners can be kept."""
COST_STEP = 1.05
"""Ratios of costs are rounded to powers of this."""
LEAST_COST = 1e-4
"""What costs less than this, for the whole unit, costs nothing."""
ROUNDS = 3
"""How often a plan is asked for until what it loads is what may be loaded."""
CLOSE = 0.005
"""How close to that is close enough."""
AHEAD = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""For these multiples of what fits plans are made before they are needed."""
NEXT_TO_NOTHING = 0.02
"""Share of the load of all floors by which it may be higher where those do not fit."""
GRAIN = 10_000
"""Fractions are whole numbers of this part of one."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The gates for some rates."""

    keep: Mapping[str, float]
    """By query; all of them."""
    fits: bool
    """Whether the load fits with these gates. If not, they are as low as they may be."""
    method: str
    """What found them: a method of `shed`, `open`, `floors` or `narrower`."""
    reason: str | None = None
    """Why it is not the best one, if it is not."""

    @property
    def is_open(self) -> bool:
        """Whether nothing is dropped."""
        return all(kept >= 1.0 for kept in self.keep.values())


class Plans:
    """Keeps planners, one for each shape of the flow."""

    def __init__(self) -> None:
        self._planners: OrderedDict[Hashable, tuple[FlowNetwork, Exact]] = OrderedDict()

    def choose(self, model: FlowModel, rates: Mapping[str, float], capacity: float) -> Choice:
        """Return gates of the greatest value that fit; as low as they may be if none do.

        Args:
            model: The flow.
            rates: Tuples per second by unit.
            capacity: Processor-seconds per second for rows.
        """
        everything = {name: 1.0 for part in model.parts() for name in part.queries}
        if model.load(rates, {}) <= capacity:
            return Choice(keep=everything, fits=True, method="open")
        floors = model.floors()
        least = Choice(keep={**everything, **floors}, fits=False, method="floors")
        if model.load(rates, floors) >= capacity:
            return replace(least, keep=_with_cheap(model, rates, least.keep))
        try:
            return self._fitting(model, rates, capacity, floors)
        except EvenflowError as exc:
            # The load fits at the floors, by arithmetic. That no plan was found is a fault, and
            # the floors are the safe answer to it.
            return replace(least, fits=True, reason=str(exc))

    def _fitting(
        self,
        model: FlowModel,
        rates: Mapping[str, float],
        capacity: float,
        floors: Mapping[str, float],
    ) -> Choice:
        """Return gates that fit, of the greatest value that is found in a few rounds.

        Raises:
            EvenflowError: There is no plan for the capacity.
        """
        room = capacity
        best: Choice | None = None
        wide: Choice | None = None
        for _ in range(ROUNDS):
            try:
                found = self._planned(model, rates, room, floors)
            except EvenflowError:
                if room == capacity:
                    raise
                break  # nothing can be planned for so much less than the capacity
            load = model.load(rates, found.keep)
            if load > capacity:
                wide = found
            elif best is None or model.value(found.keep) > model.value(best.keep):
                best = found
            if load <= 0 or capacity * (1 - CLOSE) <= load <= capacity:
                return best or found
            room *= capacity * (1 - CLOSE / 2) / load
        if wide is None:
            assert best is not None
            return best
        between = _within(model, rates, capacity, floors if best is None else best.keep, wide)
        if best is not None and model.value(best.keep) > model.value(between.keep):
            return best
        return between

    def _planned(
        self,
        model: FlowModel,
        rates: Mapping[str, float],
        capacity: float,
        floors: Mapping[str, float],
    ) -> Choice:
        """Return what a planner finds; its load is that of the rounded costs."""
        asked = _scaled(model, rates, capacity)
        network, planner = self._planner(model, asked)
        plan = planner.plan({unit: asked[unit] for unit in planner.network.inputs})
        kept = network.keep(plan.throughput, asked)
        keep = {
            name: _rounded(kept.get(part.query, 1.0), floors.get(name, 0.0))
            for part in model.parts()
            for name in part.queries
        }
        return Choice(keep=keep, fits=True, method=plan.method, reason=plan.reason)

    def narrower(
        self,
        model: FlowModel,
        rates: Mapping[str, float],
        capacity: float,
        keep: Mapping[str, float],
    ) -> Choice | None:
        """Return gates that go from given ones towards the floors, all alike, until they fit.

        Returns:
            None if not even the floors fit.
        """
        wide = {name: keep.get(name, 1.0) for part in model.parts() for name in part.queries}
        least = {name: model.floors().get(name, 0.0) for name in wide}
        if model.load(rates, least) > capacity:
            return None
        before = Choice(keep=wide, fits=True, method="narrower")
        return _within(model, rates, capacity, least, before)

    def prepare(self, model: FlowModel, rates: Mapping[str, float], capacity: float) -> None:
        """Make plans for a surge of all inputs together, if none were made for this shape."""
        load = model.load(rates, {})
        if load <= 0 or self._key(model, _scaled(model, rates, capacity)) in self._planners:
            return
        for times in AHEAD:
            scale = times * capacity / load
            self.choose(model, {unit: rate * scale for unit, rate in rates.items()}, capacity)

    def _planner(self, model: FlowModel, asked: Mapping[str, float]) -> tuple[FlowNetwork, Exact]:
        key = self._key(model, asked)
        if key not in self._planners:
            terms = {unit: Terms(input=unit, worth=worth) for unit, worth in _worths(asked)}
            network = flow_network(_in_ratios(model), terms, 1.0)
            self._planners[key] = network, Exact(network.network)
            if len(self._planners) > MOST_PLANNERS:
                self._planners.popitem(last=False)
        self._planners.move_to_end(key)
        return self._planners[key]

    def _key(self, model: FlowModel, asked: Mapping[str, float]) -> Hashable:
        return _in_ratios(model), tuple(_worths(asked))


def _with_cheap(
    model: FlowModel, rates: Mapping[str, float], floors: Mapping[str, float]
) -> dict[str, float]:
    """Return floors, but all of queries that cost next to nothing: to drop them helps nobody."""
    room = model.load(rates, floors) * (1 + NEXT_TO_NOTHING)
    keep = dict(floors)

    def opened(part: Part) -> dict[str, float]:
        return {**keep, **dict.fromkeys(part.queries, 1.0)}

    for part in sorted(model.parts(), key=lambda part: model.load(rates, opened(part))):
        if model.load(rates, opened(part)) <= room:
            keep = opened(part)
    return keep


def _scaled(model: FlowModel, rates: Mapping[str, float], capacity: float) -> dict[str, float]:
    """Return rates at which the flow, did a tuple cost 1, would load a capacity of 1 alike."""
    return {
        unit.id: rates[unit.id] * unit.per_tuple({}) / capacity
        for unit in model.units
        if rates.get(unit.id, 0.0) > 0
    }


def _in_ratios(model: FlowModel) -> FlowModel:
    """Return the model with costs for those of a whole tuple, rounded."""
    return replace(model, units=tuple(map(_unit_in_ratios, model.units)), cores=1.0)


def _unit_in_ratios(unit: UnitModel) -> UnitModel:
    whole = unit.per_tuple({})

    def ratio(cost: float) -> float:
        share = cost / whole if whole > 0 else 0.0
        if share < LEAST_COST:
            return 0.0
        return float(COST_STEP ** round(math.log(share, COST_STEP)))

    families = tuple(
        replace(
            family,
            row=ratio(family.row),
            parts=tuple(replace(part, own=ratio(part.own)) for part in family.parts),
        )
        for family in unit.families
    )
    return replace(
        unit,
        reading=ratio(unit.reading),
        trunk=ratio(unit.trunk),
        families=families,
        fixed=0.0,
        factor=1.0,
        span=1.0,
    )


def _within(
    model: FlowModel,
    rates: Mapping[str, float],
    capacity: float,
    fits: Mapping[str, float],
    wide: Choice,
) -> Choice:
    """Return gates that fit, on the way from some that do to some that do not, as far as they do.

    Load need not grow evenly on that way: a trunk of several draws is passed by far more than the
    largest fraction.
    """
    low, high = 0.0, 1.0
    while high - low > 1 / GRAIN:
        way = (low + high) / 2
        if model.load(rates, _between(fits, wide, way).keep) <= capacity:
            low = way
        else:
            high = way
    return _between(fits, wide, low)


def _between(fits: Mapping[str, float], wide: Choice, way: float) -> Choice:
    keep = {}
    for name, kept in wide.keep.items():
        begin = fits.get(name, 0.0)
        keep[name] = _rounded(begin + way * (kept - begin), min(begin, kept))
    return replace(wide, keep=keep)


def _worths(asked: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return what tuples of each unit are worth, so that value is weight times share kept."""
    first = next(iter(asked.values()), 1.0)
    return [
        (unit, STEP ** round(math.log(first / rate, STEP))) for unit, rate in sorted(asked.items())
    ]


def _rounded(kept: float, floor: float) -> float:
    """Return a fraction that load and floor both allow."""
    return max(floor, min(1.0, math.floor(kept * GRAIN + 1e-6) / GRAIN))
