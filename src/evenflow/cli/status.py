"""Status objects (docs/cli.md) as tables, and what they mean for the exit code."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.command import (
    UNHEALTHY,
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
from evenflow.cli.table import text_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.cli.table import Cell

Status = dict[str, Any]

_WATCH_SECONDS = 1.0

_COUNTS = ("in", "contributed", "open", "late", "filtered", "rejected")


@guarded
def status(
    flow: FlowPath,
    watch: Annotated[bool, typer.Option("--watch", help="Show it live until Ctrl-C.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Read the state of open windows, between two batches.")
    ] = False,
    state: State = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Show the queries of a flow: their state and what became of their tuples."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.spark.state.status import find_status

    found = read_flow(flow)
    where = state or found.state
    if watch:
        _watch(lambda: find_status(found.name, where, exact=exact))
    report_status(find_status(found.name, where, exact=exact), wants_json(as_json, format_))


def _watch(find: Callable[[], Status]) -> None:
    """Show a flow until it stops, or Ctrl-C."""
    from evenflow.cli.progress import shown_progress

    with suppress(KeyboardInterrupt), shown_progress(verbose=True) as show:
        while True:
            found = find()
            show(found)
            if not found["running"]:
                return
            time.sleep(_WATCH_SECONDS)


def report_status(found: Status, as_json: bool) -> None:
    """Print a status object.

    Raises:
        typer.Exit: Something is quarantined.
    """
    if as_json:
        put_json(found)
    else:
        put(status_text(found))
    if is_unhealthy(found):
        raise typer.Exit(UNHEALTHY)


def is_unhealthy(found: Status) -> bool:
    """Whether a query was taken out of service."""
    return any(q.get("state") == "quarantined" for q in found.get("queries", {}).values())


def status_text(found: Status) -> str:
    """Return the table of a status object."""
    headers = ("query", "state", "answers", "rows/s", "age s", *_COUNTS, "shed")
    queries: Mapping[str, Any] = found.get("queries", {})
    rows = [_row(name, query) for name, query in queries.items()]
    running = "running" if found.get("running") else "stopped"
    lines = [f"{found.get('flow')}: {running}, {len(rows)} queries", text_table(headers, rows)]
    lines += [
        f"{name} is quarantined: {query.get('reason')}"
        for name, query in queries.items()
        if query.get("state") == "quarantined"
    ]
    return "\n".join(lines)


def _row(name: str, query: Mapping[str, Any]) -> list[Cell]:
    counts: Mapping[str, Any] = query.get("counts") or {}
    shed = counts.get("shed")
    return [
        name,
        query.get("state"),
        query.get("answers"),
        query.get("rows_per_second"),
        query.get("age_seconds"),
        *(counts.get(field) for field in _COUNTS),
        sum(shed.values()) if isinstance(shed, dict) else shed,
    ]
