"""`evenflow bench`: the benchmarks that the results in the docs come from."""

from __future__ import annotations

import importlib
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.base.duration import parse_duration
from evenflow.bench.choice import Only
from evenflow.cli.command import (
    AsFormat,
    AsJson,
    Format,
    Verbose,
    guarded,
    put,
    put_json,
    say,
    wants_json,
)
from evenflow.cli.table import text_table
from evenflow.errors import UserError

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = ("sharing", "change", "latency", "soak", "surge", "gates", "shed-planning")


@guarded
def bench(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"Which benchmark: {', '.join(BENCHMARKS)}.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="End within five minutes.")] = False,
    case: Annotated[str | None, typer.Option(help="Only this case.")] = None,
    queries: Annotated[int | None, typer.Option(help="Only this number of queries.")] = None,
    rows: Annotated[int | None, typer.Option(min=1000, help="Rows per batch.")] = None,
    for_: Annotated[
        str | None, typer.Option("--for", help="How long the soak runs, as 10m or 2 hours.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Directory for pictures of the figures, as SVG.")
    ] = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,
) -> None:
    """Measure, and print what was measured."""
    from evenflow.cli.progress import shown_steps
    from evenflow.spark.java import use_java

    if name not in BENCHMARKS:
        raise UserError(f"benchmark {name[:40]!r} is not known", f"use {', '.join(BENCHMARKS)}")
    benchmark = importlib.import_module(f"evenflow.bench.{name.replace('-', '_')}")
    if getattr(benchmark, "NEEDS_JAVA", True):
        use_java()
    seconds = None if for_ is None else parse_duration(for_)
    only = Only(case=case, queries=queries, rows=rows, seconds=seconds)
    _check_options(name, only, benchmark.OPTIONS)
    if plot is not None:
        _check_plot(name, plot, benchmark)
    result = benchmark.run(quick=quick, on_step=shown_steps(verbose=verbose), only=only)
    if plot is not None:
        _write_pictures(plot, benchmark.pictures(result))
    as_data = wants_json(as_json, format_)
    if not as_data:
        put(cases_text(result["cases"]))
    for line in benchmark.verdict(result):
        (say if as_data else put)(line)
    if as_data:
        put_json(result)


def _check_options(name: str, only: Only, known: tuple[str, ...]) -> None:
    given = [field.name for field in fields(only) if getattr(only, field.name) is not None]
    for each in given:
        if each not in known:
            option = "--for" if each == "seconds" else f"--{each}"
            raise UserError(f"benchmark {name} has no option {option}")


def _check_plot(name: str, plot: Path, benchmark: ModuleType) -> None:
    if not hasattr(benchmark, "pictures"):
        raise UserError(f"benchmark {name} has no option --plot")
    try:
        plot.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UserError(f"cannot make directory {plot}: {exc.strerror}") from exc
    if not os.access(plot, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to directory {plot}")


def _write_pictures(plot: Path, files: dict[str, bytes]) -> None:
    from evenflow.cli.shed.output_file import replace_files

    replace_files({plot / name: drawn for name, drawn in files.items()})


def cases_text(cases: list[dict[str, Any]]) -> str:
    """Return the cases as a table, with the columns of the first."""
    headers = list(cases[0]) if cases else []
    rows = [[_cell(case.get(key)) for key in headers] for case in cases]
    return text_table(headers, rows, digits=7)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value
