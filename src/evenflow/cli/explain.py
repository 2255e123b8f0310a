"""`evenflow explain`: the graph and what runs, as text, JSON, DOT or SVG."""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenflow.cli.command import AsJson, FlowPath, State, Verbose, guarded, put
from evenflow.errors import ConfigError

if TYPE_CHECKING:
    from evenflow.flow import Flow
    from evenflow.model.costs import Costs


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
    network: Annotated[
        bool,
        typer.Option("--network", help="Write the measured flow as a network file for planners."),
    ] = False,
    state: State = None,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Show the operators, which queries share them, and the units they become."""
    from evenflow.cli.flow_file import read_flow

    found = read_flow(flow)
    form = Form.JSON if as_json else form
    if network:
        put(_network(found, state or found.state, form))
    else:
        put(found.explain(form.value))


def _network(flow: Flow, state: Path, form: Form) -> str:
    """Return the network file of a flow that was measured."""
    import json

    import yaml

    from evenflow.control.measured import read_measured
    from evenflow.control.stored import read_costs

    if form not in (Form.TEXT, Form.JSON):
        raise ConfigError(f"a network file is not written as {form.value}", "use text or json")
    data = read_measured(flow.name, state)
    if form is Form.JSON:
        return json.dumps(data)
    text: str = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100)
    return "\n".join([*_certainty(read_costs(state)), text.rstrip("\n")])


def _certainty(costs: Costs | None) -> list[str]:
    """Return comments that say how far the costs of a measured flow can be trusted."""
    if costs is None or costs.measured_at is None:
        return ["# Costs are what batches have told: none were measured before the flow ran."]
    at = datetime.fromtimestamp(costs.measured_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    names = sorted({*costs.hashes, *costs.queries})
    told = ", ".join(f"{name} {costs.certainty((name,)):.2f}" for name in names)
    return [
        f"# Costs: measured {at}, then corrected by what batches took. 0 is less than can be told.",
        f"# Certainty, from 0 for a guess to 1: {told}.",
    ]
