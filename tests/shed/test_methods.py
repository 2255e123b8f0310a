"""`lp`, `exact` and `uniform` in random networks of up to eight inputs: feasible, and optimal.

Some networks have floors, or tuples that must not be dropped; then there may be no plan. `make
test` tries each method in 100 networks with 100 rates, `make shed-test` in 1,000 with 1,000.
Methods that plan ahead are tried in `test_methods_ahead`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.shed.proved_optimum import PATIENCE, Rates, Trial
from tests.shed.random_network import random_network

from evenflow.errors import NetworkError
from evenflow.shed.linear import exact_index
from evenflow.shed.linear.exact import FragmentExact
from evenflow.shed.linear.lp import Lp
from evenflow.shed.linear.solver import Trouble
from evenflow.shed.plan_index import make_index

if TYPE_CHECKING:
    from evenflow.shed.linear.solver import Bounds, Solved
    from evenflow.shed.plan import SheddingPlan
    from evenflow.shed.program import Numbers

NETWORKS = int(os.environ.get("EVENFLOW_METHOD_NETWORKS", "20"))
RATES = int(os.environ.get("EVENFLOW_METHOD_RATES", "50"))
BLOCK = 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NETWORKS, BLOCK))
def test_plans_are_feasible_and_optimal(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_index, "FragmentExact", partial(FragmentExact, seconds=PATIENCE))
    for seed in range(first, min(first + BLOCK, NETWORKS)):
        # Every second network is a tree; every fourth has floors, every fourth `shed: never`.
        data = random_network(
            seed,
            tree=seed % 2 == 0,
            floors=seed % 4 == 1,
            never=seed % 4 == 3,
            unasked=seed % 5 == 4,
        )
        _try(Trial(seed, data))


def _try(trial: Trial) -> None:
    lp, safe = Lp(trial.network, PATIENCE), Lp(trial.network, solver=_Failing)
    exact = make_index(trial.network, "exact", trial.highest, 0.1)
    assert exact.report()["error"] == 0.0
    for rates in trial.rates(RATES):
        best = trial.optimum(rates)
        if best is None:
            for asked in (lp.plan, exact.select, lp.uniform, safe.plan):
                with pytest.raises(NetworkError) as caught:
                    asked(rates)
                assert caught.value.code in ("floors.unmet", "never.overload")
            continue
        for plan in (lp.plan(rates), exact.select(rates)):
            assert plan.reason is None, (trial.seed, rates)
            trial.assert_within(plan, plan.method, best.objective, 1e-6)
        _try_uniform(trial, lp, rates, best)
        # A plan that is there is found, if not the best one, whatever becomes of the solver.
        trial.assert_within(safe.plan(rates), "safe", best.objective, 1.0)


class _Failing:
    """A solver that finds no basis."""

    def __init__(self, rows: Numbers, seconds: float) -> None:
        pass

    def begin(self) -> None:
        pass

    def maximise(self, objective: Numbers, bounds: Bounds) -> Solved | Trouble:
        return Trouble.FAILED


def _try_uniform(trial: Trial, lp: Lp, rates: Rates, best: SheddingPlan) -> None:
    """It promises no share of the optimum, but that no larger fraction fits."""
    plan, code = None, ""
    try:
        plan = lp.uniform(rates)
    except NetworkError as exc:
        code = exc.code
    if plan is None:
        # Floors and `never` can need gates at splits, or of some inputs less than of others.
        assert (trial.seed % 2, code) == (1, "uniform.none"), (trial.seed, rates)
        return
    trial.assert_within(plan, "uniform", best.objective, 1.0)
    for fragment, planner in zip(trial.network.fragments, lp.fragments, strict=True):
        own = [plan.keep[gate.name] for gate in planner.program.gates if not gate.open]
        full = [
            plan.load[name] >= node.capacity * (1 - 1e-9) for name, node in fragment.nodes.items()
        ]
        assert min(own, default=1.0) == 1.0 or any(full), (trial.seed, rates)
