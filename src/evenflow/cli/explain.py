"""`evenflow explain`: the graph and what runs, as text, JSON, DOT or SVG."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from evenflow.cli.command import AsJson, FlowPath, Verbose, guarded, put


class Form(enum.Enum):
    """How a graph is shown."""

    TEXT = "text"
    JSON = "json"
    DOT = "dot"
    SVG = "svg"


AsForm = Annotated[Form, typer.Option("--format", help="json is the same as --json.")]


@guarded
def explain(
    flow: FlowPath,
    form: AsForm = Form.TEXT,
    as_json: AsJson = False,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Show the operators, which queries share them, and the units they become."""
    from evenflow.cli.flow_file import read_flow

    put(read_flow(flow).explain("json" if as_json else form.value))
