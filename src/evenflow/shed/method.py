"""Methods of planning ahead: what each makes for a fragment, and which there are.

To add one: a class with the members of `Method`, and a line in `METHODS`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.network import Network
    from evenflow.shed.plan import SheddingPlan
    from evenflow.shed.workload import Workload

METHODS = {
    "c-fit": "evenflow.shed.fit.fit_method:CentralFitMethod",
    "d-fit": "evenflow.shed.fit.fit_method:DistributedFitMethod",
    "exact": "evenflow.shed.linear.exact_index:ExactMethod",
    "solver": "evenflow.shed.region.region_index:SolverMethod",
    "solver-w": "evenflow.shed.region.region_index:WeightedSolverMethod",
}
"""Where each is defined. It is loaded when it is asked for."""


class FragmentIndex(Protocol):
    """Plans of one fragment for all rates up to a maximum."""

    def select(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the plan to use. Rates are of all its inputs, and perhaps of others."""
        ...

    def data(self) -> dict[str, Any]:
        """Return what is needed to have it again, as JSON knows it."""
        ...

    def report(self) -> dict[str, Any]:
        """Return `plans`, how many there are, `lp_calls`, and whatever else is worth telling."""
        ...


class Method(Protocol):
    """A way of planning ahead."""

    unlimited: bool
    """Its plans hold above the maximum rates too, so that rates need not be scaled down to them."""

    additive: bool
    """What fragments miss adds up, so that each may miss its part of epsilon only."""

    limit: str
    """Why it may miss more than epsilon."""

    def plan(
        self,
        network: Network,
        max_rates: Mapping[str, float],
        epsilon: float,
        workload: Workload,
    ) -> FragmentIndex:
        """Return an index for a network of one fragment.

        Args:
            network: One fragment.
            max_rates: The greatest rates to plan for, of all its inputs.
            epsilon: Share of the optimal value that a plan may miss, below 1.
            workload: How likely rates are, for methods that want to know.

        Raises:
            NetworkError: The method cannot plan for such a network.
        """
        ...

    def restore(
        self, network: Network, max_rates: Mapping[str, float], data: Mapping[str, Any]
    ) -> FragmentIndex:
        """Return the index that data was made from."""
        ...


def method_named(name: str) -> Method:
    """Return a method.

    Raises:
        NetworkError: There is none of that name.
    """
    place = METHODS.get(name)
    if place is None:
        raise NetworkError(
            "method.unknown", f"method {name[:40]} is not known", (), f"use {', '.join(METHODS)}"
        )
    module, _, attribute = place.partition(":")
    method: Method = getattr(importlib.import_module(module), attribute)()
    return method
