"""`evenflow run`: a flow on Spark."""

from __future__ import annotations

from typing import Annotated

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
    master: Master = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run a flow until Ctrl-C, or as long as the options say."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.cli.progress import shown_progress
    from evenflow.cli.status import report_status
    from evenflow.spark.java import use_java

    seconds = None if for_ is None else parse_duration(for_)
    found = read_flow(flow)
    spec = found.spec()
    use_java()
    from evenflow.spark.run import run_flow

    with shown_progress(verbose=verbose) as on_progress:
        status = run_flow(
            spec,
            state=state or found.state,
            available_now=available_now,
            drain=drain,
            seconds=seconds,
            master=master,
            replace=replace,
            on_progress=on_progress,
        )
    report_status(status, wants_json(as_json, format_))
