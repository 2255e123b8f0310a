"""What a process and those that descend from it take: memory, threads, files. Linux only."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_MB = 1024 * 1024
_USED = re.compile(r"^\s*(\S+).*?\bused (\d+)K", re.MULTILINE)
_TOTALS = ("PSYoungGen", "ParOldGen", "def", "tenured", "garbage-first")
"""Lines of GC.heap_info that add up to the heap, of all collectors; others tell their parts."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment."""

    pid: int
    parent: int
    name: str
    rss_mb: float
    threads: int

    @property
    def is_java(self) -> bool:
        """Whether it is a JVM."""
        return self.name == "java"

    def open_files(self) -> int:
        """Return how many files and sockets it has open; 0 if it is gone."""
        try:
            return sum(1 for _ in (_PROC / str(self.pid) / "fd").iterdir())
        except OSError:
            return 0


def parse_status(text: str) -> Process:
    """Return the process that a `/proc/PID/status` describes."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return Process(
        pid=int(fields["Pid"]),
        parent=int(fields["PPid"]),
        name=fields["Name"].strip(),
        # A process that has ended but was not waited for has none.
        rss_mb=int(fields.get("VmRSS", "0 kB").split()[0]) / 1024,
        threads=int(fields["Threads"]),
    )


def descendants(pid: int) -> list[Process]:
    """Return a process and all that descend from it, itself first."""
    found: dict[int, Process] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            # It may end while we look.
            with suppress(OSError, KeyError, ValueError):
                each = parse_status((folder / "status").read_text())
                found[each.pid] = each
    tree = [found[pid]]
    for each in tree:
        tree += [child for child in found.values() if child.parent == each.pid]
    return tree


@dataclass(frozen=True, slots=True)
class Heap:
    """A JVM's memory."""

    heap_mb: float
    metaspace_mb: float
    """Classes, those that Spark generates among them."""


def parse_heap(text: str) -> Heap:
    """Return what `jcmd PID GC.heap_info` says is used."""
    used = [(name, int(kib) / 1024) for name, kib in _USED.findall(text)]
    return Heap(
        heap_mb=sum(mb for name, mb in used if name in _TOTALS),
        metaspace_mb=sum(mb for name, mb in used if name == "Metaspace"),
    )


def heap_after_gc(pid: int) -> Heap | None:
    """Have a JVM collect its garbage and return what is left; None without a JDK."""
    jcmd = Path(os.environ.get("JAVA_HOME", "")) / "bin" / "jcmd"
    if not jcmd.is_file():
        return None
    asked = [
        subprocess.run(
            [str(jcmd), str(pid), command], capture_output=True, text=True, timeout=60, check=False
        )
        for command in ("GC.run", "GC.heap_info")
    ]
    return parse_heap(asked[1].stdout) if asked[1].returncode == 0 else None


def files_under(folder: Path) -> tuple[int, float]:
    """Return how many files there are under a folder, and their megabytes."""
    count, size = 0, 0
    for path in folder.rglob("*"):
        # A file may go while we look.
        with suppress(OSError):
            if path.is_file():
                count += 1
                size += path.stat().st_size
    return count, size / _MB
