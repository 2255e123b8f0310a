"""A small flow that the tests of this folder build on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.graph.bind import Binder
from evenflow.graph.canonical import canonical
from evenflow.graph.graph import Graph
from evenflow.graph.parse import parse_expression
from evenflow.graph.scope import Scope
from evenflow.model.operator import Source, Table
from evenflow.model.schema import parse_schema

if TYPE_CHECKING:
    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator

READINGS = Source(
    "readings",
    parse_schema(
        "id BIGINT, meter STRING, district STRING, ts TIMESTAMP, kwh DOUBLE, price DECIMAL(10,2), "
        "n INT, small SMALLINT, tiny TINYINT, valid BOOLEAN, day DATE, seen TIMESTAMP, "
        "at STRUCT<x: INT, place: STRUCT<city: STRING>>, odd STRING"
    ),
    "ts",
    10_000_000,
    "memory:readings",
)
PLAIN = Source("plain", parse_schema("id BIGINT, note STRING"), None, 0, "memory:plain")
SITES = Table(
    "sites", parse_schema("meter STRING, region STRING, number INT, cap DECIMAL(12,3)"), "memory"
)


def sample_graph() -> Graph:
    """Return a graph with the sources and the table, and no queries."""
    graph = Graph("metering")
    graph.add_source(READINGS)
    graph.add_source(PLAIN)
    graph.add_table(SITES)
    return graph


def operator_of(sql: str, **others: str) -> Operator:
    """Return the operator of a query, which may read other queries."""
    return sample_graph().add_sql({"q": sql, **others})["q"].operator


def raw(text: str) -> Expression:
    """Return an expression over `readings`, bound and not yet canonical."""
    return Binder(Scope.of(READINGS, "readings")).bind(parse_expression(text))


def bound(text: str) -> Expression:
    """Return an expression over `readings` in canonical form."""
    return canonical(raw(text))
