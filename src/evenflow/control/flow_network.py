"""The load model of a flow as a network for planners.

One node: the process. Reading is an operator before which nothing may be dropped (`shed: never`).
It stands beside the families, not before them, because gates are on input arcs and arcs of splits:
a unit with a single family would have no gate behind its reading.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.control.model import FlowModel, Part, UnitModel

NODE = "process"
MOST_NAME = 48


@dataclass(frozen=True, kw_only=True)
class Terms:
    """In which terms a unit stands in a network."""

    input: str
    """The stream it reads."""
    worth: float = 1.0
    """What weights of its queries, for what they give of a tuple, are multiplied by."""
    selectivities: Mapping[str, float] = field(default_factory=dict)
    """By query; 1 if not given."""


@dataclass(frozen=True, kw_only=True)
class FlowNetwork:
    """A network, and whose outputs are whose."""

    network: Network
    outputs: Mapping[str, tuple[str, str]]
    """By query of the network: the query of the flow that it is a part of, and its unit."""

    def keep(self, throughput: Mapping[str, float], full: Mapping[str, float]) -> dict[str, float]:
        """Return fractions by query of the flow.

        A query that runs in several units has one gate: the smallest of theirs, which is safe.

        Args:
            throughput: By query of the network.
            full: By unit: what throughputs would be without drops.
        """
        kept: dict[str, float] = {}
        for name, (query, unit) in self.outputs.items():
            share = 1.0 if full[unit] <= 0 else min(1.0, throughput[name] / full[unit])
            kept[query] = min(kept.get(query, 1.0), share)
        return kept


def flow_network(model: FlowModel, terms: Mapping[str, Terms], capacity: float) -> FlowNetwork:
    """Return the network of some units.

    Args:
        model: The flow.
        terms: By unit; units without terms are left out.
        capacity: Of the one node.

    Raises:
        NetworkError: There is nothing in it.
    """
    return _Builder(model, terms).build(capacity)


def _several(unit: UnitModel) -> dict[str, Part]:
    """Return queries that have several parts in a unit, as a UNION ALL has, each as one part.

    They have one fraction: a planner with a gate for each part would open the cheaper one, and the
    query would keep nothing. Rows that it shares with others are theirs; those that are its own
    are added.
    """
    found: dict[str, Part] = {}
    times: Counter[str] = Counter()
    for family in unit.families:
        for part in family.parts:
            times[part.query] += 1
            own = part.own + (family.row if len(family.parts) == 1 else 0.0)
            before = found.get(part.query)
            found[part.query] = replace(part, own=own + (before.own if before else 0.0))
    return {name: part for name, part in found.items() if times[name] > 1}


class _Builder:
    """Names operators so that nothing is named twice."""

    def __init__(self, model: FlowModel, terms: Mapping[str, Terms]) -> None:
        self._model = model
        self._terms = terms
        self._units = Counter(
            name
            for unit in model.units
            for name in {p.query for f in unit.families for p in f.parts}
        )
        """In how many units each query is: each of them gives a part of its value."""
        self._taken = {part.query for part in model.parts()} | {t.input for t in terms.values()}
        self._operators: dict[str, Operator] = {}
        self._queries: dict[str, Query] = {}
        self._outputs: dict[str, tuple[str, str]] = {}

    def build(self, capacity: float) -> FlowNetwork:
        for unit in self._model.units:
            if unit.id in self._terms:
                self._add_unit(unit, self._terms[unit.id])
        network = Network(
            nodes={NODE: Node(capacity=capacity)}, operators=self._operators, queries=self._queries
        )
        return FlowNetwork(network=network, outputs=self._outputs)

    def _add_unit(self, unit: UnitModel, terms: Terms) -> None:
        self._operator(f"read-{unit.id}", terms.input, unit.reading, never=True)
        before = terms.input
        if unit.trunk > 0:
            before = self._operator(f"trunk-{unit.id}", terms.input, unit.trunk)
        several = _several(unit)
        for family in unit.families:
            parts = [part for part in family.parts if part.query not in several]
            if parts:
                name = f"rows-of-{parts[0].query}"
                row = self._operator(name, before, family.row)
                for part in parts:
                    self._add_part(unit, part, row, terms)
        for part in several.values():
            self._add_part(unit, part, before, terms)

    def _add_part(self, unit: UnitModel, part: Part, row: str, terms: Terms) -> None:
        output = self._operator(
            f"{part.query}-{unit.id}",
            row,
            part.own,
            kind=OperatorKind.AGGREGATE,
            never=part.never,
            selectivity=terms.selectivities.get(part.query, 1.0),
        )
        name = part.query if part.query not in self._queries else self._fresh(part.query)
        # A query that takes nothing gives nothing, whatever its weight.
        gives = terms.selectivities.get(part.query, 1.0) or 1.0
        weight = part.weight / self._units[part.query] * terms.worth / gives
        self._queries[name] = Query(output=output, weight=weight, floor=part.floor)
        self._outputs[name] = (part.query, unit.id)

    def _operator(
        self,
        name: str,
        before: str,
        cost: float,
        *,
        kind: OperatorKind = OperatorKind.FILTER,
        never: bool = False,
        selectivity: float = 1.0,
    ) -> str:
        name = self._fresh(name)
        self._operators[name] = Operator(
            node=NODE,
            inputs=(before,),
            cost=cost,
            selectivity=selectivity,
            kind=kind,
            never=never,
        )
        return name

    def _fresh(self, name: str) -> str:
        name = made = name[:MOST_NAME]
        number = 1
        while made in self._taken:
            number += 1
            made = f"{name}_{number}"
        self._taken.add(made)
        return made
