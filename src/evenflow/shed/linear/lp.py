"""One optimal plan for given rates, by the linear program of section 3.

Every plan is checked before it leaves. If the solver fails, is slow, or its plan does not pass, a
safe plan is given instead, with the reason: the uniform one, or where none fits the even one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import InternalError, NetworkError
from evenflow.shed.check import Checker
from evenflow.shed.linear.even import even_flows
from evenflow.shed.linear.highs import HighsSolver
from evenflow.shed.linear.optimum import OptimumSearch
from evenflow.shed.linear.solver import Trouble
from evenflow.shed.linear.standard import standard_form
from evenflow.shed.linear.uniform import Uniform
from evenflow.shed.plan import joined_plan
from evenflow.shed.program import ROUNDING, program_of
from evenflow.shed.propagate import checked_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.shed.linear.optimum import Optimum
    from evenflow.shed.linear.solver import Solver
    from evenflow.shed.network import Network
    from evenflow.shed.plan import SheddingPlan
    from evenflow.shed.program import Numbers, Program

SECONDS = 1.0
"""Time limit of a plan of a fragment. Programs of hundreds of gates take milliseconds."""
SECONDS_AHEAD = 30.0
"""The same where plans are made ahead, and nobody waits for one."""

DUALITY_GAP = 1e-8
"""How far below the bound of its duals a plan may be, relatively, for rounding."""

FAR = 1e6
"""How many times what fills a node is so far above it that more makes no difference."""

_TOLD = {
    Trouble.INFEASIBLE: "the solver found nothing that fits, which is wrong",
    Trouble.SLOW: "the solver was slow",
    Trouble.FAILED: "the solver failed",
}


class Lp:
    """Optimal plans for one network. Fragments are solved apart; models are kept."""

    def __init__(
        self,
        network: Network,
        seconds: float = SECONDS,
        solver: Callable[[Numbers, float], Solver] = HighsSolver,
    ) -> None:
        self.network = network
        self.fragments = [FragmentLp(each, seconds, solver) for each in network.fragments]

    def plan(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return a plan of the greatest value; the one that is asked for first among equals.

        Raises:
            NetworkError: A rate is wrong; or no gates make the load fit, because of floors or
                of operators before which nothing may be dropped.
        """
        rates = checked_rates(self.network, rates)
        return joined_plan(self.network, (each.plan(rates) for each in self.fragments))

    def uniform(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return one fraction for all inputs of each fragment that fits, floors kept.

        Raises:
            NetworkError: A rate is wrong, or no such fraction fits.
        """
        rates = checked_rates(self.network, rates)
        return joined_plan(self.network, [each.uniform(rates) for each in self.fragments])


class FragmentLp:
    """Optimal plans for one fragment."""

    def __init__(
        self,
        network: Network,
        seconds: float = SECONDS,
        solver: Callable[[Numbers, float], Solver] = HighsSolver,
    ) -> None:
        self.network = network
        self.program = program_of(network)
        self.form = standard_form(self.program)
        self.checker = Checker(network)
        self._uniform = Uniform(self.program, self.checker)
        rows = self.form.matrix[:, : self.form.flows]
        self._search = OptimumSearch(self.form, solver(rows, seconds))
        self._beyond = _rates_beyond(self.program)
        self.calls = 0
        """How often the solver was asked for an optimum."""

    def plan(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the optimal plan, or a safe one with the reason."""
        own = {name: rates[name] for name in self.program.inputs}
        vector = self.program.rate_vector(own)
        found = self.optimum(vector)
        if isinstance(found, Trouble):
            return self.fallback(own, found)
        keep = self.program.keep(found.flows, vector)
        return self.told(self.checker.plan_of(own, keep, "lp"), found, vector)

    def told(self, plan: SheddingPlan, found: Optimum, rates: Numbers) -> SheddingPlan:
        """Return a plan that passes its check, or else a safe one; if a better one may be, say so.

        Args:
            plan: With the flows of an optimum.
            found: The optimum.
            rates: Those it was asked for.
        """
        plan = self.checked(plan)
        if plan.reason is not None or not np.all(rates <= self._beyond):
            return plan
        constant, prices = found.basis.bound()
        most = constant + float(prices @ rates)
        # Not "below": what is no number proves nothing.
        if plan.objective >= most * (1 - DUALITY_GAP) - ROUNDING:
            return plan
        return replace(
            plan, reason=f"it is not proved that no more than {plan.objective:g} is possible"
        )

    def optimum(self, rates: Numbers) -> Optimum | Trouble:
        """Return the optimal flows, or why there are none."""
        self.calls += 1
        if np.all(rates <= self._beyond):
            return self._search.find(rates)
        lower = np.minimum(rates, self._beyond)
        found = self._search.find(lower)
        if isinstance(found, Trouble):
            return found
        # What loads nothing is kept whole, however much it is; other flows do not change.
        program = self.program
        more = program.loads_nothing * (program.supply @ (rates - lower))
        return replace(found, flows=found.flows + program.opened @ more)

    def checked(self, plan: SheddingPlan) -> SheddingPlan:
        """Return a plan that passes its check, or else a safe one."""
        faults = self.checker.faults(plan)
        return plan if not faults else self.fallback(plan.rates, faults[0])

    def fallback(self, rates: Mapping[str, float], why: Trouble | str) -> SheddingPlan:
        """Return a safe plan: the uniform one, or where none fits the even one.

        Raises:
            NetworkError: There is none because nothing fits.
            InternalError: There is none, although something may fit.
        """
        reason = why if isinstance(why, str) else _TOLD[why]
        plan = self._safe(rates)
        if not isinstance(plan, Trouble):
            return replace(plan, reason=reason)
        if Trouble.INFEASIBLE in (why, plan):
            raise self._nothing_fits(rates)
        raise InternalError(f"no plan: {reason}, and no safe plan was found")

    def _safe(self, rates: Mapping[str, float]) -> SheddingPlan | Trouble:
        plan = self._uniform.plan(rates)
        if plan is not None and not self.checker.faults(plan):
            return plan
        even = self._even(rates)
        if isinstance(even, Trouble):
            return even
        return Trouble.FAILED if self.checker.faults(even) else even

    def uniform(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the uniform plan, because it is asked for.

        Raises:
            NetworkError: No uniform drop fits.
        """
        own = {name: rates[name] for name in self.program.inputs}
        plan = self._uniform.plan(own)
        if plan is None and self._even(own) is Trouble.INFEASIBLE:
            raise self._nothing_fits(own)
        if plan is None:
            raise NetworkError(
                "uniform.none",
                "no uniform drop fits at these rates: floors or shed: never need other shares "
                "of inputs, or gates at splits",
                (),
                "use lp",
            )
        if faults := self.checker.faults(plan):
            raise InternalError(f"the uniform drop does not fit: {faults[0]}")
        return plan

    def _even(self, rates: Mapping[str, float]) -> SheddingPlan | Trouble:
        vector = self.program.rate_vector(rates)
        flows = even_flows(self.form, vector)
        if isinstance(flows, Trouble):
            return flows
        return self.checker.plan_of(rates, self.program.keep(flows, vector), "even")

    def _nothing_fits(self, rates: Mapping[str, float]) -> NetworkError:
        program = self.program
        must = np.array([float(gate.open) for gate in program.gates])
        load = program.load @ (must * (program.supply @ program.rate_vector(rates)))
        for name, needed, capacity in zip(program.nodes, load, program.capacity, strict=True):
            if needed > capacity:
                return NetworkError(
                    "never.overload",
                    f"tuples that must not be dropped need {needed:g}, its capacity is "
                    f"{capacity:g}",
                    ("nodes", name, "capacity"),
                    "fewer operators with shed: never, or more capacity",
                )
        floors = [name for name, query in self.network.queries.items() if query.floor > 0]
        return NetworkError(
            "floors.unmet",
            f"floors cannot be met together at these rates: {', '.join(floors)}",
            ("queries",),
            "lower them, or give the nodes more capacity",
        )


def _rates_beyond(program: Program) -> Numbers:
    """Return by input the rate above which more of it changes no flow that loads a node.

    Flows behind its gates are limited by what nodes can carry, so that a rate far above that may be
    taken for a smaller one: numbers stay near to 1, where rounding is small. There is no such rate
    if a floor grows with the input, or if a gate of it loads nothing before others do.
    """
    least = np.full(program.load.shape, np.inf)
    np.divide(program.capacity[:, None], program.load, out=least, where=program.load > 0.0)
    most = np.maximum(np.min(least, axis=0, initial=np.inf), program.filling)
    most = np.where(program.loads_nothing, program.filling, most)
    floors = program.floor > 0.0
    by_input = np.max(np.where(program.supply > 0.0, most[:, None], 0.0), axis=0, initial=0.0)
    grows = np.any(program.unit_throughput[floors] > 0.0, axis=0)
    found: Numbers = np.where(grows, np.inf, by_input * FAR)
    return found
