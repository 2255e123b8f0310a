"""The points at which a flow kills itself, put around the product's functions from outside.

Which point is armed stands in a file that the test writes, and is looked up whenever one is
reached: a flow can be armed before it starts and while it runs.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from pydoc import locate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_UNIT = "evenflow.spark.unit.unit_run.UnitRun"
_UNITS = "evenflow.spark.units.Units"
_CHANGE, _BUILD, _SOW = f"{_UNITS}.change", f"{_UNITS}.build", f"{_UNITS}._take_over"


@dataclass(frozen=True)
class Point:
    """A moment before or after a call."""

    call: str
    after: bool = False
    within: str | None = None
    """Only when called, by the same thread, from within this one."""
    outside: str | None = None
    changed: bool | None = None
    """Whether a change that is killed here has happened; None if it may or may not have."""


def _before(call: str, within: str | None = None, changed: bool | None = None) -> Point:
    return Point(call, within=within, changed=changed)


def _after(call: str, within: str | None = None, changed: bool | None = None) -> Point:
    return Point(call, after=True, within=within, changed=changed)


BATCH = {
    "batch begun": _before(f"{_UNIT}._run_batch"),
    "before a write": _before("evenflow.spark.sink.sinks.FileSink.write"),
    "written beside": _before("pathlib.Path.replace", "evenflow.spark.sink.sinks.FileSink.write"),
    "after a write": _after("evenflow.spark.sink.sinks.FileSink.write"),
    "answers, no counts": _before(f"{_UNIT}._save_counts"),
    "counts, no commit": _after(f"{_UNIT}._save_counts"),
    "after the commit": _after(f"{_UNIT}._run_batch"),
}
"""While a flow reads."""

EXECUTORS = {"executors wrote": _after("evenflow.spark.unit.batch.deliver_remotely")}
"""In the first batch without windows after a start, whose files executors write."""

GATES = {
    "gates changed, no commit": _after(
        "evenflow.spark.gate.history.ControlHistory._append", f"{_UNIT}._run_batch"
    ),
}
"""In a batch whose next one gets other gates: it is done again with its own."""

CHANGE = {
    "before stopping": _before(f"{_UNIT}.stop", _CHANGE, changed=False),
    "after stopping": _after(f"{_UNIT}.stop", _CHANGE, changed=False),
    "before the manifest": _before("evenflow.spark.units.write_manifest", _CHANGE, changed=False),
    "half a manifest": _before(
        "pathlib.Path.replace", "evenflow.spark.units.write_manifest", changed=False
    ),
    "after the manifest": _after("evenflow.spark.units.write_manifest", _CHANGE, changed=True),
    "before starting": _before(f"{_UNIT}.start", _CHANGE, changed=True),
    "after starting": _after(f"{_UNIT}.start", _CHANGE, changed=True),
}
"""While a change is made that restarts a unit."""

SEED = {
    "before the seed": _before("evenflow.spark.units.keep_seed", _CHANGE, changed=False),
    "after the seed": _after("evenflow.spark.units.keep_seed", _CHANGE, changed=False),
    "before sowing": _before(_SOW, changed=True),
    "while sowing": _after("evenflow.spark.unit.seed._write", changed=True),
    "seed half removed": Point("os.unlink", after=True, within=_SOW, changed=True),
    "after sowing": _after(_SOW, changed=True),
    "new unit, before starting": _before(f"{_UNIT}.start", _CHANGE, changed=True),
}
"""While a change is made that opens a unit."""

RECOVERY = {
    "before recovery": _before(_BUILD),
    "recovery, before the manifest": _before("evenflow.spark.units.write_manifest", _BUILD),
    "recovery, after the manifest": _after("evenflow.spark.units.write_manifest", _BUILD),
    "recovery, before starting": Point(f"{_UNIT}.start", outside=_CHANGE),
    "recovery, after starting": Point(f"{_UNIT}.start", after=True, outside=_CHANGE),
}
"""While a flow starts."""

STOP = {
    "stopping": Point(f"{_UNIT}.stop", after=True, outside=_CHANGE),
    "before the status": _before("evenflow.spark.run.write_json"),
}
"""While a flow ends."""

POINTS = {**BATCH, **GATES, **EXECUTORS, **CHANGE, **SEED, **RECOVERY, **STOP}
_COMMITTED = "after the commit"


class Trap:
    """Counts how often the armed point is reached, and kills."""

    def __init__(self, armed: Path) -> None:
        self._armed = armed
        self._lock = threading.Lock()
        self._text = ""
        self._left = 0
        self.inside = threading.local()

    def reach(self, name: str, *args: Any) -> None:
        """Die here if it is the time that was asked for."""
        point = POINTS[name]
        within = getattr(self.inside, "calls", [])
        if point.within is not None and point.within not in within:
            return
        if point.outside is not None and point.outside in within:
            return
        with self._lock:
            text = self._armed.read_text() if self._armed.exists() else ""
            if not text:
                return
            armed = json.loads(text)
            if armed["point"] != name:
                return
            if text != self._text:
                self._text, self._left = text, armed["times"]
            self._left -= 1
            if self._left:
                return
        if name == _COMMITTED:
            threading.Thread(target=_die_when_committed, args=(name, *args[:1], args[2])).start()
        else:
            die(name)


def die(name: str) -> None:
    """Kill this process, the JVM and all others of the group."""
    os.write(sys.stderr.fileno(), f"killed: {name}\n".encode())
    os.killpg(0, signal.SIGKILL)


def _die_when_committed(name: str, run: Any, batch: int) -> None:
    commit = run.directory.checkpoint / "commits" / str(batch)
    while not commit.exists():
        time.sleep(0.0005)
    die(name)


def put_points(armed: Path) -> None:
    """Put all points around the product's functions.

    Args:
        armed: File that says which one is armed.
    """
    trap = Trap(armed)
    scopes = {scope for p in POINTS.values() for scope in (p.within, p.outside) if scope}
    for call in sorted({p.call for p in POINTS.values()} | scopes):
        before = [n for n, p in POINTS.items() if p.call == call and not p.after]
        after = [n for n, p in POINTS.items() if p.call == call and p.after]
        owner, _, attribute = call.rpartition(".")
        holder = locate(owner)
        setattr(holder, attribute, _around(getattr(holder, attribute), call, trap, before, after))


def _around(
    function: Callable[..., Any], call: str, trap: Trap, before: list[str], after: list[str]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in before:
            trap.reach(name, *args)
        calls = trap.inside.__dict__.setdefault("calls", [])
        calls.append(call)
        try:
            found = function(*args, **kwargs)
        finally:
            calls.remove(call)
        for name in after:
            trap.reach(name, *args)
        return found

    return called
