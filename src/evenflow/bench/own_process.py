"""Cases in processes of their own: a JVM has its flags, its warmth and its garbage for life.

The parent hands a task to a benchmark's module as JSON; the child prints one JSON object per line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from evenflow.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LAST_LINES = 5


def results_of(
    module: str,
    task: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield what a module prints about a task, as it comes.

    Raises:
        RunError: The process failed; with the last lines that it said.
    """
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(task)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(environment or {})},
        ) as process,
    ):
        for line in process.stdout or ():
            if line.startswith("{"):
                yield json.loads(line)
        if process.wait() != 0:
            errors.seek(0)
            tail = "\n".join(errors.read().splitlines()[-_LAST_LINES:])
            raise RunError(f"{module} failed: {tail}")


def given_task() -> dict[str, Any]:
    """Return the task of this process."""
    return dict(json.loads(sys.argv[1]))


def tell(result: Mapping[str, Any]) -> None:
    """Hand a result to the parent."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
