"""The status of a flow that has stopped, from its state directory. Starts no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from evenflow.errors import StateError
from evenflow.spark.state_dir import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path


def read_status(flow: str, state: Path) -> dict[str, Any]:
    """Return the last status that a flow wrote when it stopped.

    Raises:
        StateError: The flow has not run there, or was ended before it could write one.
    """
    directory = StateDirectory(state)
    if not state.is_dir() or directory.read_manifest() is None:
        raise StateError(f"flow {flow} has not run in {state}", "run it first, or give --state")
    file = directory.path / "status.json"
    if not file.exists():
        raise StateError(
            f"flow {flow} is running, or was ended before it could say how it stood",
            "stop it, or run it again to its end",
        )
    try:
        return dict(json.loads(file.read_text()))
    except ValueError as exc:
        raise StateError(f"{file} is damaged: {exc}") from exc
