"""Finding the Java that Spark needs, in the order in which scripts/setup looks for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import EnvironmentFaultError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST = 17
NEEDED_MODULE = "jdk.incubator.vector"
"""Spark's launcher asks for it; trimmed runtimes do not have it."""
HOW_TO_GET = "Debian: apt-get install openjdk-17-jre-headless; or set JAVA_HOME to one"

_PLACES = (
    ("/usr/lib/jvm", "*"),
    ("/opt/java", "*"),
    ("/opt", "*"),
    ("/usr/local", "*"),
    ("~/.sdkman/candidates/java", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
)
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class Java:
    """One installation."""

    home: Path
    version: int
    """17, 21 ...; 0 if it does not say."""
    has_module: bool
    """Whether it has the module that Spark's launcher asks for."""

    @property
    def fits(self) -> bool:
        """Whether Spark runs on it."""
        return self.version >= OLDEST and self.has_module


@cache
def inspect_java(home: Path) -> Java | None:
    """Return what is installed under a directory; None if it is not Java or does not start."""
    binary = home / "bin" / "java"
    if not binary.is_file():
        return None
    try:
        shown = _output(binary, "-version")
        found = _VERSION.search(shown)
        version = int(found.group(1)) if found else 0
        modules = _output(binary, "--list-modules") if version >= OLDEST else ""
    except (OSError, subprocess.SubprocessError):
        return None
    return Java(home, version, NEEDED_MODULE in modules)


def find_java(environment: Mapping[str, str] | None = None) -> Java | None:
    """Return the first Java that Spark runs on: JAVA_HOME, then PATH, then the usual places."""
    for home in _homes(os.environ if environment is None else environment):
        java = inspect_java(home)
        if java is not None and java.fits:
            return java
    return None


def launched_java(environment: Mapping[str, str]) -> Path | None:
    """Return the directory of the Java that Spark's launcher would take, as things are."""
    home = environment.get("JAVA_HOME")
    if home:
        return Path(home)
    found = shutil.which("java", path=environment.get("PATH"))
    return None if found is None else Path(found).resolve().parent.parent


def use_java() -> Path:
    """Make Spark's launcher take a Java that fits, by setting JAVA_HOME where it is needed.

    Raises:
        EnvironmentFaultError: There is none.
    """
    java = find_java()
    if java is None:
        raise EnvironmentFaultError(f"Java {OLDEST} or newer was not found", HOW_TO_GET)
    if launched_java(os.environ) != java.home:
        os.environ["JAVA_HOME"] = str(java.home)
    return java.home


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    first = launched_java(environment)
    if first is not None:
        yield first
    on_path = launched_java({"PATH": environment.get("PATH", "")})
    if on_path is not None:
        yield on_path
    for place, pattern in _PLACES:
        yield from sorted(Path(place).expanduser().glob(pattern))


def _output(binary: Path, argument: str) -> str:
    done = subprocess.run(  # a fixed argument to a binary that was looked up
        [str(binary), argument], capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout + done.stderr
