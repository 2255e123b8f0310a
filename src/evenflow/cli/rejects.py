"""`evenflow rejects`: tuples that could not be computed, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.command import (
    AsFormat,
    AsJson,
    FlowPath,
    Format,
    State,
    Verbose,
    guarded,
    put,
    put_json,
    wants_json,
)
from evenflow.cli.table import short, text_table
from evenflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_TEXT = 100


@guarded
def rejects(
    flow: FlowPath,
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="Only this one's.")] = None,
    state: State = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Show the newest tuples that queries rejected, each with the reason."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.spark.state.manifest import manifest_of
    from evenflow.spark.state.rejected import read_rejected

    found = read_flow(flow)
    where = state or found.state
    manifest = manifest_of(found.name, where)
    rejected = read_rejected(where)
    if query is not None:
        if query not in manifest.life.queries:
            raise ConfigError(f"flow {found.name} has no query {query[:80]}")
        rejected = {query: rejected.get(query, [])}
    if wants_json(as_json, format_):
        put_json({"flow": found.name, "rejects": rejected})
    else:
        put(_text(rejected))


def _text(rejected: Mapping[str, list[dict[str, Any]]]) -> str:
    rows = [
        [
            query,
            _moment(sample["at"]),
            short(sample["reason"], _MOST_TEXT),
            short(json.dumps(sample["tuple"]), _MOST_TEXT),
        ]
        for query, samples in rejected.items()
        for sample in samples
    ]
    return text_table(("query", "at (UTC)", "reason", "tuple"), rows) if rows else "no rejects"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
