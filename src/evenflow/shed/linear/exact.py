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

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.linear.basis import ZERO, Basis
from evenflow.shed.linear.lp import SECONDS, FragmentLp
from evenflow.shed.linear.solver import Trouble
from evenflow.shed.plan import SheddingPlan, joined_plan
from evenflow.shed.program import ROUNDING
from evenflow.shed.propagate import checked_rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.network import Network
    from evenflow.shed.program import Numbers

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
        self.flow_constant = basis.constant[: form.flows] * form.scale
        self.flow_by_rate = basis.by_rate[: form.flows] * form.scale[:, None]
        self.bound_constant, bound_by_rate = basis.bound()
        self.bound_by_rate: list[float] = bound_by_rate.tolist()

    def serves(self, rates: Numbers) -> bool:
        return bool((self.by_rate.dot(rates) + self.constant).min(initial=0.0) >= -ZERO)


class FragmentExact:
    """Optimal plans for one fragment, by bases met so far. Also an index of plans."""

    def __init__(self, network: Network, seconds: float = SECONDS) -> None:
        self._lp = FragmentLp(network, seconds)
        self._program = self._lp.program
        self._regions: dict[int, _Region] = {}
        self._last: _Region | None = None
        self._stacked: tuple[Numbers, Numbers, list[int], list[_Region]] | None = None
        self._met = 0
        self.misses = 0
        """How often no basis served."""

    def select(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the optimal plan for the rates of this fragment's inputs, among others."""
        own = {name: rates[name] for name in self._program.inputs}
        vector = np.array(list(own.values()))
        region = self._last
        if region is None or not region.serves(vector):
            region = self._find(vector)
        if region is not None:
            plan = self._served(region, own, vector)
            if plan is not None:
                self._last = region
                return plan
        return self._solved(own, vector)

    def _find(self, rates: Numbers) -> _Region | None:
        """Look at all bases at once."""
        if not self._regions:
            return None
        if self._stacked is None:
            regions = list(self._regions.values())
            starts = [0, *accumulate(len(each.constant) for each in regions[:-1])]
            self._stacked = (
                np.vstack([each.by_rate for each in regions]),
                np.concatenate([each.constant for each in regions]),
                starts,
                regions,
            )
        by_rate, constant, starts, regions = self._stacked
        least = np.minimum.reduceat(by_rate @ rates + constant, starts)
        best = int(np.argmax(least))
        return regions[best] if least[best] >= -ZERO else None

    def _served(
        self, region: _Region, rates: Mapping[str, float], vector: Numbers
    ) -> SheddingPlan | None:
        """Return the plan of a basis, if it is feasible and its duals show that none is better."""
        flows = region.flow_by_rate.dot(vector) + region.flow_constant
        keep = self._program.keep(flows, vector)
        plan = self._lp.described(rates, keep, "exact", region.number)
        bound = region.bound_constant + sum(
            map(float.__mul__, region.bound_by_rate, vector.tolist())
        )
        optimal = plan.objective >= bound * (1 - DUALITY_GAP) - ROUNDING
        return plan if optimal and self._lp.checker.holds(plan) else None

    def _solved(self, rates: Mapping[str, float], vector: Numbers) -> SheddingPlan:
        self.misses += 1
        found = self._lp.optimum(vector)
        if isinstance(found, Trouble):
            return self._lp.fallback(rates, found)
        keep = self._program.keep(found.flows, vector)
        plan = self._lp.checked(self._lp.described(rates, keep, "exact"))
        if plan.reason is None and found.basis.serves_all():
            region = self._keep(found.basis)
            if region.serves(vector):
                self._last = region
        return plan

    def _keep(self, basis: Basis) -> _Region:
        region = _Region(basis, self._met)
        self._regions[self._met] = region
        self._met += 1
        if len(self._regions) > MOST_BASES:
            del self._regions[min(self._regions)]
        self._stacked = None
        return region
