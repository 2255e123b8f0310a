"""`c-fit` and `d-fit` as methods of planning ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from evenflow.errors import NetworkError
from evenflow.shed.check import Checker
from evenflow.shed.fit.central import c_fit
from evenflow.shed.fit.coarseness import Trial
from evenflow.shed.fit.exchange.distributed import DistributedIndex, d_fit
from evenflow.shed.fit.tree import plan_tree, trees_of
from evenflow.shed.plan import SheddingPlan
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.shed.fit.tree import PlannedTree
    from evenflow.shed.network import Network
    from evenflow.shed.program import Numbers, Program
    from evenflow.shed.workload import Workload


class _Tables(Protocol):
    """What both indexes have."""

    @property
    def trees(self) -> Sequence[PlannedTree]: ...

    @property
    def entries(self) -> int: ...

    @property
    def kept(self) -> float: ...

    def flows(self, rates: Numbers) -> tuple[Numbers, int | None]: ...


class CentralFitMethod:
    """One place plans for all nodes. Inputs that are alike are planned as one."""

    unlimited = False
    additive = False

    def plan(
        self,
        network: Network,
        max_rates: Mapping[str, float],
        epsilon: float,
        workload: Workload,  # noqa: ARG002  # all rates count alike
    ) -> FitMethodIndex:
        """Make tables from the leaves up."""
        program = program_of(network)
        tables = c_fit(program, program.rate_vector(max_rates), epsilon)
        return FitMethodIndex(program, tables, epsilon)

    def restore(
        self, network: Network, max_rates: Mapping[str, float], data: Mapping[str, Any]
    ) -> FitMethodIndex:
        """Make the tables again that data was made from."""
        program = program_of(network)
        rates, epsilon = program.rate_vector(max_rates), float(data["epsilon"])
        tables = c_fit(program, rates, epsilon, trials=_trials(data))
        return FitMethodIndex(program, tables, epsilon).checked(data)


class DistributedFitMethod:
    """Every node plans for itself and its subtree, by messages between neighbours."""

    unlimited = False
    additive = False

    def plan(
        self,
        network: Network,
        max_rates: Mapping[str, float],
        epsilon: float,
        workload: Workload,  # noqa: ARG002  # all rates count alike
    ) -> FitMethodIndex:
        """Let a core for each node exchange messages until all are answered."""
        program = program_of(network)
        tables = d_fit(program, program.rate_vector(max_rates), epsilon)
        return FitMethodIndex(program, tables, epsilon)

    def restore(
        self, network: Network, max_rates: Mapping[str, float], data: Mapping[str, Any]
    ) -> FitMethodIndex:
        """Make the tables again that data was made from, in one place: they are the same."""
        program = program_of(network)
        rates, epsilon = program.rate_vector(max_rates), float(data["epsilon"])
        index = DistributedIndex(program, rates, ())
        supplied = program.supply @ rates
        by_gate = {g.name: float(rate) for g, rate in zip(program.gates, supplied, strict=True)}
        trees = [
            plan_tree(index.parts, nodes, by_gate, epsilon, trials=before)
            for nodes, before in zip(trees_of(index.parts), _trials(data), strict=True)
        ]
        return FitMethodIndex(program, DistributedIndex(program, rates, trees), epsilon).checked(
            data
        )


class FitMethodIndex:
    """Plans of one fragment from tables."""

    def __init__(self, program: Program, tables: _Tables, epsilon: float) -> None:
        self.tables = tables
        self._program = program
        self._epsilon = epsilon
        self._checker = Checker(program.network)

    def select(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the plan of the best entry below the rates; open gates where those fit."""
        own = {name: rates[name] for name in self._program.inputs}
        vector = self._program.rate_vector(own)
        flows, entry = self.tables.flows(vector)
        keep = self._program.keep(flows, vector)
        objective, load, throughput = self._checker.told(own, keep)
        is_open = all(kept == 1.0 for kept in keep.values())
        return SheddingPlan(
            rates=own,
            keep=keep,
            objective=objective,
            load=load,
            throughput=throughput,
            method="open" if is_open else "entry",
            plan=entry,
        )

    def data(self) -> dict[str, Any]:
        """Return how the tables were made: making them again takes no longer than reading them."""
        return {
            "epsilon": self._epsilon,
            "entries": self.tables.entries,
            "trials": [
                [[trial.loss, trial.fits] for trial in tree.trials] for tree in self.tables.trees
            ],
        }

    def report(self) -> dict[str, Any]:
        """Return how many entries there are, and what is missed at most: 1 if nothing is sure."""
        return {
            "plans": self.tables.entries,
            "lp_calls": 0,
            "error": 1.0 - self.tables.kept,
            "trials": sum(len(tree.trials) for tree in self.tables.trees),
        }

    def checked(self, data: Mapping[str, Any]) -> FitMethodIndex:
        """Return itself.

        Raises:
            NetworkError: Data are of other tables.
        """
        if data["entries"] != self.tables.entries:
            raise NetworkError("plans.invalid", "the plans were made by another version")
        return self


def _trials(data: Mapping[str, Any]) -> list[tuple[Trial, ...]]:
    return [
        tuple(Trial(loss=float(loss), fits=bool(fits)) for loss, fits in tree)
        for tree in data["trials"]
    ]
