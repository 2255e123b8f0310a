"""The `evenflow` command. Only what `--help` needs is imported here; commands bring the rest."""

from __future__ import annotations

from typing import Annotated

import typer

import evenflow
from evenflow.cli.bench import bench
from evenflow.cli.check import check, schema
from evenflow.cli.command import put
from evenflow.cli.compare import compare
from evenflow.cli.control import pause, resume, stop, subscribe, unsubscribe
from evenflow.cli.decisions import decisions
from evenflow.cli.demo.command import demo
from evenflow.cli.doctor import doctor
from evenflow.cli.explain import explain
from evenflow.cli.rejects import rejects
from evenflow.cli.run import run
from evenflow.cli.setup import setup
from evenflow.cli.shed.commands import shed_app
from evenflow.cli.status import status
from evenflow.cli.usage import Commands

# Without markup typer does not import rich, which would double the time of --help.
app = typer.Typer(
    name="evenflow",
    cls=Commands,
    help="Many continuous queries on Spark Structured Streaming, run as one shared graph.",
    epilog="Exit codes: 0 ok, 1 failure, 2 usage or bad input, 3 something is quarantined.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_ON_FILES = (check, explain, run, status, rejects, decisions)
_ON_RUNNING_FLOWS = (subscribe, unsubscribe, pause, resume, stop)
_OTHERS = (compare, demo, setup, doctor, bench, schema)
for command in (*_ON_FILES, *_ON_RUNNING_FLOWS, *_OTHERS):
    app.command()(command)
app.add_typer(shed_app)


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"evenflow {evenflow.__version__}")
        raise typer.Exit


@app.callback()
def _evenflow(
    version: Annotated[  # its callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Many continuous queries on Spark Structured Streaming, run as one shared graph."""


def main() -> None:
    """Run the command line and exit."""
    app()
