"""The networks of the experiments of Staying FIT (section 8).

Of figure 9 the text prints the costs of network (b) alone, (64, 32). The others are substitutes
with the same total on each server and an imbalance that grows from (a) to (e). What the second
server costs is not printed either: here its costs are those of the first the other way round.
"""

from __future__ import annotations

from evenflow.shed.network import Network, Node, Operator, Query

COSTS = {"a": (56, 40), "b": (64, 32), "c": (72, 24), "d": (80, 16), "e": (88, 8)}
"""Figure 9: milliseconds of the two queries on the first server."""
_MS = 1e-3
_TOTALS = "costs of networks but (b), and of the second server: equal totals, growing imbalance"
_SWAPPED = "costs of the second server: those of the first, the other way round"
SUBSTITUTES = {
    "10": _TOTALS,
    "10b": _TOTALS,
    "11a": _TOTALS,
    "11c": "the trace of TCP packets: a histogram that falls as its plot does",
    "13": "costs: the shared operator 8 ms, branches 2 to 16 ms in turn",
    "14a": _SWAPPED,
    "14b": _SWAPPED,
    "15a": "query loads: 1, 0.75 and 0.5 of (64, 32)",
    "15b": "selectivities of an operator on the second server: 1 before, 0.6 to 0.95 after",
    "15c": _SWAPPED,
    "table 3": _SWAPPED,
}
"""By figure, what stands for things that the paper does not print."""


def figure_9(name: str, factor: float = 1.0) -> Network:
    """Return one of the five networks of two chain queries over two servers."""
    return chains(tuple(factor * cost for cost in COSTS[name]))


def chains(costs: tuple[float, ...]) -> Network:
    """Return chain queries over two servers; on the second, costs of neighbours change places."""
    swapped = [cost for i in range(0, len(costs), 2) for cost in reversed(costs[i : i + 2])]
    operators: dict[str, Operator] = {}
    for i, (first, second) in enumerate(zip(costs, swapped, strict=True), 1):
        operators[f"a{i}"] = Operator(node="A", inputs=(f"in{i}",), cost=first * _MS)
        operators[f"b{i}"] = Operator(node="B", inputs=(f"a{i}",), cost=second * _MS)
    return Network(
        nodes={"A": Node(capacity=1.0), "B": Node(capacity=1.0)},
        operators=operators,
        queries={f"q{i}": Query(output=f"b{i}") for i in range(1, len(costs) + 1)},
    )


def by_inputs(count: int) -> Network:
    """Return the network of section 8.2.4 with 2, 4 or 8 inputs: (64, 32) and its fractions."""
    share = count // 2
    return chains((64 / share, 32 / share) * share)


def fan_out(branches: int) -> Network:
    """Return one input, one shared operator and many queries (section 8.2.3).

    Costs are not printed. Substitute: the shared operator 8 ms, branches 2 to 16 ms in turn.
    """
    operators = {"shared": Operator(node="A", inputs=("in1",), cost=8 * _MS)}
    for i in range(1, branches + 1):
        cost = (2, 4, 8, 16)[i % 4] * _MS
        operators[f"b{i}"] = Operator(node="A", inputs=("shared",), cost=cost)
    return Network(
        nodes={"A": Node(capacity=1.0)},
        operators=operators,
        queries={f"q{i}": Query(output=f"b{i}") for i in range(1, branches + 1)},
    )


def highest_rates(network: Network, times: float = 2.0) -> dict[str, float]:
    """Return for each input several times the rate that it alone could have."""
    from evenflow.shed.program import program_of

    program = program_of(network)
    fullest = (program.unit_load / program.capacity[:, None]).max(axis=0)
    return {name: times / float(load) for name, load in zip(program.inputs, fullest, strict=True)}
