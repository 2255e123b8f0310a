"""An index of plans for a whole network: one per fragment, and what all methods have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evenflow.errors import InternalError, NetworkError
from evenflow.shed.check import Checker
from evenflow.shed.gate import network_gates
from evenflow.shed.method import method_named
from evenflow.shed.network_data import network_data, network_from_data
from evenflow.shed.network_fault import number_fault
from evenflow.shed.plan import joined_plan
from evenflow.shed.propagate import checked_rates
from evenflow.shed.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.shed.method import FragmentIndex
    from evenflow.shed.network import Network
    from evenflow.shed.plan import SheddingPlan

EVERYWHERE = Workload()
_ROUNDING = 1e-9


class PlanIndex:
    """Plans for all rates. Every plan is checked before it leaves."""

    def __init__(
        self,
        network: Network,
        method: str,
        max_rates: Mapping[str, float],
        epsilon: float,
        parts: Sequence[FragmentIndex],
        *,
        restored: bool = False,
    ) -> None:
        """Keep it.

        Args:
            network: What is planned for.
            method: Its name.
            max_rates: The greatest rates to plan for.
            epsilon: Share of the optimal value that a plan may miss.
            parts: One for each fragment.
            restored: They come from data: a plan that does not fit is the fault of those.
        """
        self.network = network
        self.method = method
        self.max_rates = dict(max_rates)
        self.epsilon = epsilon
        self.parts = tuple(parts)
        self._restored = restored
        self._unlimited = method_named(method).unlimited
        self._checker = Checker(network)
        self._input_gates = [g for g in network_gates(network) if g.on_input]

    def select(self, rates: Mapping[str, float]) -> SheddingPlan:
        """Return the plan for given rates. Rates above the greatest are first scaled down to them.

        Raises:
            NetworkError: A rate is wrong; or the plan was read, and does not pass its check.
            InternalError: The plan was made here, and does not pass its check.
        """
        rates = checked_rates(self.network, rates)
        limited = rates
        if not self._unlimited:
            limited = {name: min(rate, self.max_rates[name]) for name, rate in rates.items()}
        plan = joined_plan(self.network, [part.select(limited) for part in self.parts])
        if plan.plan is not None and all(kept == 1.0 for kept in plan.keep.values()):
            plan = replace(plan, plan=None)
        if limited != rates:
            plan = self._scaled(plan, rates)
        faults = self._checker.faults(plan)
        if faults:
            told = f"plan {plan.plan} of {self.method}: {faults[0]}"
            if self._restored:
                raise NetworkError("plans.invalid", told, (), "make the plans again")
            raise InternalError(told)
        return plan

    def report(self) -> dict[str, Any]:
        """Return what is worth telling; numbers of fragments are added, the error is the worst.

        If more than epsilon may be missed, `why` says what for.
        """
        told: dict[str, Any] = {"method": self.method}
        for part in self.parts:
            for key, value in part.report().items():
                if key not in told:
                    told[key] = value
                elif key == "error":
                    told[key] = max(told[key], value)
                else:
                    told[key] += value
        missed = told.get("expected_error", told.get("error", 0.0))
        if missed > self.epsilon * (1 + _ROUNDING):
            told["why"] = method_named(self.method).limit
        return told

    def data(self) -> dict[str, Any]:
        """Return everything, as JSON knows it."""
        return {
            "method": self.method,
            "epsilon": self.epsilon,
            "max": self.max_rates,
            "network": network_data(self.network),
            "parts": [part.data() for part in self.parts],
        }

    def _scaled(self, plan: SheddingPlan, rates: Mapping[str, float]) -> SheddingPlan:
        keep = dict(plan.keep)
        for gate in self._input_gates:
            if rates[gate.producer] > plan.rates[gate.producer]:
                keep[gate.name] *= plan.rates[gate.producer] / rates[gate.producer]
        return self._checker.plan_of(rates, keep, plan.method, plan.plan, plan.reason)


def make_index(
    network: Network,
    method: str,
    max_rates: Mapping[str, float],
    epsilon: float,
    workload: Workload = EVERYWHERE,
) -> PlanIndex:
    """Plan ahead.

    Raises:
        NetworkError: Rates or epsilon are wrong, or the method cannot plan for the network.
    """
    maker = method_named(method)
    max_rates = checked_rates(network, max_rates, "max")
    _check_epsilon(epsilon)
    parts = []
    share = epsilon / len(network.fragments) if maker.additive else epsilon
    for each in network.fragments:
        own = {name: max_rates[name] for name in each.inputs}
        parts.append(maker.plan(each, own, share, workload))
    return PlanIndex(network, method, max_rates, epsilon, parts)


def index_from_data(data: Mapping[str, Any]) -> PlanIndex:
    """Return the index that data was made from.

    Raises:
        NetworkError: It is not such data.
    """
    try:
        network = network_from_data(data["network"])
        maker = method_named(data["method"])
        max_rates = checked_rates(network, data["max"], "max")
        epsilon = data["epsilon"]
        _check_epsilon(epsilon)
        parts = []
        for each, part in zip(network.fragments, data["parts"], strict=True):
            own = {name: max_rates[name] for name in each.inputs}
            parts.append(maker.restore(each, own, part))
        return PlanIndex(network, data["method"], max_rates, epsilon, parts, restored=True)
    except NetworkError:
        raise
    except _WRONG as exc:
        raise NetworkError("plans.invalid", "these are no plans") from exc


_WRONG = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)
"""What reading data of another shape than ours comes to."""


def _check_epsilon(epsilon: float) -> None:
    fault = number_fault(epsilon, ("epsilon",), most=1.0)
    if fault is None and not 0 < epsilon < 1:
        fault = NetworkError("number.invalid", "must be above 0 and below 1", ("epsilon",))
    if fault is not None:
        raise fault
