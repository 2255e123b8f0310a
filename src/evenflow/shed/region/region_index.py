"""`solver` and `solver-w`: plans for all rates from a region quadtree (sections 5.1 and 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.errors import InternalError, NetworkError
from evenflow.shed.check import Checker
from evenflow.shed.linear.exact import FragmentExact
from evenflow.shed.linear.lp import SECONDS_AHEAD
from evenflow.shed.program import program_of
from evenflow.shed.region.quadtree import Box, Division, Solution, leaves_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.shed.network import Network
    from evenflow.shed.plan import SheddingPlan
    from evenflow.shed.program import Numbers
    from evenflow.shed.workload import Workload

MOST_BOXES = 100_000
"""Where dividing ends. What is then missed at most is told as `error`."""


class _RegionMethod:
    """What both methods have in common."""

    unlimited = False
    limit = f"{MOST_BOXES:,} regions are not enough"

    def restore(
        self, network: Network, max_rates: Mapping[str, float], data: Mapping[str, Any]
    ) -> RegionIndex:
        """Return the index that data was made from."""
        return restored(network, max_rates, data)


class SolverMethod(_RegionMethod):
    """No plan misses more than epsilon of the optimal value."""

    additive = False

    def plan(
        self,
        network: Network,
        max_rates: Mapping[str, float],
        epsilon: float,
        workload: Workload,  # noqa: ARG002  # all rates count alike
        most_boxes: int = MOST_BOXES,
    ) -> RegionIndex:
        """Divide the rate space until no region misses more than epsilon."""
        optima = _SolvedOptima(_sheddable(network))
        highest = optima.exact.program.rate_vector(max_rates)
        division = Division(optima.exact.program, optima, highest, lambda _: 1.0, most_boxes)
        division.until_worst(epsilon)
        told = {"lp_calls": optima.exact.misses, "points": len(optima.known)}
        return RegionIndex(network, division.root, division.plans, told)


class WeightedSolverMethod(_RegionMethod):
    """Plans miss no more than epsilon of the optimal value on average under a workload."""

    additive = True

    def plan(
        self,
        network: Network,
        max_rates: Mapping[str, float],
        epsilon: float,
        workload: Workload,
        most_boxes: int = MOST_BOXES,
    ) -> RegionIndex:
        """Divide the rate space until errors times probabilities sum to no more than epsilon."""
        optima = _SolvedOptima(_sheddable(network))
        program = optima.exact.program
        highest = program.rate_vector(max_rates)

        def probability(box: Box) -> float:
            return workload.probability(
                program.inputs, box.low.tolist(), box.high.tolist(), highest.tolist()
            )

        division = Division(program, optima, highest, probability, most_boxes)
        division.until_expected(epsilon)
        told = {
            "lp_calls": optima.exact.misses,
            "points": len(optima.known),
            "expected_error": division.expected,
        }
        return RegionIndex(network, division.root, division.plans, told)


class RegionIndex:
    """Finds the region that rates are in, and its plan."""

    def __init__(
        self,
        network: Network,
        root: Box,
        plans: Sequence[tuple[float, ...]],
        told: Mapping[str, Any],
    ) -> None:
        self.root = root
        self.plans = plans
        self._program = program_of(network)
        self._checker = Checker(network)
        self._told = told

    def select(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the plan of the region, scaled to the rates; open gates where those fit."""
        own = {name: rates[name] for name in self._program.inputs}
        vector = np.array(list(own.values()))
        keep = [1.0] * len(self._program.gates)
        number = None
        if not self._program.fits(vector):
            box = self.box_at(vector)
            number = box.plan
            if number is not None:
                keep = self._scaled(box, self.plans[number], vector)
        gates = zip(self._program.gates, keep, strict=True)
        kept = {gate.name: fraction for gate, fraction in gates}
        return self._checker.plan_of(own, kept, "open" if number is None else "region", number)

    def box_at(self, rates: Numbers) -> Box:
        """Return the region that rates are in."""
        box = self.root
        while box.children:
            box = box.child_of(rates)
        return box

    def data(self) -> dict[str, Any]:
        """Return tree and plans; a region is a plan, null, or a list of its halves."""
        return {
            "told": dict(self._told),
            "gates": [gate.name for gate in self._program.gates],
            "plans": [list(plan) for plan in self.plans],
            "tree": _tree_data(self.root),
        }

    def report(self) -> dict[str, Any]:
        """Return how many plans and regions there are, and what is missed at most."""
        leaves = list(leaves_of(self.root))
        return {
            "plans": len(self.plans),
            "regions": len(leaves),
            "error": max(box.error for box in leaves),
            **self._told,
        }

    def _scaled(self, box: Box, plan: Sequence[float], rates: Numbers) -> list[float]:
        """Return fractions for rates that are scaled down to the lowest of the region, if not 0."""
        scale = np.divide(box.low, rates, out=np.ones_like(rates), where=box.low > 0)
        by_gate: list[float] = np.where(
            [gate.on_input for gate in self._program.gates], self._program.supply @ scale, 1.0
        ).tolist()
        return [min(1.0, kept * factor) for kept, factor in zip(plan, by_gate, strict=True)]


class _SolvedOptima:
    """Optima by `exact`, each point once."""

    def __init__(self, network: Network) -> None:
        self.exact = FragmentExact(network, SECONDS_AHEAD)
        self.known: dict[tuple[float, ...], Solution] = {}

    def at(self, rates: Numbers) -> Solution:
        """Return the optimum at given rates."""
        key = tuple(rates.tolist())
        if key not in self.known:
            self.known[key] = self._solve(rates)
        return self.known[key]

    def _solve(self, rates: Numbers) -> Solution:
        plan, bound = self.exact.select_with_bound(rates)
        if bound is None:
            raise InternalError(f"no optimum: {plan.reason}")
        return Solution(plan.objective, tuple(plan.keep.values()), *bound)


def _sheddable(network: Network) -> Network:
    """Return a network that regions can be made for.

    Scaling rates down to those of a region drops what nobody may drop, and goes below floors.
    """
    floors = [name for name, query in network.queries.items() if query.floor > 0]
    never = [name for name, operator in network.operators.items() if operator.never]
    if floors or never:
        what = f"floors ({', '.join(floors)})" if floors else f"shed: never ({', '.join(never)})"
        raise NetworkError(
            "method.unsupported", f"regions cannot keep {what}", (), "use the method exact"
        )
    return network


def _tree_data(box: Box) -> Any:
    if box.children:
        return [_tree_data(child) for child in box.children]
    return None if box.plan is None else {"plan": box.plan, "error": box.error}


def restored(
    network: Network, max_rates: Mapping[str, float], data: Mapping[str, Any]
) -> RegionIndex:
    """Return the index that data was made from."""
    program = program_of(network)
    if list(data["gates"]) != [gate.name for gate in program.gates]:
        raise NetworkError("plans.invalid", "the plans are of another network")
    plans = [_checked_plan(plan, len(program.gates)) for plan in data["plans"]]
    root = Box(np.zeros(len(program.inputs)), program.rate_vector(max_rates))
    stack = [(root, data["tree"])]
    while stack:
        box, made = stack.pop()
        if made is None:
            continue
        if isinstance(made, dict):
            box.plan, box.error = made["plan"], made["error"]
            if not (_is_number(box.error, 1.0) and type(box.plan) is int):
                raise NetworkError("plans.invalid", "a region has no plan or no error")
            if not 0 <= box.plan < len(plans):
                raise NetworkError("plans.invalid", f"there is no plan {box.plan}")
            continue
        box.children = list(box.divided())
        stack += zip(box.children, made, strict=True)
    return RegionIndex(network, root, plans, _checked_told(data["told"]))


def _checked_plan(plan: Sequence[Any], gates: int) -> tuple[float, ...]:
    if len(plan) != gates or not all(_is_number(kept, 1.0) for kept in plan):
        raise NetworkError("plans.invalid", "a plan has no fraction for each gate")
    return tuple(map(float, plan))


def _checked_told(told: Mapping[str, Any]) -> dict[str, Any]:
    if not all(_is_number(told[key], np.inf) for key in ("lp_calls", "points")):
        raise NetworkError("plans.invalid", "what was told of the plans are no numbers")
    if "expected_error" in told and not _is_number(told["expected_error"], np.inf):
        raise NetworkError("plans.invalid", "what was told of the plans are no numbers")
    return dict(told)


def _is_number(value: Any, most: float) -> bool:
    return type(value) in (int, float) and 0.0 <= value <= most
