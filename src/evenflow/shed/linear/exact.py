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
from evenflow.shed.linear.lp import SECONDS, FragmentLp
from evenflow.shed.linear.solver import Trouble
from evenflow.shed.plan import SheddingPlan, joined_plan
from evenflow.shed.program import ROUNDING
from evenflow.shed.propagate import checked_rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenflow.shed.network import Network
    from evenflow.shed.program import Numbers

    Bound = tuple[float, Numbers] | None
    Starts = np.ndarray[tuple[int], np.dtype[np.int64]]

MOST_BASES = 4096
"""Kept per fragment; then the one found first goes."""
DUALITY_GAP = 1e-8
"""How far below the bound of its duals a plan may be, relatively, for rounding."""


class Exact:
    """Optimal plans for one network, by bases met so far."""

    def __init__(self, network: Network, seconds: float = SECONDS) -> None:
        self.network = network
        self.fragments = [FragmentExact(each, seconds) for each in network.fragments]

    def plan(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the optimal plan.

        Raises:
            NetworkError: A rate is wrong; or nothing fits, as with `Lp.plan`.
        """
        rates = checked_rates(self.network, rates)
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
        self.constant = np.concatenate([constant for constant, _ in rows])
        """The basis serves rates r where constant + by_rate r is nowhere negative."""
        self.by_rate = np.vstack([by_rate for _, by_rate in rows])
        self.bound = basis.bound()
        self._stack(basis)

    def _stack(self, basis: Basis) -> None:
        """Put all that a plan is made of into one matrix: numpy is then called once."""
        form, program = basis.form, basis.form.program
        constant = basis.constant[: form.flows] * form.scale
        by_rate = basis.by_rate[: form.flows] * form.scale[:, None]
        come = program.arriving @ constant, program.supply + program.arriving @ by_rate
        full = np.zeros(form.flows), program.unit_flow
        bound = np.array([self.bound[0]]), self.bound[1][None]
        parts = [(self.constant, self.by_rate), (constant, by_rate), come, full, bound]
        self.constants = np.concatenate([each for each, _ in parts])
        self.by_rates = np.vstack([each for _, each in parts])
        ends = np.cumsum([len(each) for each, _ in parts]).tolist()
        self.slack, self.flow, self.arrival, self.undropped = (
            slice(first, last) for first, last in itertools.pairwise([0, *ends[:-1]])
        )

    def at(self, rates: Numbers) -> list[float]:
        """Return everything at given rates; slices say what is where. The last is the bound."""
        found: list[float] = (self.by_rates.dot(rates) + self.constants).tolist()
        return found

    def serves(self, rates: Numbers) -> bool:
        return min(self.at(rates)[self.slack]) >= -ZERO


class FragmentExact:
    """Optimal plans for one fragment, by bases met so far. Also an index of plans."""

    def __init__(self, network: Network, seconds: float = SECONDS) -> None:
        self._lp = FragmentLp(network, seconds)
        self.program = self._lp.program
        self._regions: dict[int, _Region] = {}
        self._last: _Region | None = None
        self._stacked: tuple[Numbers, Numbers, Starts, list[_Region]] | None = None
        self._met = 0
        self.misses = 0
        """How often no basis served."""

    def select(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the optimal plan for the rates of this fragment's inputs, among others."""
        own = {name: rates[name] for name in self.program.inputs}
        return self._select(own, np.array(list(own.values())))[0]

    def meet(self, rates: Mapping[str, float]) -> bool:
        """Ask the solver for these rates if no basis serves them; return whether it was asked.

        For planning ahead. What a basis gives is proved when it is selected.

        Raises:
            NetworkError: Nothing fits.
        """
        own = {name: rates[name] for name in self.program.inputs}
        vector = np.array(list(own.values()))
        region = self._last
        if region is None or not region.serves(vector):
            region = self._find(vector)
        if region is None:
            self._solved(own, vector)
        return region is None

    def select_with_bound(self, rates: Numbers) -> tuple[SheddingPlan, Bound]:
        """Return the optimal plan, and a constant and prices of inputs that bound all others.

        The bound is None if the plan is a fallback.
        """
        own = dict(zip(self.program.inputs, rates.tolist(), strict=True))
        return self._select(own, rates)

    def _select(self, own: Mapping[str, float], vector: Numbers) -> tuple[SheddingPlan, Bound]:
        region = self._last
        values = [] if region is None else region.at(vector)
        if region is None or min(values[region.slack]) < -ZERO:
            region = self._find(vector)
            values = [] if region is None else region.at(vector)
        if region is not None:
            plan = self._served(region, own, values)
            if plan is not None:
                self._last = region
                return plan, region.bound
        return self._solved(own, vector)

    def _find(self, rates: Numbers) -> _Region | None:
        """Look at all bases at once."""
        if not self._regions:
            return None
        if self._stacked is None:
            regions = list(self._regions.values())
            starts = np.cumsum([0, *(len(each.constant) for each in regions[:-1])])
            self._stacked = (
                np.vstack([each.by_rate for each in regions]),
                np.concatenate([each.constant for each in regions]),
                starts,
                regions,
            )
        by_rate, constant, starts, regions = self._stacked
        least = np.minimum.reduceat(by_rate.dot(rates) + constant, starts)
        best = int(least.argmax())
        return regions[best] if least[best] >= -ZERO else None

    def _served(
        self, region: _Region, rates: Mapping[str, float], values: list[float]
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
        plan = self._lp.checked(self._lp.described(rates, keep, "exact"))
        if plan.reason is None and found.basis.serves_all():
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
        self._stacked = None
