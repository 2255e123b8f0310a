"""A second formulation and a second solver: flows on all arcs, and a simplex of our own.

Written from the network's data alone, so that a fault in gates, programs or bases shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.shed.dense_simplex import greatest

Data = dict[str, Any]


class _Program:
    """Rows by column number."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._equal: list[tuple[dict[int, float], float]] = []
        self._most: list[tuple[dict[int, float], float]] = []

    def equal(self, row: dict[int, float], side: float) -> None:
        self._equal.append((row, side))

    def at_most(self, row: dict[int, float], side: float) -> None:
        self._most.append((row, side))

    def greatest(self, value: dict[int, float]) -> float | None:
        return greatest(
            self._dense(value),
            np.array([self._dense(row) for row, _ in self._most]),
            np.array([side for _, side in self._most]),
            np.array([self._dense(row) for row, _ in self._equal]),
            np.array([side for _, side in self._equal]),
        )

    def feasible_with(self, row: dict[int, float], side: float) -> bool:
        self._most.append((row, side))
        found = self.greatest({})
        self._most.pop()
        return found is not None

    def _dense(self, row: dict[int, float]) -> Any:
        dense = np.zeros(self._columns)
        for column, coefficient in row.items():
            dense[column] = coefficient
        return dense


class Oracle:
    """Optimal values of one network."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._operators = data["operators"]
        self._arcs = [
            (producer, name, port)
            for name, each in self._operators.items()
            for port, producer in enumerate(each["inputs"])
        ] + [(each["output"], name, 0) for name, each in data["queries"].items()]
        self.inputs = sorted({p for p, _, _ in self._arcs if p not in self._operators})
        self._reach: dict[str, set[str]] = {}
        names = [*self._arcs, *self._operators, *self.inputs]
        self._column = {name: i for i, name in enumerate(names)}

    def reached(self, name: str) -> set[str]:
        """Return everything downstream of an operator or query, itself included."""
        if name not in self._reach:
            found = {name}
            for producer, consumer, _ in self._arcs:
                if producer == name:
                    found |= self.reached(consumer)
            self._reach[name] = found
        return self._reach[name]

    def fullest(self, rates: dict[str, float]) -> float:
        """Return how full the fullest node is without drops."""
        out: dict[str, float] = dict(rates)
        load: dict[str, float] = dict.fromkeys(self._data["nodes"], 0.0)
        left = dict(self._operators)
        while left:
            for name, each in list(left.items()):
                if all(producer in out for producer in each["inputs"]):
                    come = [out[producer] for producer in each["inputs"]]
                    load[each["node"]] += each["cost"] * sum(come)
                    out[name] = sum(self._gain(each, port) * c for port, c in enumerate(come))
                    del left[name]
        capacity: dict[str, float] = {k: v["capacity"] for k, v in self._data["nodes"].items()}
        return max(load[name] / room for name, room in capacity.items())

    def optimum(self, rates: dict[str, float]) -> float | None:
        """Return the greatest value, or None if nothing fits."""
        return self._program(rates).greatest(self._value())

    def could_be_better(
        self, rates: dict[str, float], objective: float, load: float, keep: dict[str, float]
    ) -> str | None:
        """Return what a plan should have done better among equal optima, or None.

        Values are compared by a thousandth, what came before is held up to a ten-millionth.
        """
        program = self._program(rates)
        value = self._value()
        if (program.greatest(value) or 0.0) > objective + 1e-3:
            return "value"
        program.at_most({column: -weight for column, weight in value.items()}, 1e-7 - objective)
        loads: dict[int, float] = {}
        for node in self._data["nodes"]:
            for column, cost in self._costs(node).items():
                loads[column] = loads.get(column, 0.0) + cost
        if (
            -(program.greatest({column: -cost for column, cost in loads.items()}) or 0.0)
            < load - 1e-3
        ):
            return "load"
        program.at_most(loads, load + 1e-7)
        for name in sorted(keep):
            passed, come = self._gate_columns(name)
            share = keep[name]
            larger = {come: share + 1e-3, passed: -1.0}
            if share < 1 - 1e-3 and program.feasible_with(larger, 0.0):
                return name
            program.at_most({come: share, passed: -1.0}, 1e-7)
        return None

    def _gate_columns(self, name: str) -> tuple[int, int]:
        """Return the columns of what passes a gate and of what comes to it."""
        for producer in (*self.inputs, *self._operators):
            groups = self._groups(producer)
            for group, _ in groups:
                consumers = "+".join(dict.fromkeys(arc[1] for arc in group))
                if name == (producer if len(groups) == 1 else f"{producer}->{consumers}"):
                    return self._column[group[0]], self._column[producer]
        raise KeyError(name)

    def _value(self) -> dict[int, float]:
        return {
            self._column[query["output"], name, 0]: query["weight"]
            for name, query in self._data["queries"].items()
        }

    def _program(self, rates: dict[str, float]) -> _Program:
        program = _Program(len(self._column))
        column = self._column
        for name in self.inputs:
            program.equal({column[name]: 1.0}, rates[name])
        for name, each in self._operators.items():
            gains = {
                column[producer, name, port]: self._gain(each, port)
                for port, producer in enumerate(each["inputs"])
            }
            program.equal({**gains, column[name]: -1.0}, 0.0)
        for producer in (*self.inputs, *self._operators):
            for group, may_drop in self._groups(producer):
                for other in group[1:]:
                    program.equal({column[group[0]]: 1.0, column[other]: -1.0}, 0.0)
                passed = {column[group[0]]: 1.0, column[producer]: -1.0}
                (program.at_most if may_drop else program.equal)(passed, 0.0)
        for node, of_node in self._data["nodes"].items():
            program.at_most(self._costs(node), of_node["capacity"])
        full = self._full(rates)
        for name, query in self._data["queries"].items():
            out = column[query["output"], name, 0]
            program.at_most({out: -1.0}, -query.get("floor", 0.0) * full[name])
        return program

    def _costs(self, node: str) -> dict[int, float]:
        return {
            self._column[arc]: self._operators[arc[1]]["cost"]
            for arc in self._arcs
            if arc[1] in self._operators and self._operators[arc[1]]["node"] == node
        }

    def _full(self, rates: dict[str, float]) -> dict[str, float]:
        out: dict[str, float] = dict(rates)

        def of(name: str) -> float:
            if name not in out:
                each = self._operators[name]
                out[name] = sum(
                    self._gain(each, port) * of(producer)
                    for port, producer in enumerate(each["inputs"])
                )
            return out[name]

        return {name: of(query["output"]) for name, query in self._data["queries"].items()}

    @staticmethod
    def _gain(operator: Data, port: int) -> float:
        selectivity = float(operator.get("selectivity", 1.0))
        if operator.get("kind") == "join":
            return selectivity * float(operator["windows"][1 - port])
        return selectivity

    def _groups(self, producer: str) -> list[tuple[list[tuple[str, str, int]], bool]]:
        """Return arcs that meet again together, and whether tuples may be dropped there."""
        groups: list[tuple[list[tuple[str, str, int]], set[str]]] = []
        for arc in (each for each in self._arcs if each[0] == producer):
            together, reach = [arc], set(self.reached(arc[1]))
            for other in [each for each in groups if each[1] & reach]:
                groups.remove(other)
                together, reach = other[0] + together, other[1] | reach
            groups.append((together, reach))
        is_input = producer not in self._operators
        return [
            (
                arcs,
                (is_input or len(groups) > 1)
                and not any(self._operators.get(name, {}).get("shed") == "never" for name in reach),
            )
            for arcs, reach in groups
        ]
