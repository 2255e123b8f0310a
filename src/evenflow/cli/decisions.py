"""`evenflow decisions`: what the control loop has decided, why, and what came of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.command import (
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
from evenflow.cli.table import text_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_SHOWN = 20
_MOST_GATES = 4


@guarded
def decisions(
    flow: FlowPath,
    last: Annotated[
        int | None,
        typer.Option(min=1, help=f"Show the newest so many; {_MOST_SHOWN}, or all as JSON."),
    ] = None,
    state: State = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Show what the control loop has decided, why, and what came of it."""
    from evenflow.cli.flow_file import read_flow
    from evenflow.control.journal import read_decisions
    from evenflow.spark.state.manifest import manifest_of

    found = read_flow(flow)
    where = state or found.state
    manifest_of(found.name, where)
    made = read_decisions(where)
    if wants_json(as_json, format_):
        put_json({"flow": found.name, "decisions": made[-(last or len(made)) :]})
    else:
        put(decisions_text(made[-(last or _MOST_SHOWN) :]))


def decisions_text(made: Sequence[Mapping[str, Any]]) -> str:
    """Return decisions as a table, the newest last."""
    if not made:
        return "no decisions"
    rows = [
        [
            each["decision"],
            datetime.fromtimestamp(each["at"], UTC).strftime("%Y-%m-%d %H:%M:%S"),
            each["act"],
            _gates(each["keep"]),
            each["why"],
            _effect(each),
        ]
        for each in made
    ]
    return text_table(("nr", "at (UTC)", "act", "keep", "why", "effect"), rows)


def _gates(keep: Mapping[str, float]) -> str:
    if not keep:
        return "everything"
    order = sorted(keep.items(), key=lambda gate: (gate[1], gate[0]))
    shown = " ".join(f"{name} {kept:.0%}" for name, kept in order[:_MOST_GATES])
    more = len(order) - _MOST_GATES
    return f"{shown} and {more} more" if more > 0 else shown


def _effect(decision: Mapping[str, Any]) -> str:
    measured = decision.get("measured")
    if measured and "seconds" in measured:
        expected = (decision.get("expected") or {}).get("seconds")
        told = "" if expected is None else f", expected {expected:.1f} s"
        return f"caught up after {measured['seconds']:.1f} s{told}"
    if measured:
        expected = (decision.get("expected") or {}).get("batch_seconds") or {}
        return " ".join(
            f"{unit}: {seconds:.1f} s, expected {expected.get(unit, 0.0):.1f} s"
            for unit, seconds in measured.get("batch_seconds", {}).items()
            if seconds is not None
        )
    if decision.get("applied") is False:
        return f"not applied: {decision.get('reason')}"
    return str(decision.get("reason") or "")
