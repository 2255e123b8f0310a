"""Showing a graph and the units it becomes: as text, JSON, DOT or SVG."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from evenflow.errors import ConfigError
from evenflow.graph.explain.dot import dot_text
from evenflow.graph.explain.report import describe
from evenflow.graph.explain.svg import svg_text
from evenflow.graph.explain.text import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evenflow.graph.explain.report import Report
    from evenflow.graph.graph import Graph
    from evenflow.model.unit import Unit

__all__ = ["FORMATS", "describe", "explain"]


def _json_text(report: Report) -> str:
    return json.dumps(asdict(report), ensure_ascii=False)


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": plain_text,
    "json": _json_text,
    "dot": dot_text,
    "svg": svg_text,
}


def explain(graph: Graph, units: Sequence[Unit] | None = None, format_: str = "text") -> str:
    """Return a graph, and its units if they are given, in a format.

    Raises:
        ConfigError: The format is not known.
    """
    if format_ not in FORMATS:
        raise ConfigError(f"format {format_[:40]!r} is not known", f"use {', '.join(FORMATS)}")
    return FORMATS[format_](describe(graph, units))
