"""One optimal plan for given rates, by the linear program of section 3.

Every plan is checked before it leaves. If the solver fails, is slow, or its plan does not pass, the
uniform plan is given instead, with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import InternalError, NetworkError
from evenflow.shed.check import Checker
from evenflow.shed.linear.highs import HighsSolver
from evenflow.shed.linear.optimum import OptimumSearch
from evenflow.shed.linear.solver import Trouble
from evenflow.shed.linear.standard import standard_form
from evenflow.shed.linear.uniform import Uniform
from evenflow.shed.plan import joined_plan
from evenflow.shed.program import program_of
from evenflow.shed.propagate import checked_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.shed.linear.optimum import Optimum
    from evenflow.shed.linear.solver import Solver
    from evenflow.shed.network import Network
    from evenflow.shed.plan import SheddingPlan
    from evenflow.shed.program import Numbers

SECONDS = 1.0
"""Time limit of a solve. Programs of hundreds of gates take milliseconds."""


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
        self.calls = 0
        """How often the solver was asked for an optimum."""

    def plan(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the optimal plan, or the uniform one with the reason."""
        own = {name: rates[name] for name in self.program.inputs}
        vector = self.program.rate_vector(own)
        found = self.optimum(vector)
        if isinstance(found, Trouble):
            return self.fallback(own, found)
        keep = self.program.keep(found.flows, vector)
        return self.checked(self.checker.plan_of(own, keep, "lp"))

    def optimum(self, rates: Numbers) -> Optimum | Trouble:
        """Return the optimal flows, or why there are none."""
        self.calls += 1
        return self._search.find(rates)

    def checked(self, plan: SheddingPlan) -> SheddingPlan:
        """Return a plan that passes its check, or else the uniform one."""
        faults = self.checker.faults(plan)
        return plan if not faults else self.fallback(plan.rates, faults[0])

    def fallback(self, rates: Mapping[str, float], why: Trouble | str) -> SheddingPlan:
        """Return the uniform plan.

        Raises:
            NetworkError: There is none because nothing fits.
            InternalError: There is none, although something may fit.
        """
        if why is Trouble.INFEASIBLE:
            raise self._nothing_fits(rates)
        reason = f"the solver was {why.value}" if isinstance(why, Trouble) else why
        plan = self._uniform.plan(rates)
        if plan is None or self.checker.faults(plan):
            raise InternalError(f"no plan: {reason}, and no uniform drop fits")
        return replace(plan, reason=reason)

    def uniform(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the uniform plan, because it is asked for.

        Raises:
            NetworkError: No uniform drop fits.
        """
        own = {name: rates[name] for name in self.program.inputs}
        plan = self._uniform.plan(own)
        if plan is None:
            raise self._nothing_fits(own)
        if faults := self.checker.faults(plan):
            raise InternalError(f"the uniform drop does not fit: {faults[0]}")
        return plan

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
