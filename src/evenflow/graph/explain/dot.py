"""A report in the DOT language of Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.graph.explain.text import headline, shorten

if TYPE_CHECKING:
    from evenflow.graph.explain.report import OperatorReport, QueryReport, Report

_WIDTH = 48
_SHARED = 'fillcolor="#0f766e" fontcolor="white"'
_SINGLE = 'fillcolor="#f1f5f9"'
_LEAF = 'fillcolor="#1e293b" fontcolor="white"'


def dot_text(report: Report) -> str:
    """Return a directed graph from sources to queries."""
    lines = [
        f"digraph {_quoted(report.flow)} {{",
        f"  label={_quoted(headline(report))};",
        "  rankdir=LR;",
        '  node [shape=box style="filled,rounded" fontname="monospace" fontsize=10];',
        '  edge [color="#64748b"];',
    ]
    lines += [_operator(each) for each in report.operators]
    lines += [_query(each) for each in report.queries]
    lines += [f"  o{source} -> o{each.id};" for each in report.operators for source in each.inputs]
    lines += [f"  o{query.operator} -> {_query_id(query)};" for query in report.queries]
    return "\n".join([*lines, "}"])


def _operator(each: OperatorReport) -> str:
    leaf = each.kind in ("source", "table")
    look = _LEAF if leaf else _SHARED if each.shared else _SINGLE
    uses = f" ×{len(each.queries)}" if each.shared else ""  # noqa: RUF001  # times
    label = _quoted(f"{each.kind}{uses}\n{shorten(each.text, _WIDTH)}")
    return f"  o{each.id} [label={label} tooltip={_quoted(each.text)} {look}];"


def _query(query: QueryReport) -> str:
    unit = f"\n{', '.join(query.units)}" if query.units else ""
    return (
        f'  {_query_id(query)} [label={_quoted(query.name + unit)} shape=oval fillcolor="white"];'
    )


def _query_id(query: QueryReport) -> str:
    return _quoted(f"query {query.name}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
