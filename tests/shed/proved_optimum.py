"""A random network, rates to try it at, and its optimum there, proved.

Half of the rates bring the fullest node to 1.0 to 1.3 of its capacity, where plans differ most. The
optimum is that of `exact`, which must reach a bound of weak duality that is computed here from
prices alone: whoever is compared with it is compared with what no plan can exceed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.shed.oracle import Oracle
from tests.shed.random_network import random_rates

from evenflow.errors import NetworkError
from evenflow.shed.check import Checker
from evenflow.shed.linear.exact import FragmentExact
from evenflow.shed.network_data import network_from_data
from evenflow.shed.plan import joined_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenflow.shed.plan import SheddingPlan

Rates = dict[str, float]

PATIENCE = 60.0
"""Seconds for a solve: what a busy machine takes for one is not what is tried."""


class Trial:
    """One network under trial."""

    def __init__(self, seed: int, data: dict[str, Any]) -> None:
        self.seed = seed
        self.network = network_from_data(data)
        self.highest: Rates = {}
        """By input: the rate at which it alone brings a node to 1.3 of its capacity."""
        self._oracle = Oracle(data)
        self._names = list(self.network.inputs)
        self._checker = Checker(self.network)
        self._exact = [FragmentExact(each, PATIENCE) for each in self.network.fragments]
        for name in self._names:
            full = self._oracle.fullest({each: float(each == name) for each in self._names})
            self.highest[name] = 1.3 / full if full > 0 else 1.0

    def rates(self, count: int) -> Iterator[Rates]:
        """Return random rates up to the highest."""
        for number in range(count):
            drawn = random_rates(self.seed * 10_000 + number, self._oracle.fullest, self._names)
            yield {name: min(drawn[name], self.highest[name]) for name in self._names}

    def optimum(self, rates: Rates) -> SheddingPlan | None:
        """Return the optimal plan, proved; None if nothing fits."""
        bound, parts = 0.0, []
        for fragment in self._exact:
            vector = fragment.program.rate_vector(rates)
            try:
                plan, prices = fragment.select_with_bound(vector)
            except NetworkError:
                return None
            assert prices is not None, (self.seed, rates)
            parts.append(plan)
            bound += prices[0] + float(np.dot(prices[1], vector))
        plan = joined_plan(self.network, parts)
        assert plan.objective == pytest.approx(bound, rel=1e-6, abs=1e-9), (self.seed, rates)
        self.assert_feasible(plan, "exact")
        return plan

    def assert_feasible(self, plan: SheddingPlan, method: str) -> None:
        """Check a plan by propagating its rates, whoever made it."""
        assert self._checker.faults(plan) == (), (self.seed, method, plan.rates)

    def assert_within(self, plan: SheddingPlan, method: str, optimum: float, bound: float) -> None:
        """Check that a plan is feasible, and misses no more of the optimum than it may."""
        where = (self.seed, method, plan.rates)
        self.assert_feasible(plan, method)
        assert plan.objective <= optimum * (1 + 1e-6) + 1e-9, where
        assert plan.objective >= optimum * (1 - bound) * (1 - 1e-9) - 1e-9, where
