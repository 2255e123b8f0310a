"""Records of decisions in the state directory: lines of JSON, the newest last, not too many.

A process may end in the middle of a line; the next one writes on a new line, and readers leave out
what is not whole.
"""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evenflow.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 1
FILE = "decisions.jsonl"
MOST_LINES = 4000
"""Then the older half goes."""


class Journal:
    """Writes records. One writer at a time: the process that holds the state directory."""

    def __init__(self, state: Path) -> None:
        self._file = state / FILE
        self._lines = 0
        if self._file.exists():
            text = self._file.read_bytes()
            self._lines = text.count(b"\n")
            if text and not text.endswith(b"\n"):
                # Half a line of a process that ended while it wrote.
                with self._file.open("ab") as handle:
                    handle.write(b"\n")
                self._lines += 1

    def write(self, entry: Mapping[str, Any]) -> None:
        """Add a record, or nothing of it.

        Raises:
            OSError: There is no room, or it may not be written.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"evenflow": FORMAT, **entry}, ensure_ascii=False).encode() + b"\n"
        with self._file.open("ab", buffering=0) as handle:
            end = handle.tell()
            try:
                if handle.write(line) < len(line):
                    raise OSError(errno.ENOSPC, "the disk took half a record")
            except OSError:
                # The next one would stand behind half a line, and be lost with it.
                handle.truncate(end)
                raise
        self._lines += 1
        if self._lines > MOST_LINES:
            with suppress(OSError):  # the record is there; older ones go another time
                self._shorten()

    def last_number(self) -> int:
        """Return the number of the newest decision, 0 if there is none."""
        return max((d["decision"] for d in read_decisions(self._file.parent)), default=0)

    def _shorten(self) -> None:
        lines = self._file.read_text(encoding="utf-8").splitlines()[-MOST_LINES // 2 :]
        beside = self._file.with_name(FILE + ".new")
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
        beside.replace(self._file)
        self._lines = len(lines)


def read_decisions(state: Path) -> list[dict[str, Any]]:
    """Return the decisions of a flow, running or not, each with its outcome, the newest last.

    Raises:
        StateError: The file is of another version.
    """
    found: dict[int, dict[str, Any]] = {}
    for entry in _entries(state / FILE):
        if "decision" in entry:
            told = {k: v for k, v in entry.items() if k != "evenflow"}
            told |= {"applied": None, "measured": None, "reason": None}
            found[entry["decision"]] = told
        elif entry.get("outcome") in found:
            of = found[entry["outcome"]]
            of["applied"] = bool(of["applied"] or entry["applied"])
            of["measured"] = entry["measured"] or of["measured"]
            of["reason"] = entry["reason"] or of["reason"]
    return [found[number] for number in sorted(found)]


def _entries(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    entries = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict):
            continue
        if entry.get("evenflow") != FORMAT:
            raise StateError(
                f"{file} has records of format {str(entry.get('evenflow'))[:20]}, this version of "
                f"Evenflow reads {FORMAT}",
                "use the version that wrote it",
            )
        entries.append(entry)
    return entries
