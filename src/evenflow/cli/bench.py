"""`evenflow bench`: the benchmarks that the results in the docs come from."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from evenflow.cli.command import (
    AsFormat,
    AsJson,
    Format,
    Verbose,
    guarded,
    put,
    put_json,
    wants_json,
)
from evenflow.cli.table import text_table
from evenflow.errors import UserError

BENCHMARKS = ("sharing",)


@guarded
def bench(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"Which benchmark: {', '.join(BENCHMARKS)}.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="End within five minutes.")] = False,
    case: Annotated[str | None, typer.Option(help="Only this case.")] = None,
    queries: Annotated[int | None, typer.Option(help="Only this number of queries.")] = None,
    rows: Annotated[int | None, typer.Option(min=1000, help="Rows per batch.")] = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,
) -> None:
    """Measure, and print what was measured."""
    from evenflow.cli.progress import shown_steps
    from evenflow.spark.java import use_java

    if name not in BENCHMARKS:
        raise UserError(f"benchmark {name[:40]!r} is not known", f"use {', '.join(BENCHMARKS)}")
    use_java()
    benchmark = importlib.import_module(f"evenflow.bench.{name}")
    only = benchmark.Only(case=case, queries=queries, rows=rows)
    result = benchmark.run(quick=quick, on_step=shown_steps(verbose=verbose), only=only)
    if wants_json(as_json, format_):
        put_json(result)
    else:
        put(cases_text(result["cases"]))


def cases_text(cases: list[dict[str, Any]]) -> str:
    """Return the cases as a table, with the columns of the first."""
    headers = list(cases[0]) if cases else []
    return text_table(headers, [[_cell(case.get(key)) for key in headers] for case in cases])


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value
