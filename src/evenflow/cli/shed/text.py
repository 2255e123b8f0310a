"""Plans and outcomes as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.cli.table import text_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.network import Network
    from evenflow.shed.plan_index import PlanIndex

DIGITS = 6
_MEANINGS = {
    "error": " of the value may be missed at most",
    "expected_error": " of the value may be missed on average",
    "trials": " times tables were made",
    "points": " rates were solved for",
}


def plan_text(network: Network, report: Mapping[str, Any]) -> str:
    """Return gates, nodes and queries of a plan, each as a table, and its value."""
    windows = report.get("windows", ())
    gates = text_table(
        ["gate", "keep", "drop", "drops"],
        [
            [name, kept, 1 - kept, "windows" if name in windows else "tuples"]
            for name, kept in report["keep"].items()
        ],
        DIGITS,
    )
    parts = [gates, *_nodes_and_queries(network, report)]
    if "fallback" in report:
        parts.append(f"a safe plan, not the best: {report['fallback']}")
    return "\n\n".join(parts)


def outcome_text(network: Network, report: Mapping[str, Any]) -> str:
    """Return operators, nodes and queries of an evaluation, and its value."""
    operators = text_table(
        ["operator", "node", "out tuples/s"],
        [[name, network.operators[name].node, rate] for name, rate in report["output"].items()],
        DIGITS,
    )
    return "\n\n".join([operators, *_nodes_and_queries(network, report)])


def index_text(index: PlanIndex, report: Mapping[str, Any]) -> str:
    """Return what was planned, one line each, and what that means for epsilon."""
    rows = [("epsilon", index.epsilon), *((k, v) for k, v in report.items() if k != "why")]
    names = [key.replace("_", " ") for key, _ in rows]
    width = max(map(len, names))
    lines = [
        f"{name.ljust(width)}  {_number(value)}{_MEANINGS.get(key, '')}"
        for name, (key, value) in zip(names, rows, strict=True)
    ]
    if "why" in report:
        lines.append(f"more than epsilon may be missed: {report['why']}")
    return "\n".join(lines)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _nodes_and_queries(network: Network, report: Mapping[str, Any]) -> list[str]:
    nodes = text_table(
        ["node", "load", "capacity", ""],
        [
            [name, load, network.nodes[name].capacity, _full(load, network.nodes[name].capacity)]
            for name, load in report["load"].items()
        ],
        DIGITS,
    )
    queries = text_table(
        ["query", "tuples/s", "weight"],
        [
            [name, rate, float(network.queries[name].weight)]
            for name, rate in report["throughput"].items()
        ],
        DIGITS,
    )
    return [nodes, queries, f"value {report['objective']:.{DIGITS}g}"]


def _full(load: float, capacity: float) -> str:
    # Rounding alone makes no node overloaded.
    return "overloaded" if load > capacity * (1 + 1e-9) else ""
