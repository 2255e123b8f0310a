"""`evenflow check` and `evenflow schema`: what a flow file may say, and whether one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.cli.command import (
    AsFormat,
    AsJson,
    FlowPath,
    Format,
    Verbose,
    guarded,
    put,
    put_json,
    say,
    wants_json,
)

if TYPE_CHECKING:
    from evenflow.flow import Flow


@guarded
def check(
    flow: FlowPath,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Say whether a flow file is right, without running anything."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.graph.explain.text import counted

    found = read_flow(flow)
    graph, units, warnings = found.graph, found.units(), _warnings(found)
    for warning in warnings:
        say(f"warning: {warning}")
    if wants_json(as_json, format_):
        put_json(
            {
                "flow": found.name,
                "valid": True,
                "sources": len(graph.sources),
                "tables": len(graph.tables),
                "queries": len(graph.queries),
                "operators_alone": graph.operators_alone(),
                "operators_shared": graph.operators_shared(),
                "units": len(units),
                "warnings": warnings,
            }
        )
        return
    put(
        f"{found.name} is right: {counted(len(graph.queries), 'query', 'queries')} over "
        f"{counted(len(graph.sources), 'source', 'sources')}, "
        f"{graph.operators_alone()} operators alone, {graph.operators_shared()} shared, "
        f"{counted(len(units), 'unit', 'units')}"
    )


@guarded
def schema(verbose: Verbose = False) -> None:  # noqa: ARG001  # read by `guarded`
    """Print the JSON Schema of flow files."""
    import json

    from evenflow.cli.flow_model import json_schema

    put(json.dumps(json_schema(), indent=2))


def _warnings(flow: Flow) -> list[str]:
    graph = flow.graph
    read_by_others = {
        query.name
        for query in graph.queries.values()
        if any(name != query.name for name in graph.users(query.operator))
    }
    silent = [
        f"query {query.name} has no sink, so its answers go nowhere"
        for query in graph.queries.values()
        if not query.sinks and query.name not in read_by_others
    ]
    needed = {each.hash for each in graph.operators()}
    unread = [
        f"{kind} {each.name} is read by no query"
        for kind, group in (("source", graph.sources), ("table", graph.tables))
        for each in group.values()
        if each.hash not in needed
    ]
    return silent + unread
