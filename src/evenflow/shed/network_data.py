"""Networks as plain data, in the form of a network file; and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query

if TYPE_CHECKING:
    from collections.abc import Mapping


def network_from_data(data: Mapping[str, Any]) -> Network:
    """Return the network that data describes. Keys are those of a network file, already checked.

    Raises:
        NetworkError: It is wrong.
        FileError: It is wrong in several places.
    """
    return Network(
        nodes={name: Node(capacity=each["capacity"]) for name, each in data["nodes"].items()},
        operators={name: _operator(each) for name, each in data["operators"].items()},
        queries={
            name: Query(
                output=each["output"],
                weight=each.get("weight", 1.0),
                floor=each.get("floor", 0.0),
            )
            for name, each in data["queries"].items()
        },
    )


def network_data(network: Network) -> dict[str, Any]:
    """Return a network as data, without what is default."""
    return {
        "nodes": {name: {"capacity": node.capacity} for name, node in network.nodes.items()},
        "operators": {name: _operator_data(each) for name, each in network.operators.items()},
        "queries": {
            name: {
                "output": query.output,
                "weight": query.weight,
                **({"floor": query.floor} if query.floor else {}),
            }
            for name, query in network.queries.items()
        },
    }


def _operator(data: Mapping[str, Any]) -> Operator:
    return Operator(
        node=data["node"],
        inputs=tuple(data["inputs"]),
        cost=data["cost"],
        selectivity=data.get("selectivity", 1.0),
        kind=OperatorKind(data.get("kind", "filter")),
        windows=tuple(data.get("windows", ())),
        never=data.get("shed") == "never",
    )


def _operator_data(operator: Operator) -> dict[str, Any]:
    data: dict[str, Any] = {
        "node": operator.node,
        "inputs": list(operator.inputs),
        "cost": operator.cost,
        "selectivity": operator.selectivity,
    }
    if operator.kind is not OperatorKind.FILTER:
        data["kind"] = operator.kind.value
    if operator.windows:
        data["windows"] = list(operator.windows)
    if operator.never:
        data["shed"] = "never"
    return data
