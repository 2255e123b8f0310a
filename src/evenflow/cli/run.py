"""`evenflow run`: a flow on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from evenflow.base.duration import parse_duration
from evenflow.cli.command import (
    AsFormat,
    AsJson,
    FlowPath,
    Format,
    Master,
    State,
    Verbose,
    guarded,
    wants_json,
)
from evenflow.control.mode import Mode, chosen_mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from evenflow.model.flow import FlowSpec
    from evenflow.spark.beside import Beside


@guarded
def run(
    flow: FlowPath,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there, then end.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Also close the open windows and emit their answers.")
    ] = False,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End after, say, 60s.")
    ] = None,
    state: State = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Accept changed queries: start the whole flow over, its state forgotten.",
        ),
    ] = False,
    shed: Annotated[
        Mode | None,
        typer.Option(
            help="Drop tuples when load does not fit; dry-run only says what it would drop. "
            "On if a query has a deadline, unless --available-now."
        ),
    ] = None,
    master: Master = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run a flow until Ctrl-C, or as long as the options say."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.cli.progress import shown_progress, shown_steps
    from evenflow.cli.status import report_status
    from evenflow.spark.java import use_java

    seconds = None if for_ is None else parse_duration(for_)
    found = read_flow(flow)
    spec = found.spec()
    use_java()
    from evenflow.spark.run import run_flow

    where = state or found.state
    asked = None if shed is None else shed.value
    mode = chosen_mode(asked, spec.queries, available_now=available_now)
    beside = _control(spec, where, mode, shown_steps(verbose=verbose))
    with shown_progress(verbose=verbose) as on_progress:
        status = run_flow(
            spec,
            state=where,
            available_now=available_now,
            drain=drain,
            seconds=seconds,
            master=master,
            replace=replace,
            on_progress=on_progress,
            beside=beside,
        )
    report_status(status, wants_json(as_json, format_))


def _control(spec: FlowSpec, state: Path, mode: Mode, say: Callable[[str], None]) -> Beside:
    """Return the control loop, switched on or off."""
    from evenflow.control.shell import Control
    from evenflow.control.stored import surveyor

    return Control(state, mode=mode, survey=surveyor(spec, state, say))
