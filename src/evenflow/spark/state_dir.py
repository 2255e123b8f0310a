"""The state directory of a flow: manifest, checkpoints, pulses, counts; one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from typing import IO, TYPE_CHECKING, Any

from evenflow.errors import ChangedQueryError, StateError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from evenflow.model.query import Query
    from evenflow.model.unit import Unit

VERSION = 1


class UnitDirectory:
    """What one unit keeps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint"
        self.late_bound = path / "late-bound.txt"
        self.counts = path / "counts.json"

    def pulse(self, source: str) -> Path:
        """Return the folder of a source's pulse, made if it is not there."""
        folder = self.path / "pulse" / source
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class StateDirectory:
    """A flow's state on a local or shared disk."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: IO[str] | None = None

    def acquire(self) -> None:
        """Make this process the only one on the directory.

        Raises:
            StateError: Another process runs the flow, or the directory cannot be used.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = (self.path / "lock").open("a+")
        except OSError as exc:
            raise StateError(f"cannot use state directory {self.path}: {exc.strerror}") from exc
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            owner = handle.read().strip() or "unknown"
            handle.close()
            raise StateError(
                f"state directory {self.path} is in use by process {owner}",
                "stop that process, or give this one another --state",
            ) from None
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()))
        handle.flush()
        self._lock = handle

    def release(self) -> None:
        """Let others use the directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def held(self) -> bool:
        """Whether this process holds the directory."""
        return self._lock is not None

    def clear(self) -> None:
        """Forget everything that was made by the flow's earlier queries."""
        for name in ("units", "feed"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / "manifest.json").unlink(missing_ok=True)

    def forget_status(self) -> None:
        """Remove the status of the run before: another one begins."""
        (self.path / "status.json").unlink(missing_ok=True)

    def unit(self, unit: str) -> UnitDirectory:
        """Return the folder of a unit."""
        return UnitDirectory(self.path / "units" / unit)

    def feed(self, source: str) -> Path:
        """Return the folder into which a source's finite data is laid as files."""
        return self.path / "feed" / source

    def read_manifest(self) -> dict[str, Any] | None:
        """Return the manifest, or None if the flow has not run here.

        Raises:
            StateError: It is damaged or of a newer version.
        """
        file = self.path / "manifest.json"
        if not file.exists():
            return None
        try:
            manifest = json.loads(file.read_text())
            version = manifest["evenflow"]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise StateError(f"{file} is damaged: {exc}", "restore it from a backup") from exc
        if version != VERSION:
            raise StateError(f"{file} has version {version}; this Evenflow reads {VERSION}")
        return dict(manifest)

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest."""
        self.write_json("manifest.json", {"evenflow": VERSION, **manifest})

    def write_json(self, name: str, value: Any) -> None:
        """Replace a JSON file as a whole."""
        write_json(self.path / name, value)


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file so that it is there whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".new")
    beside.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
    beside.replace(file)


def new_state_id() -> str:
    """Return an id that keeps the files of two states apart in one sink."""
    return secrets.token_hex(4)


def describe(flow: str, state_id: str, queries: Sequence[Query], units: Sequence[Unit]) -> Any:
    """Return the manifest of a flow: what each unit carries, by names and numbers."""
    return {
        "flow": flow,
        "id": state_id,
        "queries": {
            q.name: {"operator": q.operator.hash, "sql": q.text, "since": "file"} for q in queries
        },
        "units": [describe_unit(unit) for unit in units],
    }


def describe_unit(unit: Unit) -> dict[str, Any]:
    """Return what the state of a unit depends on."""
    return {
        "id": unit.id,
        "kind": unit.kind.value,
        "trunk": unit.trunk.hash,
        "sources": list(unit.sources),
        "queries": list(unit.queries),
        "branches": [{"query": b.query, "number": b.number} for b in unit.branches],
        "families": [
            {
                "number": f.number,
                "keys": [str(k) for k in f.keys],
                "key_slots": [k.name for k in f.key_slots],
                "size_us": f.window.size_us,
                "slide_us": f.window.slide_us,
                "members": [{"query": m.query, "number": m.number} for m in f.members],
                "uses": {u.slot.name: [u.condition, str(u.argument)] for u in f.uses},
                "conditions": [str(c.predicate) for c in f.conditions],
            }
            for f in unit.families
        ],
        "key_slots": [k.name for k in unit.key_slots],
        "slots": [s.name for s in unit.slots],
    }


def check_unchanged(known: dict[str, Any], queries: Sequence[Query], units: Sequence[Unit]) -> None:
    """Refuse to run other queries on a state than those that made it.

    Raises:
        ChangedQueryError: A query was changed, added or removed.
        StateError: The same queries now become other families or slots.
    """
    before = known["queries"]
    for query in queries:
        if query.name in before and before[query.name]["operator"] != query.operator.hash:
            raise ChangedQueryError(
                f"query {query.name} differs from the one that this state was made by",
                "rename it, or start over with --replace",
            )
    names = {q.name for q in queries}
    if names != set(before):
        changed = sorted(names ^ set(before))
        raise ChangedQueryError(
            f"queries were added or removed since this state was made: {', '.join(changed[:5])}",
            "start over with --replace, or use another --state",
        )
    if known["units"] != [describe_unit(unit) for unit in units]:
        raise StateError(
            "this state was laid out by another version of Evenflow",
            "run it with that version, start over with --replace, or use another --state",
        )
