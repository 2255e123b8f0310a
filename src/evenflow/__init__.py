"""Evenflow: many continuous queries on Spark Structured Streaming, run as one shared graph.

Names are loaded when they are first used, so that `import evenflow` is quick and starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.errors import EvenflowError
    from evenflow.flow import Flow
    from evenflow.graph.builder import (
        Expr,
        Stream,
        approx_count_distinct,
        avg,
        col,
        count,
        fn,
        lit,
        max_,
        min_,
        stddev,
        sum_,
        when,
    )
    from evenflow.model.query import OnError, Query, Sink
    from evenflow.spark.gate.alone import gate, set_gate

__version__ = "0.1.0"

__all__ = [
    "EvenflowError",
    "Expr",
    "Flow",
    "OnError",
    "Query",
    "Sink",
    "Stream",
    "__version__",
    "approx_count_distinct",
    "avg",
    "col",
    "count",
    "fn",
    "gate",
    "lit",
    "max_",
    "min_",
    "set_gate",
    "stddev",
    "sum_",
    "when",
]

_HOMES = {
    "EvenflowError": "evenflow.errors",
    "Flow": "evenflow.flow",
    "OnError": "evenflow.model.query",
    "Query": "evenflow.model.query",
    "Sink": "evenflow.model.query",
    "gate": "evenflow.spark.gate.alone",
    "set_gate": "evenflow.spark.gate.alone",
}
"""Where a name lives; all others are the builder's."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "evenflow.graph.builder")), name)


def __dir__() -> list[str]:
    return __all__
