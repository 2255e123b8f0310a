"""Whether every attempt at a batch had the gates that hold for it, and what it dropped."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.spark.compile.gates import threshold
from evenflow.spark.gate.history import OPEN, GateRow
from evenflow.spark.unit.checkpoint import committed_batch

if TYPE_CHECKING:
    from pathlib import Path

_BOUNDS = 2
"""What a batch is told before the gates."""


@dataclass(frozen=True)
class Batch:
    """A batch of a unit, over all attempts at it."""

    unit: str
    number: int
    begin: dict[str, int]
    end: dict[str, int]
    """Up to where it reads: tick, index, rows."""
    row: GateRow
    """The row of the control history that holds for it."""
    is_committed: bool
    attempts: tuple[dict[str, Any], ...]
    counted: tuple[dict[str, Any], ...]
    """Of those attempts that came so far: what they dropped. Without windows only."""

    @property
    def rows(self) -> int:
        """How many tuples it reads."""
        return self.end["rows"] - self.begin["rows"]

    def parts(self, query: str) -> list[int]:
        """Return the parts of a query that count its tuples."""
        last = self.attempts[-1]
        return [n for n in last["taken"] if last["queries"].get(str(n)) == query]

    @property
    def drops(self) -> bool:
        """Whether a gate of one of its parts is shut."""
        return self.rows > 0 and any(self.row.fraction(n) < 1.0 for n in self.attempts[-1]["taken"])


@dataclass
class Attempts:
    """All batches of all units that are still there."""

    batches: list[Batch] = field(default_factory=list)

    @property
    def repeated(self) -> list[Batch]:
        """Batches that were worked on more than once, while gates dropped."""
        return [batch for batch in self.batches if batch.drops and len(batch.attempts) > 1]

    def dropping_units(self, process: int | None) -> set[str]:
        """Return the units of which batches dropped that a process worked on."""
        return {
            batch.unit
            for batch in self.batches
            if batch.drops and any(each["process"] == process for each in batch.attempts)
        }

    def has_new_batch(self, process: int | None) -> bool:
        """Return whether a process has come to a batch that nobody has worked on before."""
        return any(batch.attempts[0]["process"] == process for batch in self.batches)

    def has_opened(self, process: int | None) -> bool:
        """Return whether a process has had a batch with all gates open, behind one that dropped."""
        shut: set[str] = set()
        for batch in self.batches:
            if batch.drops:
                shut.add(batch.unit)
            elif batch.unit in shut and batch.rows and batch.attempts[-1]["process"] == process:
                return True
        return False

    def wrong(self) -> list[str]:
        """Return what some attempts had that does not hold for their batch."""
        return [fault for batch in self.batches for fault in _faults(batch)]

    def of(self, query: str) -> list[Batch]:
        """Return the batches that are done and counted tuples for a query."""
        return [batch for batch in self.batches if batch.is_committed and batch.parts(query)]


def read_attempts(file: Path, state: Path) -> Attempts:
    """Return what was recorded, of batches that were planned in units that are still there."""
    begun: dict[tuple[str, int], list[dict[str, Any]]] = {}
    counted: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        entry = json.loads(line)
        into = counted if "counted" in entry else begun
        into.setdefault((entry["unit"], entry["batch"]), []).append(entry)
    units = {folder.name: folder for folder in (state / "units").glob("*")}
    rows = {name: _rows(folder / "gates.jsonl") for name, folder in units.items()}
    committed = {
        name: committed_batch(folder / "checkpoint") or 0 for name, folder in units.items()
    }
    return Attempts(
        [
            Batch(
                unit=unit,
                number=number,
                begin=several[-1]["from"],
                end=several[-1]["to"],
                row=next(row for row in rows[unit] if row.batch <= number),
                is_committed=number <= committed[unit],
                attempts=tuple(several),
                counted=tuple(counted.get((unit, number), ())),
            )
            for (unit, number), several in sorted(begun.items())
            if unit in units
        ]
    )


def _rows(file: Path) -> list[GateRow]:
    """Return a control history, the newest row first. A flow may run on it, and be writing one."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    bodies = [json.loads(line)["body"] for line in lines]
    made = [
        GateRow(b["batch"], b["version"], {int(part): kept for part, kept in b["keep"].items()})
        for b in bodies
    ]
    return [*reversed(made), OPEN]


def _faults(batch: Batch) -> list[str]:
    """Compare each attempt with the row that holds."""
    found = []
    for attempt in batch.attempts:
        told, wanted = _told(attempt), _wanted(batch.row, attempt)
        if told is not None and told != wanted:
            found.append(f"{batch.unit}, batch {batch.number}: was told {told}, not {wanted}")
        if (attempt["from"], attempt["to"]) != (batch.begin, batch.end):
            found.append(f"{batch.unit}, batch {batch.number}: read something else")
    dropped = Counter(json.dumps(each["dropped"], sort_keys=True) for each in batch.counted)
    if len(dropped) > 1:
        found.append(f"{batch.unit}, batch {batch.number}: dropped {dropped}")
    for each in batch.counted:
        shut = {str(n) for n in batch.attempts[-1]["taken"] if batch.row.fraction(n) < 1.0}
        if set(each["dropped"]) != shut:
            found.append(f"{batch.unit}, batch {batch.number}: dropped for {each['dropped']}")
    return found


def _told(attempt: dict[str, Any]) -> list[int] | None:
    """Return version and thresholds that an attempt was told; None without windows."""
    told = attempt["told"]
    if told is None:
        return None
    return [told[_BOUNDS], *told[_BOUNDS + 1 + attempt["words"] :]]


def _wanted(row: GateRow, attempt: dict[str, Any]) -> list[int]:
    fractions = [max(map(row.fraction, parts), default=1.0) for parts in attempt["gates"]]
    return [row.version, *map(threshold, fractions)]
