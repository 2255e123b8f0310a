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
from evenflow.cli.table import cell_text, percent, short, text_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from evenflow.cli.table import Cell

Status = dict[str, Any]

_WATCH_SECONDS = 1.0
_MOST_TEXT = 80
_MOST_GATES = 6

_COUNTS = ("in", "contributed", "open", "late", "filtered", "rejected")


@guarded
def status(
    flow: FlowPath,
    watch: Annotated[bool, typer.Option("--watch", help="Show it live until Ctrl-C.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Read the state of open windows, between two batches.")
    ] = False,
    operators: Annotated[
        bool, typer.Option("--operators", help="Also show the rates of every operator.")
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
    status_ = find_status(found.name, where, exact=exact)
    report_status(status_, wants_json(as_json, format_), operators=operators)


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


def report_status(found: Status, as_json: bool, *, operators: bool = False) -> None:
    """Print a status object, as a table with or without its operators.

    Raises:
        typer.Exit: Something is quarantined.
    """
    if as_json:
        put_json(found)
    else:
        put(status_text(found))
        if operators:
            put("\n" + operators_text(found))
    if is_unhealthy(found):
        raise typer.Exit(UNHEALTHY)


def is_unhealthy(found: Status) -> bool:
    """Whether a query was taken out of service."""
    return any(q.get("state") == "quarantined" for q in found.get("queries", {}).values())


def status_text(found: Status) -> str:
    """Return the tables of a status object: queries, units, sources, and what is wrong."""
    headers = ("query", "state", "answers", "rows/s", "age s", "delay s", *_COUNTS, "shed", "kept")
    queries: Mapping[str, Any] = found.get("queries", {})
    rows = [_row(name, query) for name, query in queries.items()]
    running = "running" if found.get("running") else "stopped"
    running = "starting" if found.get("starting") else running
    running = "paused" if found.get("paused") else running
    lines = [f"{found.get('flow')}: {running}, {len(rows)} queries", text_table(headers, rows)]
    if found.get("units"):
        lines += ["", _units_text(found), "", _sources_text(found)]
    lines += [f"{name} {trouble}" for name, q in queries.items() for trouble in _troubles(q)]
    if any(query.get("share_kept", 1.0) < 1.0 for query in queries.values()):
        lines.append(f"fairness {found.get('fairness')}: Jain's index of the shares kept")
    lines += _control_lines(found.get("control") or {}, running=bool(found.get("running")))
    lines += [
        f"source {name} fails, next try in {cell_text(each.get('retry_seconds'))} s: "
        f"{each.get('reason')}"
        for name, each in found.get("sources", {}).items()
        if each.get("state") == "failing"
    ]
    return "\n".join(lines)


def _control_lines(control: Mapping[str, Any], *, running: bool) -> list[str]:
    """Return how the control loop stands, if there is something to say."""
    state = control.get("state")
    if state in (None, "off"):
        return []
    if state == "dead":
        return [f"the control loop has ended: {control.get('reason')}"]
    mode = " (dry run)" if control.get("shed") == "dry-run" else ""
    if state == "preparing":
        return [f"control{mode}: {control.get('reason')}"]
    if control.get("capacity") is None:
        # A flow that has stopped waits for nothing.
        return [] if not running else [f"control{mode}: waits, {control.get('reason')}"]
    line = (
        f"control{mode}: {state}, load {cell_text(control.get('load'))} of "
        f"{cell_text(control.get('capacity'))}"
    )
    if gates := control.get("gates"):
        named = ", ".join(f"{name} {kept:.0%}" for name, kept in list(gates.items())[:_MOST_GATES])
        more = f" and {len(gates) - _MOST_GATES} more" if len(gates) > _MOST_GATES else ""
        line += (
            f" instead of {cell_text(control.get('load_without_gates'))}, "
            f"{control.get('value', 0.0):.0%} of the value kept: {named}{more}"
        )
    surge = control.get("highest_surge")
    if surge is not None:
        line += f"; can serve {cell_text(surge)} times what arrives"
    if reason := control.get("reason"):
        line += f"; that was before: {reason}"
    if behind := control.get("catching_up"):
        line += f"; nothing is shed for what waited before {', '.join(behind)} started"
    if unrecorded := control.get("unrecorded"):
        line += f"; gates stay as they are, {unrecorded}"
    return [line]


def _troubles(query: Mapping[str, Any]) -> Iterator[str]:
    if query.get("state") == "quarantined":
        yield f"is quarantined: {query.get('reason')}"
    if query.get("late"):
        yield (
            f"is late, {query.get('delay_seconds')} s of {query.get('deadline_seconds')} s: "
            f"{query.get('late')}"
        )


def _units_text(found: Status) -> str:
    headers = ("unit", "kind", "queries", "rows/s", "every s", "batch s", "state rows", "state MB")
    rows = [
        [
            unit.get("id"),
            unit.get("kind"),
            len(unit.get("queries", ())),
            unit.get("rows_per_second"),
            unit.get("every_seconds"),
            unit.get("batch_seconds"),
            unit.get("state_rows"),
            None if unit.get("state_bytes") is None else round(unit["state_bytes"] / 1e6, 1),
        ]
        for unit in found.get("units", ())
    ]
    return text_table(headers, rows)


def _sources_text(found: Status) -> str:
    headers = ("source", "state", "read", "rows/s", "behind")
    rows = [
        [
            name,
            each.get("state"),
            each.get("read"),
            each.get("rows_per_second"),
            each.get("rows_behind"),
        ]
        for name, each in found.get("sources", {}).items()
    ]
    return text_table(headers, rows)


def operators_text(found: Status) -> str:
    """Return the table of a status object's operators."""
    headers = ("operator", "in/s", "out/s", "of", "what")
    rows = [
        [
            each.get("kind"),
            each.get("in_per_second"),
            each.get("out_per_second"),
            _of(each.get("queries", ())),
            short(str(each.get("text")), _MOST_TEXT),
        ]
        for each in found.get("operators", ())
    ]
    return text_table(headers, rows)


def _of(queries: Sequence[str]) -> str:
    return queries[0] if len(queries) == 1 else f"{len(queries)} queries"


def _row(name: str, query: Mapping[str, Any]) -> list[Cell]:
    counts: Mapping[str, Any] = query.get("counts") or {}
    shed = counts.get("shed")
    return [
        name,
        query.get("state"),
        query.get("answers"),
        query.get("rows_per_second"),
        query.get("age_seconds"),
        query.get("delay_seconds"),
        *(counts.get(field) for field in _COUNTS),
        sum(shed.values()) if isinstance(shed, dict) else shed,
        None if query.get("share_kept") is None else percent(query["share_kept"]),
    ]
