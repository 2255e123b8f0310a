"""What ended a unit's StreamingQuery: a line that says it, and whose fault it is."""

from __future__ import annotations

from dataclasses import dataclass

_FUNCTION = ("PythonException", "PYTHON_EXCEPTION", "UDFException", "FAILED_EXECUTE_UDF")
"""Marks of a user's function that failed, wherever it ran."""
_SOURCE = (
    "FileNotFoundException",
    "PATH_NOT_FOUND",
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE_FOOTER",
    "No such file or directory",
    "org.apache.kafka.",
    "KAFKA_DATA_LOSS",
    "UnknownTopicOrPartition",
    "TimeoutException",
    "Connection refused",
)
"""Marks of a source that cannot be read."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a unit ended."""

    reason: str
    in_function: bool
    """A user's function failed: it will again."""
    in_source: bool
    """A source cannot be read: it may come back."""


def failure_of(text: str) -> Failure:
    """Return what the text of Spark's exception says."""
    in_source = any(mark in text for mark in _SOURCE)
    in_function = not in_source and any(mark in text for mark in _FUNCTION)
    return Failure(_reason(text), in_function, in_source)


def _reason(text: str) -> str:
    """Return the most telling line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for mark in ("evenflow.errors.", "Caused by:", "Error: ", "Exception: "):
        for line in reversed(lines):
            if mark in line:
                return line.removeprefix("Caused by:").strip()[:300]
    return lines[0][:300] if lines else "unknown reason"
