"""Shedding plans: fractions to keep, for the rates they were made for, and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from evenflow.shed.network import Network


@dataclass(frozen=True, kw_only=True)
class SheddingPlan:
    """A set of gates, with the input rates it was made for."""

    rates: Mapping[str, float]
    keep: Mapping[str, float]
    """By gate: the fraction of what comes to it that passes; 1 where nothing comes."""
    objective: float
    """Sum of throughputs, each times the weight of its query."""
    load: Mapping[str, float]
    """By node."""
    throughput: Mapping[str, float]
    """By query, in tuples per second."""
    method: str
    """What made it: `lp`, `uniform`, `even`, `open` where nothing needs to be dropped, or an
    index."""
    plan: int | str | None = None
    """Its number in an index; those of all fragments if there are several, as 3+17 or 3+-."""
    reason: str | None = None
    """Why it is not what was asked for: the solver was slow or failed."""

    def report(self) -> dict[str, Any]:
        """Return it as plain data."""
        told: dict[str, Any] = {
            "objective": self.objective,
            "keep": dict(self.keep),
            "load": dict(self.load),
            "throughput": dict(self.throughput),
        }
        if self.plan is not None:
            told["plan"] = self.plan
        if self.reason is not None:
            told["fallback"] = self.reason
        return told


def joined_plan(network: Network, parts: Iterable[SheddingPlan]) -> SheddingPlan:
    """Return one plan for a network from those of its fragments."""
    parts = list(parts)
    if len(parts) == 1 and len(parts[0].load) == len(network.nodes):
        return parts[0]
    rates = {name: rate for part in parts for name, rate in part.rates.items()}
    load = {name: load for part in parts for name, load in part.load.items()}
    throughput = {name: rate for part in parts for name, rate in part.throughput.items()}
    numbers = ["-" if part.plan is None else str(part.plan) for part in parts]
    return SheddingPlan(
        rates={name: rates[name] for name in network.inputs},
        keep={name: kept for part in parts for name, kept in part.keep.items()},
        objective=sum(part.objective for part in parts),
        # A node that runs nothing is in no fragment.
        load={name: load.get(name, 0.0) for name in network.nodes},
        throughput={name: throughput[name] for name in network.queries},
        method=" and ".join(sorted({part.method for part in parts})),
        plan=None if all(each == "-" for each in numbers) else "+".join(numbers),
        reason="; ".join(part.reason for part in parts if part.reason is not None) or None,
    )
