"""Queries over two small streams, cut into units without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.graph.graph import Graph
from evenflow.model.operator import Source, Table
from evenflow.model.schema import parse_schema
from evenflow.schedule.cut import cut

if TYPE_CHECKING:
    from evenflow.model.unit import Family, Member, Unit

READINGS = Source(
    "readings",
    parse_schema(
        "id BIGINT, meter STRING, ts TIMESTAMP, n INT, kwh DOUBLE, price DECIMAL(10,2), ok BOOLEAN"
    ),
    "ts",
    10_000_000,
    "readings",
)
OTHERS = Source(
    "others", parse_schema("id BIGINT, meter STRING, ts TIMESTAMP, n INT"), "ts", 0, "others"
)
SITES = Table("sites", parse_schema("meter STRING, region STRING"), "sites")


def graph_of(**queries: str) -> Graph:
    """Return the queries over the sources and the table."""
    graph = Graph("sample")
    graph.add_source(READINGS)
    graph.add_source(OTHERS)
    graph.add_table(SITES)
    graph.add_sql(queries)
    return graph


def units_of(**queries: str) -> tuple[Unit, ...]:
    """Return the units of some queries."""
    return cut(tuple(graph_of(**queries).queries.values()))


def unit_of(**queries: str) -> Unit:
    """Return the one unit that some queries become."""
    (unit,) = units_of(**queries)
    return unit


def window(
    what: str, where: str = "", keys: str = "meter", size: str = "10 seconds", tail: str = ""
) -> str:
    """Return a windowed query."""
    group = f"{keys}, " if keys else ""
    condition = f"WHERE {where}" if where else ""
    return f"SELECT {what} FROM readings {condition} GROUP BY {group}window(ts, '{size}') {tail}"


def member(unit: Unit, query: str) -> tuple[Family, Member]:
    """Return the one part of a query in a unit, with its family."""
    found = [(f, m) for f in unit.families for m in f.members if m.query == query]
    assert len(found) == 1
    return found[0]
