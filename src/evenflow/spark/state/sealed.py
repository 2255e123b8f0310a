"""Files that are there whole or not at all, and that say so: versioned, with a checksum."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from evenflow.errors import StateError

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 4
"""Of everything in a state directory."""


def write_sealed(file: Path, body: Any) -> None:
    """Replace a file as a whole."""
    write_json(file, {"evenflow": VERSION, "checksum": checksum(body), "body": body})


def read_sealed(file: Path) -> Any | None:
    """Return what a file holds, or None if it is not there.

    Raises:
        StateError: It is damaged, or of another version.
    """
    if not file.exists():
        return None
    try:
        held = json.loads(file.read_text())
        version = held["evenflow"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise _damaged(file) from exc
    if version != VERSION:
        which = "a newer" if isinstance(version, int) and version > VERSION else "another"
        raise StateError(
            f"{file} was written by {which} version of Evenflow: format {str(version)[:20]}, "
            f"this one reads {VERSION}",
            "use that version, or another --state",
        )
    if "body" not in held or held.get("checksum") != checksum(held["body"]):
        raise _damaged(file)
    return held["body"]


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file so that it is there whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".new")
    beside.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
    beside.replace(file)


def checksum(body: Any) -> str:
    """Return what tells whether a body was altered."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _damaged(file: Path) -> StateError:
    return StateError(
        f"{file} is damaged: truncated or altered", "restore it, or use another --state"
    )
