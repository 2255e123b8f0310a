"""The state directory of a flow: manifest, checkpoints, pulses, counts; one process at a time."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from typing import IO, TYPE_CHECKING

from evenflow.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


class UnitDirectory:
    """What one unit keeps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint"
        self.gates = path / "gates.jsonl"
        """The control history."""
        self.counts = path / "counts.json"
        self.rejected = path / "rejected.json"
        self.shares = path.parent.parent / "shares"
        """What gates left of batches and windows, of all units of the flow."""
        self.seed = path / "seed"
        """How far the sources were read where the unit begins, until it has begun."""

    def told(self, era: int) -> Path:
        """Return the file that tells batches of an era what they must know."""
        return self.path / f"told-{era}.txt"

    def forget_told(self, before: int) -> None:
        """Remove what batches of earlier eras were told."""
        for file in self.path.glob("told-*.txt"):
            if int(file.stem.removeprefix("told-")) < before:
                file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Forget the unit."""
        shutil.rmtree(self.path, ignore_errors=True)
        for file in self.shares.glob(f"*{self.path.name}-*"):
            file.unlink(missing_ok=True)

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

    @property
    def in_use(self) -> bool:
        """Whether a process holds the directory."""
        if not (self.path / "lock").exists():
            return False
        with (self.path / "lock").open() as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

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
        for name in ("units", "feed", "shares"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        self.manifest.unlink(missing_ok=True)

    def forget_status(self) -> None:
        """Remove the status of the run before: another one begins."""
        self.status.unlink(missing_ok=True)

    def unit(self, unit: str) -> UnitDirectory:
        """Return the folder of a unit."""
        return UnitDirectory(self.path / "units" / unit)

    def units(self) -> list[UnitDirectory]:
        """Return the folders of all units."""
        return [UnitDirectory(path) for path in sorted((self.path / "units").glob("*"))]

    def keep_units(self, units: Collection[str]) -> None:
        """Remove the folders of all other units: a change that was broken off may leave some."""
        for folder in (self.path / "units").glob("*"):
            if folder.name not in units:
                self.unit(folder.name).remove()

    def feed(self, source: str) -> Path:
        """Return the folder into which a source's finite data is laid as files."""
        return self.path / "feed" / source

    @property
    def manifest(self) -> Path:
        """The file of the manifest."""
        return self.path / "manifest.json"

    @property
    def status(self) -> Path:
        """The file of the last status."""
        return self.path / "status.json"


def new_state_id() -> str:
    """Return an id that keeps the files of two states apart in one sink."""
    return secrets.token_hex(4)
