"""The optimum for any rates, most often without a solver.

Optimal bases that were met are kept. For new rates one is looked for whose solution is feasible
there: it is then optimal, because rates stand on right-hand sides only. That it is, is shown again
by its duals before the plan leaves: the value of the gates, found by propagating rates, reaches a
bound that no gates can exceed. Only where no basis is feasible the solver is called, and its basis
is kept.

Plans equal those of `lp`, ties included, up to rounding. A basis whose ties are broken rightly at
the rates it was found for, but perhaps not at others, is not kept.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.shed.linear.basis import ZERO, Basis
from evenflow.shed.linear.lp import DUALITY_GAP, SECONDS, FragmentLp
from evenflow.shed.linear.solver import Trouble
from evenflow.shed.plan import SheddingPlan, joined_plan
from evenflow.shed.program import ROUNDING
from evenflow.shed.propagate import checked_rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenflow.shed.network import Network
    from evenflow.shed.program import Numbers

    Bound = tuple[float, Numbers] | None
    Affine = tuple[Numbers, Numbers]
    """Constants, and rows by rate: linear functions of the rates."""

MOST_BASES = 4096
"""Kept per fragment; then the one found first goes."""
FEW_BASES = 64
"""Up to which looking at all of them takes no longer than at the last one, and then at all."""


class Exact:
    """Optimal plans for one network, by bases met so far."""

    def __init__(self, network: Network, seconds: float = SECONDS) -> None:
        self.network = network
        self.fragments = [FragmentExact(each, seconds) for each in network.fragments]
        first = self.fragments[0]
        self._whole = first if first.program.nodes == tuple(network.nodes) else None
        """The only fragment, if it has all nodes, as most often: its plans are the network's."""

    def plan(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the optimal plan.

        Raises:
            NetworkError: A rate is wrong; or nothing fits, as with `Lp.plan`.
        """
        rates = checked_rates(self.network, rates)
        if self._whole is not None:
            return self._whole.select_own(rates)
        return joined_plan(self.network, [each.select(rates) for each in self.fragments])


class _Region:
    """The rates that a basis serves, its flows there, and a bound on the value anywhere."""

    def __init__(self, basis: Basis, number: int) -> None:
        form = basis.form
        self.basis = basis
        self.number = number
        rows = [(basis.constant, basis.by_rate - form.lower)]
        bounded = form.bounded & basis.basic
        rows.append((-basis.constant[bounded], (form.upper - basis.by_rate)[bounded]))
        tied = list(basis.tied_slacks())
        rows.append((-basis.constant[tied], -basis.by_rate[tied]))
        rows[0] = (rows[0][0][basis.basic], rows[0][1][basis.basic])
        self.bound = basis.bound()
        self.slack = _stacked(rows)
        """The basis serves rates r where constant + by_rate r is nowhere negative."""
        self.made = self._made(basis)
        """All that a plan is made of; slices say what is where, and the last is the bound."""

    def _made(self, basis: Basis) -> Affine:
        form, program = basis.form, basis.form.program
        constant = basis.constant[: form.flows] * form.scale
        by_rate = basis.by_rate[: form.flows] * form.scale[:, None]
        come = program.arriving @ constant, program.supply + program.arriving @ by_rate
        full = np.zeros(form.flows), program.unit_flow
        bound = np.array([self.bound[0]]), self.bound[1][None]
        ends = itertools.pairwise(range(0, 4 * form.flows, form.flows))
        self.flow, self.arrival, self.undropped = (slice(*each) for each in ends)
        return _stacked([(constant, by_rate), come, full, bound])

    def serves(self, rates: Numbers) -> bool:
        constant, by_rate = self.slack
        return bool((by_rate.dot(rates) + constant).min() >= -ZERO)

    def at(self, rates: Numbers) -> list[float]:
        """Return what a plan is made of at given rates."""
        constant, by_rate = self.made
        found: list[float] = (by_rate.dot(rates) + constant).tolist()
        return found


class _Shelf:
    """All bases in one matrix: a few calls of numpy find the one that serves, and its plan."""

    def __init__(self, regions: list[_Region]) -> None:
        self._regions = regions
        self._constant, self._by_rate = _stacked(
            [*(each.slack for each in regions), *(each.made for each in regions)]
        )
        sizes = [len(each.slack[0]) for each in regions]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._slacks = sum(sizes)
        self._made = len(regions[0].made[0])

    def find(self, rates: Numbers) -> tuple[_Region, list[float]] | None:
        """Return the basis that serves best, and what its plan is made of."""
        values = self._by_rate.dot(rates)
        values += self._constant
        least = np.minimum.reduceat(values[: self._slacks], self._starts)
        best = int(least.argmax())
        if least[best] < -ZERO:
            return None
        begin = self._slacks + best * self._made
        return self._regions[best], values[begin : begin + self._made].tolist()


def _stacked(parts: Iterable[Affine]) -> Affine:
    parts = list(parts)
    return np.concatenate([each for each, _ in parts]), np.vstack([each for _, each in parts])


class FragmentExact:
    """Optimal plans for one fragment, by bases met so far. Also an index of plans."""

    def __init__(self, network: Network, seconds: float = SECONDS) -> None:
        self._lp = FragmentLp(network, seconds)
        self.program = self._lp.program
        self._regions: dict[int, _Region] = {}
        self._last: _Region | None = None
        self._shelf: _Shelf | None = None
        """Of `_regions`; None while it has not been made since they changed."""
        self._met = 0
        self.misses = 0
        """How often no basis served."""

    def select(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the optimal plan for the rates of this fragment's inputs, among others."""
        return self.select_own({name: rates[name] for name in self.program.inputs})

    def select_own(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the same for rates of its inputs alone, in their order."""
        return self._select(rates, np.array([*rates.values()]))[0]

    def meet(self, rates: Mapping[str, float]) -> bool:
        """Ask the solver for these rates if no basis serves them; return whether it was asked.

        For planning ahead. What a basis gives is proved when it is selected.

        Raises:
            NetworkError: Nothing fits.
        """
        own = {name: rates[name] for name in self.program.inputs}
        vector = np.array([*own.values()])
        met = self._serving(vector) is not None
        if not met:
            self._solved(own, vector)
        return not met

    def select_with_bound(self, rates: Numbers) -> tuple[SheddingPlan, Bound]:
        """Return the optimal plan, and a constant and prices of inputs that bound all others.

        The bound is None if the plan is a fallback.
        """
        own = dict(zip(self.program.inputs, rates.tolist(), strict=True))
        return self._select(own, rates)

    def _select(self, own: Mapping[str, float], vector: Numbers) -> tuple[SheddingPlan, Bound]:
        found = self._serving(vector)
        if found is not None:
            plan = self._served(*found, own)
            if plan is not None:
                self._last = found[0]
                return plan, found[0].bound
        return self._solved(own, vector)

    def _serving(self, rates: Numbers) -> tuple[_Region, list[float]] | None:
        """Return a basis that serves rates, and what its plan is made of there."""
        last = self._last
        if last is not None and len(self._regions) > FEW_BASES and last.serves(rates):
            return last, last.at(rates)
        if self._shelf is None:
            if not self._regions:
                return None
            self._shelf = _Shelf(list(self._regions.values()))
        return self._shelf.find(rates)

    def _served(
        self, region: _Region, values: list[float], rates: Mapping[str, float]
    ) -> SheddingPlan | None:
        """Return the plan of a basis, if it is feasible and its duals show that none is better."""
        keep = self.program.fractions(
            values[region.flow], values[region.arrival], values[region.undropped]
        )
        objective, load, throughput = self._lp.checker.told_quickly(rates, keep)
        # Not "below": what is no number proves nothing.
        if not objective >= values[-1] * (1 - DUALITY_GAP) - ROUNDING:
            return None
        plan = SheddingPlan(
            rates=rates,
            keep=keep,
            objective=objective,
            load=load,
            throughput=throughput,
            method="exact",
            plan=region.number,
        )
        return plan if self._lp.checker.holds(plan) else None

    def _solved(self, rates: Mapping[str, float], vector: Numbers) -> tuple[SheddingPlan, Bound]:
        self.misses += 1
        found = self._lp.optimum(vector)
        if isinstance(found, Trouble):
            return self._lp.fallback(rates, found), None
        keep = self.program.keep(found.flows, vector)
        plan = self._lp.told(self._lp.checker.plan_of(rates, keep, "exact"), found, vector)
        if plan.reason is None:
            region = _Region(found.basis, self._met)
            # One that would not serve these rates again, because of its ties, serves nobody.
            if region.serves(vector):
                self._keep(region)
                self._last = region
        return plan, None if plan.reason else found.basis.bound()

    def take(self, bases: Iterable[Mapping[str, Sequence[int]]]) -> None:
        """Keep bases that were given by `data`. Each is proved by its duals whenever it serves."""
        form = self._lp.form
        for each in bases:
            flags = np.zeros((2, form.flows + form.rows), dtype=bool)
            flags[0, list(each["basic"])] = True
            flags[1, list(each["upper"])] = True
            self._keep(_Region(Basis(form, flags[0], flags[1]), self._met))

    def data(self) -> dict[str, Any]:
        """Return the bases, by the numbers of their columns."""
        return {
            "bases": [
                {
                    "basic": np.flatnonzero(region.basis.basic).tolist(),
                    "upper": np.flatnonzero(region.basis.at_upper).tolist(),
                }
                for region in self._regions.values()
            ]
        }

    def report(self) -> dict[str, Any]:
        """Return how many bases there are, and how often the solver was called."""
        return {"plans": len(self._regions), "lp_calls": self._lp.calls, "error": 0.0}

    def _keep(self, region: _Region) -> None:
        self._regions[self._met] = region
        self._met += 1
        if len(self._regions) > MOST_BASES:
            del self._regions[min(self._regions)]
        self._shelf = None
