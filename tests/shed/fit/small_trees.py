"""Small random trees of nodes, from a seed: few enough flows for tables that keep a bound."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import NetworkError
from evenflow.shed.fit.cut import cut
from evenflow.shed.linear.exact import Exact
from evenflow.shed.linear.lp import Lp
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query
from evenflow.shed.program import Program, program_of

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers


def small_tree(seed: int, most_taps: int = 3) -> Network:
    """Return a network of 1 to 4 nodes and up to three outputs: chains, splits, unions, joins.

    Some operators cost nothing; in every fifth network one lets nothing through.
    """
    draw = random.Random(seed)
    nodes = [f"n{i}" for i in range(draw.randint(1, 4))]
    parent = {node: draw.choice(nodes[:i]) if i else None for i, node in enumerate(nodes)}
    operators: dict[str, Operator] = {}
    ends: list[tuple[str, str]] = []
    for i in range(draw.randint(1, 2)):
        _add(draw, operators, nodes[0], (f"in{i}",))
        ends.append((f"o{len(operators) - 1}", nodes[0]))
    for _ in range(draw.randint(0, 5)):
        name, node = draw.choice(ends)
        below = draw.choice([node, *(each for each in nodes if parent[each] == node)])
        action = draw.random()
        if action < 0.25 and len(ends) < most_taps:
            _add(draw, operators, below, (name,))
            ends.append((f"o{len(operators) - 1}", below))
            continue
        inputs: tuple[str, ...] = (name,)
        others = [each for each in ends if each[1] == node and each[0] != name]
        if action < 0.5 and others:
            other = draw.choice(others)
            ends.remove(other)
            inputs = (name, other[0])
        ends.remove((name, node))
        _add(draw, operators, below, inputs)
        ends.append((f"o{len(operators) - 1}", below))
    if seed % 5 == 3:
        name = random.Random(f"nothing {seed}").choice(sorted(operators))
        operators[name] = replace(operators[name], selectivity=0.0)
    return Network(
        nodes={node: Node(capacity=draw.choice([0.5, 1.0, 2.0])) for node in nodes},
        operators=operators,
        queries={
            f"q{i}": Query(output=name, weight=draw.choice([0.5, 1.0, 2.0]))
            for i, name in enumerate(sorted({name for name, _ in ends}))
        },
    )


def _add(
    draw: random.Random, operators: dict[str, Operator], node: str, inputs: tuple[str, ...]
) -> None:
    kind, selectivity = OperatorKind.FILTER, draw.choice([0.5, 1.0, 1.0, 1.5])
    windows: tuple[float, ...] = ()
    if len(inputs) == 2:
        kind = draw.choice([OperatorKind.UNION, OperatorKind.JOIN])
        selectivity = 1.0
    if kind is OperatorKind.JOIN:
        windows, selectivity = (draw.choice([1.0, 2.0, 4.0]), 2.0), 0.25
    operators[f"o{len(operators)}"] = Operator(
        node=node,
        inputs=inputs,
        cost=draw.choice([0.0, 0.5, 1.0, 2.0, round(draw.uniform(0.1, 3.0), 3)]),
        selectivity=selectivity,
        kind=kind,
        windows=windows,
    )


def with_lower_input(network: Network) -> Network:
    """Return a network that has one more input, at the last of its nodes that has operators."""
    node = max(each.node for each in network.operators.values())
    lower = Operator(node=node, inputs=("lower",), cost=1.0)
    return replace(
        network,
        operators={**network.operators, "lowest": lower},
        queries={**network.queries, "low": Query(output="lowest")},
    )


def changed_tree(network: Network, draw: random.Random, moving: float = 0.35) -> Network:
    """Return a network in which one operator costs or lets through something else, or has moved.

    Args:
        network: As it was.
        draw: Where chance comes from.
        moving: Share of changes that are moves: to a node that feeds that of the operator or is fed
            by it, where tables can still be made.
    """
    action = draw.random()
    name = draw.choice(sorted(network.operators))
    operator = network.operators[name]
    if action < moving:
        moved = [
            with_operators(network, {name: replace(operator, node=node)})
            for node in _neighbours(network, operator.node)
        ]
        able = [each for each in moved if can_be_cut(each)]
        if able:
            return draw.choice(able)
    share = draw.uniform(0.75, 1.35)
    if draw.random() < 0.5:
        return with_operators(network, {name: replace(operator, cost=operator.cost * share)})
    selectivity = operator.selectivity * share
    return with_operators(network, {name: replace(operator, selectivity=selectivity)})


def with_operators(network: Network, changed: dict[str, Operator]) -> Network:
    """Return a network in which some operators are others."""
    return replace(network, operators={**network.operators, **changed})


def _neighbours(network: Network, node: str) -> list[str]:
    pairs = {
        (network.operators[name].node, each.node)
        for each in network.operators.values()
        for name in each.inputs
        if name in network.operators
    }
    return sorted(
        {one for one, other in pairs if other == node} | {b for a, b in pairs if a == node}
    )


def rates_around(program: Program, seed: int, count: int) -> Numbers:
    """Return rates of which half bring the fullest node to 1.0 to 1.3 of its capacity."""
    draw = np.random.default_rng(seed)
    found = draw.exponential(1.0, (count, len(program.inputs)))
    found *= draw.choice([0.0, 0.05, 1.0, 1.0], found.shape)
    full = np.max(found @ program.unit_load.T / program.capacity, axis=1)
    wanted = np.where(
        np.arange(count) % 2, draw.uniform(1.0, 1.3, count), draw.uniform(0, 6, count)
    )
    scale = np.divide(wanted, full, out=np.ones(count), where=full > 0.0)
    rates: Numbers = found * scale[:, None]
    return rates


def optimum(planner: Lp | Exact, program: Program, rates: Numbers) -> float:
    """Return the best value there is. Plans of `exact` are proved by their duals, each of them."""
    return planner.plan(dict(zip(program.inputs, rates.tolist(), strict=True))).objective


def value_of(program: Program, flows: Numbers, rates: Numbers) -> float:
    """Return what flows bring, after checking that they are possible and fit."""
    assert np.all(program.load @ flows <= program.capacity * (1 + 1e-9))
    assert np.all(flows <= program.arrivals(flows, rates) * (1 + 1e-9) + 1e-12)
    assert np.all(flows >= 0.0)
    return float(program.value @ flows)


def can_be_cut(network: Network) -> bool:
    """Whether tables can be made for a network."""
    try:
        cut(program_of(network))
    except NetworkError:
        return False
    return True
