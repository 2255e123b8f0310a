"""Random networks as plain data in the form of a network file, from a seed. Knows nothing of us."""

from __future__ import annotations

import random
from typing import Any

Data = dict[str, Any]


def random_network(
    seed: int,
    *,
    floors: bool = False,
    never: bool = False,
    tree: bool = False,
    even: bool = False,
    unasked: bool = False,
    most_inputs: int = 8,
    most_steps: int = 12,
) -> Data:
    """Return chains, splits, unions and joins over 1 to 8 inputs and 1 to 6 nodes.

    Some operators cost nothing; in every fifth network some let nothing through.

    Args:
        seed: Same seed, same network.
        floors: Some queries have floors.
        never: Before some operators nothing may be dropped.
        tree: No node is fed by two nodes: for tables that are passed upstream.
        even: Costs are 0 or 1, all other numbers 1, so that many optima are equal.
        unasked: No query asks for some of the ends.
        most_inputs: Fewer for methods whose plans grow with the power of it.
        most_steps: Operators behind the first of each input.
    """
    made = _Maker(random.Random(seed), tree, most_inputs).network(floors, never, most_steps)
    if seed % 5 == 3:
        _let_nothing_through(made, random.Random(f"nothing {seed}"))
    if unasked:
        _leave_out(made, random.Random(f"unasked {seed}"))
    return _evened(made) if even else made


def _let_nothing_through(network: Data, draw: random.Random) -> None:
    """Give some operators selectivity 0: behind them nothing arrives and nothing has value."""
    names = list(network["operators"])
    for name in draw.sample(names, min(len(names), draw.choice([1, 1, 2]))):
        network["operators"][name]["selectivity"] = 0.0


def _leave_out(network: Data, draw: random.Random) -> None:
    """Take away queries, but not all of them."""
    queries = network["queries"]
    kept = draw.choice(sorted(queries))
    for name in [each for each in queries if each != kept and draw.random() < 0.4]:
        del queries[name]


def _evened(network: Data) -> Data:
    for operator in network["operators"].values():
        operator["cost"] = min(1.0, round(operator["cost"]))
        operator["selectivity"] = 1.0
        if "windows" in operator:
            operator["windows"] = [1.0, 1.0]
    for query in network["queries"].values():
        query["weight"] = 1.0
    for node in network["nodes"].values():
        node["capacity"] = 1.0
    return network


class _Maker:
    def __init__(self, draw: random.Random, tree: bool, most_inputs: int) -> None:
        self._draw = draw
        self._nodes = [f"n{i}" for i in range(1, draw.randint(1, 6) + 1)]
        self._inputs = [f"in{i}" for i in range(1, draw.randint(1, most_inputs) + 1)]
        self._feeder: dict[str, str | None] = {}
        for place, node in enumerate(self._nodes):
            self._feeder[node] = draw.choice(self._nodes[:place]) if tree and place else None
        self._tree = tree
        self._operators: dict[str, Data] = {}
        self._node_of: dict[str, str] = {}
        self._used: set[str] = set()

    def network(self, floors: bool, never: bool, most_steps: int) -> Data:
        draw = self._draw
        first = self._nodes[0]
        for name in self._inputs:
            self._add([name], first if self._tree else draw.choice(self._nodes))
        for _ in range(draw.randint(0, most_steps)):
            self._grow()
        ends = [name for name in self._operators if name not in self._used]
        outputs = ends + [name for name in sorted(self._used) if draw.random() < 0.15]
        outputs = [name for name in sorted(outputs) if name in self._operators]
        queries: Data = {}
        for i, name in enumerate(outputs, 1):
            queries[f"q{i}"] = {"output": name, "weight": draw.choice([0.5, 1, 1, 2, 4])}
            if floors and draw.random() < 0.3:
                queries[f"q{i}"]["floor"] = draw.choice([0.05, 0.1, 0.2])
        if never:
            draw.choice(list(self._operators.values()))["shed"] = "never"
        nodes = {name: {"capacity": draw.choice([0.5, 1.0, 2.0])} for name in self._nodes}
        return {"evenflow": 1, "nodes": nodes, "operators": self._operators, "queries": queries}

    def _grow(self) -> None:
        draw = self._draw
        streams = list(self._operators)
        if draw.random() < 0.1:
            self._add([draw.choice(self._inputs)], self._nodes[0])
            return
        one = draw.choice(streams)
        node = self._after(self._node_of[one])
        count = 1
        if draw.random() < 0.35:
            others = [each for each in streams if self._may_meet(each, node)]
            if others and self._may_meet(one, node):
                count = 2
                self._add([one, draw.choice(others)], node)
        if count == 1:
            self._add([one], node)

    def _after(self, node: str) -> str:
        if self._tree:
            return self._draw.choice([node, *(n for n in self._nodes if self._feeder[n] == node)])
        return self._draw.choice(self._nodes[self._nodes.index(node) :])

    def _may_meet(self, stream: str, node: str) -> bool:
        at = self._node_of[stream]
        if self._tree:
            return at in (node, self._feeder[node])
        return self._nodes.index(at) <= self._nodes.index(node)

    def _add(self, inputs: list[str], node: str) -> None:
        draw = self._draw
        name = f"o{len(self._operators) + 1}"
        operator: Data = {
            "node": node,
            "inputs": inputs,
            "cost": draw.choice([0.0, 1.0, 1.0, 2.0, 3.0, 0.5, round(draw.uniform(0.1, 5), 3)]),
            "selectivity": draw.choice([1.0, 1.0, 0.5, round(draw.uniform(0.05, 1.5), 3)]),
        }
        if len(inputs) == 2 and draw.random() < 0.5:
            operator |= {"kind": "join", "windows": [draw.randint(1, 9), draw.randint(1, 9)]}
            operator["selectivity"] = round(draw.uniform(0.01, 0.3), 3)
        elif len(inputs) == 2:
            operator |= {"kind": "union", "selectivity": 1.0}
        elif draw.random() < 0.2:
            operator["kind"] = "aggregate"
        self._operators[name] = operator
        self._node_of[name] = node
        self._used.update(inputs)


def random_rates(seed: int, load: Any, inputs: list[str]) -> dict[str, float]:
    """Return rates of which half bring the fullest node to 1.0 to 1.3 of its capacity.

    Args:
        seed: Same seed, same rates.
        load: Function of rates: how full the fullest node is without drops.
        inputs: Names of the inputs.
    """
    draw = random.Random(seed)
    rates = {name: draw.choice([0.0, 1.0, 1.0, 1.0]) * draw.expovariate(1.0) for name in inputs}
    full = load(rates)
    if full <= 0:
        return rates
    wanted = draw.uniform(1.0, 1.3) if seed % 2 else draw.uniform(0.1, 6.0)
    return {name: rate * wanted / full for name, rate in rates.items()}
