"""Processor time of a process and of those that descend from it. Linux only; None elsewhere."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of `/proc/PID/stat` after the name: the parent; user and system time, own and of children
that have ended."""


def processor_seconds(pid: int) -> float | None:
    """Return what a process and its descendants have used so far."""
    found: dict[int, tuple[int, int]] = {}
    if not _PROC.is_dir():
        return None
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            # It may end while we look.
            with suppress(OSError, ValueError, IndexError):
                found[int(folder.name)] = parse_stat((folder / "stat").read_text())
    if pid not in found:
        return None
    tree = [pid]
    for each in tree:
        tree += [child for child, (parent, _) in found.items() if parent == each]
    return sum(found[each][1] for each in tree) / os.sysconf("SC_CLK_TCK")


def parse_stat(text: str) -> tuple[int, int]:
    """Return parent and ticks of a `/proc/PID/stat`."""
    # The name may hold blanks and parentheses; the last one ends it.
    fields = text.rpartition(")")[2].split()
    return int(fields[_PARENT]), sum(map(int, fields[_TIMES]))
