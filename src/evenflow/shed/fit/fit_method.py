"""`c-fit` and `d-fit` as methods of planning ahead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.shed.check import Checker
from evenflow.shed.fit.central import FitIndex, c_fit
from evenflow.shed.fit.coarseness import SMALLEST
from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.exchange.distributed import DistributedIndex, d_fit
from evenflow.shed.fit.tree import MOST_ENTRIES, entries_in, share_kept, trees_of
from evenflow.shed.fit.tree_data import tree_data, tree_from_data
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.shed.fit.tree import PlannedTree
    from evenflow.shed.network import Network
    from evenflow.shed.plan import SheddingPlan
    from evenflow.shed.program import Numbers, Program
    from evenflow.shed.workload import Workload


class _Tables(Protocol):
    """What both indexes have."""

    @property
    def trees(self) -> Sequence[PlannedTree]: ...

    def flows(self, rates: Numbers) -> tuple[Numbers, int | str | None]: ...


class _FitMethod(ABC):
    """What both methods have in common; each has its own way to make tables."""

    unlimited = False
    additive = False
    limit = (
        f"tables hold {MOST_ENTRIES:,} entries at most and losses of {SMALLEST} at least, "
        "and are coarser than it asks for"
    )

    def plan(
        self,
        network: Network,
        max_rates: Mapping[str, float],
        epsilon: float,
        workload: Workload,  # noqa: ARG002  # all rates count alike
    ) -> FitMethodIndex:
        """Make tables, from the leaves up."""
        program = program_of(network)
        tables = self._made(program, program.rate_vector(max_rates), epsilon)
        return FitMethodIndex(program, tables, epsilon)

    def restore(
        self, network: Network, max_rates: Mapping[str, float], data: Mapping[str, Any]
    ) -> FitMethodIndex:
        """Return the tables that data was made from."""
        program, epsilon = program_of(network), float(data["epsilon"])
        most = program.rate_vector(max_rates)
        return FitMethodIndex(program, self._restored(program, most, epsilon, data), epsilon)

    @abstractmethod
    def _made(self, program: Program, max_rates: Numbers, epsilon: float) -> _Tables: ...

    @abstractmethod
    def _restored(
        self, program: Program, max_rates: Numbers, epsilon: float, data: Mapping[str, Any]
    ) -> _Tables: ...


class CentralFitMethod(_FitMethod):
    """One place plans for all nodes. Inputs that are alike are planned as one."""

    def _made(self, program: Program, max_rates: Numbers, epsilon: float) -> _Tables:
        return c_fit(program, max_rates, epsilon)

    def _restored(
        self, program: Program, max_rates: Numbers, epsilon: float, data: Mapping[str, Any]
    ) -> _Tables:
        index = FitIndex(program, max_rates)
        for nodes, each in zip(trees_of(index.parts), data["trees"], strict=True):
            limits = index.limits(nodes[0])
            index.add(tree_from_data(index.parts, nodes, limits, epsilon, each))
        return index


class DistributedFitMethod(_FitMethod):
    """Every node plans for itself and its subtree, by messages between neighbours."""

    def _made(self, program: Program, max_rates: Numbers, epsilon: float) -> _Tables:
        return d_fit(program, max_rates, epsilon)

    def _restored(
        self, program: Program, max_rates: Numbers, epsilon: float, data: Mapping[str, Any]
    ) -> _Tables:
        parts = cut(program, "d-fit")
        supplied = program.supply @ max_rates
        by_gate = {g.name: float(rate) for g, rate in zip(program.gates, supplied, strict=True)}
        trees = [
            tree_from_data(parts, nodes, by_gate, epsilon, each)
            for nodes, each in zip(trees_of(parts), data["trees"], strict=True)
        ]
        return DistributedIndex(program, max_rates, trees)


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
        is_open = all(kept == 1.0 for kept in keep.values())
        return self._checker.plan_of(own, keep, "open" if is_open else "entry", entry)

    def data(self) -> dict[str, Any]:
        """Return all tables."""
        return {
            "epsilon": self._epsilon,
            "trees": [tree_data(tree) for tree in self.tables.trees],
        }

    def report(self) -> dict[str, Any]:
        """Return how many entries there are, and what is missed at most: 1 if nothing is sure."""
        return {
            "plans": entries_in(self.tables.trees),
            "lp_calls": 0,
            "error": 1.0 - share_kept(self.tables.trees),
            "trials": sum(len(tree.trials) for tree in self.tables.trees),
        }
