"""Random networks: the optimum against a second formulation and solver, and its duals.

`make test-fast` tries 200 of them, `make test` 1,000, `make shed-test` 5,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.shed.oracle import Oracle
from tests.shed.random_network import random_network, random_rates

from evenflow.errors import NetworkError
from evenflow.shed.check import check
from evenflow.shed.linear.lp import Lp
from evenflow.shed.linear.optimum import Optimum
from evenflow.shed.network_data import network_data, network_from_data

NETWORKS = int(os.environ.get("EVENFLOW_NETWORKS", "200"))
BLOCK = 100


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NETWORKS, BLOCK))
def test_the_optimum_is_that_of_a_second_solver(first: int) -> None:
    for seed in range(first, min(first + BLOCK, NETWORKS)):
        _compare(
            seed,
            random_network(seed, floors=seed % 4 == 1, never=seed % 4 == 2, unasked=seed % 5 == 4),
        )


def _compare(seed: int, data: dict[str, object]) -> None:
    network, oracle = network_from_data(data), Oracle(data)
    rates = random_rates(seed, oracle.fullest, list(network.inputs))
    wanted, lp = oracle.optimum(rates), Lp(network)
    if wanted is None:
        with pytest.raises(NetworkError):
            lp.plan(rates)
        return
    plan = lp.plan(rates)
    assert (plan.method, plan.reason) == ("lp", None), seed
    assert plan.objective == pytest.approx(wanted, abs=1e-6, rel=1e-6), seed
    assert check(network, plan) == (), seed
    assert _bound(lp, rates) == pytest.approx(wanted, abs=1e-6, rel=1e-6), seed


def _bound(lp: Lp, rates: dict[str, float]) -> float:
    """Return what the dual solutions say that the value is at most."""
    total = 0.0
    for fragment in lp.fragments:
        vector = fragment.program.rate_vector(rates)
        found = fragment.optimum(vector)
        assert isinstance(found, Optimum)
        constant, by_rate = found.basis.bound()
        total += constant + float(by_rate @ vector)
    return total


def test_networks_survive_being_written_as_data() -> None:
    for seed in range(40):
        network = network_from_data(random_network(seed, floors=True, never=True))
        assert network_from_data(network_data(network)) == network


def test_a_seed_gives_the_same_network_in_every_process() -> None:
    """Sets of names are in another order in every process; a network must not depend on it."""
    code = "from tests.shed.random_network import random_network as made; print(made(7), made(8))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert told == {f"{random_network(7)} {random_network(8)}\n"}
