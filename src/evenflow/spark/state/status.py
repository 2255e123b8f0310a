"""How a flow stands: asked if it runs, otherwise from its state directory. Starts no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from evenflow.errors import StateError
from evenflow.spark.control_socket import ask
from evenflow.spark.state.directory import StateDirectory
from evenflow.spark.state.manifest import manifest_of

if TYPE_CHECKING:
    from pathlib import Path


def find_status(flow: str, state: Path, *, exact: bool = False) -> dict[str, Any]:
    """Return the status of a flow, running or not.

    Raises:
        StateError: The flow has not run there, or was ended before it could write one.
    """
    if StateDirectory(state).in_use:
        found: dict[str, Any] = ask(flow, state, {"ask": "status", "exact": exact})
        return found
    return read_status(flow, state)


def read_status(flow: str, state: Path) -> dict[str, Any]:
    """Return the last status that a flow wrote when it stopped.

    Raises:
        StateError: The flow has not run there, or was ended before it could write one.
    """
    manifest_of(flow, state)
    directory = StateDirectory(state)
    if not directory.status.exists():
        raise StateError(
            f"flow {flow} was ended before it could say how it stood", "run it again to its end"
        )
    try:
        return dict(json.loads(directory.status.read_text()))
    except ValueError as exc:
        raise StateError(f"{directory.status} is damaged: {exc}") from exc
