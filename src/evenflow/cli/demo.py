"""`evenflow demo`: twenty queries over synthetic smart meters, then the same as plain Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenflow.base.duration import parse_duration
from evenflow.cli.command import Verbose, guarded, put, say
from evenflow.cli.table import text_table

if TYPE_CHECKING:
    from evenflow.cli.status import Status
    from evenflow.flow import Flow

FLOW = Path(__file__).with_name("demo.yaml")
SAMPLE_ROWS = 240_000
"""Rows of the sample on which plain Spark is measured: enough to be past its warm-up."""


@guarded
def demo(
    for_: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long the flow runs.")
    ] = "60s",
    verbose: Verbose = False,
) -> None:
    """Run twenty queries over synthetic smart meters, then compare them with plain Spark."""
    from evenflow.cli.flow_file import read_flow

    seconds = parse_duration(for_)
    with tempfile.TemporaryDirectory(prefix="evenflow-demo-") as directory:
        found = read_flow(FLOW, base=Path(directory))
        _run(found, seconds, verbose=verbose)
        _compare(found, verbose=verbose)


def _run(flow: Flow, seconds: float, *, verbose: bool) -> None:
    from evenflow.cli.progress import shown_progress
    from evenflow.spark.java import use_java

    use_java()
    from evenflow.spark.run import run_flow

    say(f"running {len(flow.graph.queries)} queries over synthetic meters for {seconds:.0f} s")
    with shown_progress(verbose=verbose) as on_progress:
        status = run_flow(
            flow.spec(),
            state=flow.state,
            available_now=False,
            drain=False,
            seconds=seconds,
            master=None,
            replace=False,
            on_progress=on_progress,
        )
    put(answers_text(status))
    put(
        f"\noperators: {flow.graph.operators_alone()} if every query ran alone, "
        f"{flow.graph.operators_shared()} ran"
    )


def _compare(flow: Flow, *, verbose: bool) -> None:
    from evenflow.cli.compare import comparison_text
    from evenflow.cli.progress import shown_steps
    from evenflow.spark.compare import compare_flow

    say(f"comparing with plain Spark on a sample of {SAMPLE_ROWS:,} rows")
    on_step = shown_steps(verbose=verbose)
    result = compare_flow(flow.spec(), rows=SAMPLE_ROWS, on_step=on_step)
    put(f"\n{comparison_text(result)}")
    if not result["equal"]:
        raise typer.Exit(1)


def answers_text(status: Status) -> str:
    """Return the answers per query."""
    rows = [
        [
            name,
            query.get("answers"),
            (query.get("counts") or {}).get("in"),
            query.get("age_seconds"),
        ]
        for name, query in status["queries"].items()
    ]
    return text_table(["query", "answers", "tuples in", "age s"], rows)
