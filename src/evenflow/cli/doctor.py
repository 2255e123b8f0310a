"""`evenflow doctor`: what this machine has, what is missing, and how to get it. Starts no Spark."""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenflow.cli.command import (
    AsFormat,
    AsJson,
    Format,
    Verbose,
    guarded,
    put,
    put_json,
    say,
    wants_json,
)
from evenflow.cli.table import text_table
from evenflow.spark.java import (
    HOW_TO_GET,
    NEEDED_MODULE,
    OLDEST,
    find_java,
    inspect_java,
    launched_java,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_FREE_BYTES = 1_000_000_000

PACKAGES = (
    ("pyspark", ">=4.2,<5", (4, 2), (5,)),
    ("pandas", ">=2.2,<3", (2, 2), (3,)),
    ("pyarrow", ">=18", (18,), None),
    ("google.protobuf", ">=5.29", (5, 29), None),
    ("numpy", ">=1.26", (1, 26), None),
    ("sqlglot", ">=27", (27,), None),
)
"""What runs need: module, range for people, lowest version, first version that is too new."""


class Verdict(enum.Enum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a run needs."""

    name: str
    verdict: Verdict
    found: str
    how: str = ""
    """How to get it, if it is missing."""


@guarded
def doctor(
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Say what this machine lacks to run flows, and how to get it."""
    checks = examine(os.environ)
    missing = [check for check in checks if check.verdict is Verdict.MISSING]
    if wants_json(as_json, format_):
        put_json({"ok": not missing, "checks": [_as_dict(check) for check in checks]})
    else:
        rows = [[c.name, c.verdict.value, c.found, c.how] for c in checks]
        put(text_table(["what", "verdict", "found", "how to get it"], rows))
    if missing:
        say(f"missing: {', '.join(check.name for check in missing)}")
        raise typer.Exit(1)


def examine(environment: Mapping[str, str]) -> list[Check]:
    """Return all checks, in the order in which they are shown."""
    return [
        _python(),
        _java(environment),
        _java_home(environment),
        *(_package(*wanted) for wanted in PACKAGES),
        _worker_python(environment),
        _temp(),
        _disk("disk here", Path.cwd()),
        _disk("disk for temporary files", Path(tempfile.gettempdir())),
    ]


def _as_dict(check: Check) -> dict[str, str]:
    return {
        "name": check.name,
        "verdict": check.verdict.value,
        "found": check.found,
        "how": check.how,
    }


def _python() -> Check:
    fits = sys.version_info >= (3, 11)
    verdict = Verdict.OK if fits else Verdict.MISSING
    return Check(
        "Python", verdict, platform.python_version(), "" if fits else "Python 3.11 or newer"
    )


def _java(environment: Mapping[str, str]) -> Check:
    java = find_java(environment)
    if java is not None:
        return Check("Java", Verdict.OK, f"{java.version} in {java.home}")
    home = launched_java(environment)
    other = None if home is None else inspect_java(home)
    if other is None:
        return Check("Java", Verdict.MISSING, "none", HOW_TO_GET)
    if other.version < OLDEST:
        found = f"{other.version} in {other.home}, older than {OLDEST}"
    else:
        found = f"{other.version} in {other.home} without the module {NEEDED_MODULE}"
    return Check("Java", Verdict.MISSING, found, HOW_TO_GET)


def _java_home(environment: Mapping[str, str]) -> Check:
    """Compare what other programs would start with what Evenflow takes."""
    home, java = launched_java(environment), find_java(environment)
    shown = environment.get("JAVA_HOME") or "not set"
    if java is None or (home is not None and home.resolve() == java.home.resolve()):
        return Check("JAVA_HOME", Verdict.OK, shown)
    how = f"set it to {java.home}; Evenflow takes that one where it makes the session"
    return Check("JAVA_HOME", Verdict.WARNING, shown, how)


def _package(module: str, wanted: str, low: tuple[int, ...], high: tuple[int, ...] | None) -> Check:
    name = {"google.protobuf": "protobuf"}.get(module, module)
    how = f"pip install '{name}{wanted}'"
    try:
        importlib.import_module(module)
        version = importlib.metadata.version(name)
    except (ImportError, importlib.metadata.PackageNotFoundError) as exc:
        return Check(name, Verdict.MISSING, f"cannot be imported: {exc}"[:80], how)
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers < low or (high is not None and numbers >= high):
        return Check(name, Verdict.MISSING, f"{version}, needed is {wanted}", how)
    return Check(name, Verdict.OK, version)


def _worker_python(environment: Mapping[str, str]) -> Check:
    name = "PYSPARK_PYTHON"
    for variable in (name, "PYSPARK_DRIVER_PYTHON"):
        value = environment.get(variable)
        if value and Path(shutil.which(value) or value).absolute() != Path(sys.executable):
            how = f"unset {variable}, or set it to {sys.executable}"
            return Check(name, Verdict.WARNING, f"{variable} is {value}", how)
    return Check(name, Verdict.OK, environment.get(name) or "not set")


def _temp() -> Check:
    name = "temporary files"
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
    except OSError as exc:
        return Check(name, Verdict.MISSING, f"cannot be written: {exc.strerror}", "set TMPDIR")
    return Check(name, Verdict.OK, tempfile.gettempdir())


def _disk(name: str, place: Path) -> Check:
    free = shutil.disk_usage(place).free
    found = f"{free / 1e9:.1f} GB free in {place}"
    if free < LEAST_FREE_BYTES:
        return Check(name, Verdict.WARNING, found, "free at least 1 GB")
    return Check(name, Verdict.OK, found)
