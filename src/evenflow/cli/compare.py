"""`evenflow compare`: the flow against plain Spark, on the user's own queries and data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.command import (
    AsFormat,
    AsJson,
    FlowPath,
    Format,
    Verbose,
    guarded,
    put,
    put_json,
    wants_json,
)
from evenflow.cli.table import cell_text

MOST_SHOWN = 20


@guarded
def compare(
    flow: FlowPath,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of each source to record and compare on.")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Directory of a recorded sample, instead of recording.")
    ] = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run the queries as plain Spark and shared on the same sample; compare answers and speed."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.cli.progress import shown_steps
    from evenflow.spark.java import use_java

    spec = read_flow(flow).spec()
    use_java()
    from evenflow.spark.compare import compare_flow

    result = compare_flow(spec, rows=rows, sample=sample, on_step=shown_steps(verbose=verbose))
    if wants_json(as_json, format_):
        put_json(result)
    else:
        put(comparison_text(result))
    if not result["equal"]:
        raise typer.Exit(1)


def comparison_text(result: dict[str, Any]) -> str:
    """Return the outcome in a few lines."""
    differences = result["differences"]
    verdict = "equal" if result["equal"] else f"NOT equal, {len(differences)} differences"
    lines = [
        f"answers of {result['queries']} queries: {verdict}",
        *(f"  {each}" for each in differences[:MOST_SHOWN]),
        f"operators: {result['operators_alone']} alone, {result['operators_shared']} shared",
        f"plain Spark: {cell_text(result['plain_rows_per_second'])} rows/s",
        f"shared: {cell_text(result['shared_rows_per_second'])} rows/s",
        f"ratio: {result['ratio']:.1f}",
    ]
    moved = result["pushed_down"]
    if moved:
        lines.append(
            "Spark alone pushes a WHERE below the watermark, so that fewer tuples are late; "
            "answers that this changes:"
        )
        lines += [
            f"  {name}: {cell_text(count)}" for name, count in list(moved.items())[:MOST_SHOWN]
        ]
    return "\n".join(lines)
