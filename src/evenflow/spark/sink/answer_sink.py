"""What every sink can do, wherever its answers go."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from evenflow.errors import InternalError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


class AnswerSink(Protocol):
    """Takes the answers of one query."""

    by_executors: ClassVar[bool]
    """Whether tasks may write their own answers, to `target`; otherwise the driver writes."""
    format: str

    def write(self, answers: pa.Table, unit: str, batch: int) -> None:
        """Take the answers of a batch. Called again with the same batch after a crash."""
        ...

    def target(self, unit: str, batch: int, part: str = "") -> Path:
        """Return the file of a part of a batch's answers."""
        ...

    def files(self, unit: str, batch: int) -> list[Path]:
        """Return the files there are of a batch.

        Raises:
            SinkError: That cannot be known.
        """
        ...


class DriverSink:
    """A sink that only the driver's process can serve."""

    by_executors: ClassVar[bool] = False
    format = ""

    def target(self, unit: str, batch: int, part: str = "") -> Path:
        """There is no file."""
        raise InternalError(f"no file for {unit}, batch {batch}{part}")

    def files(self, unit: str, batch: int) -> list[Path]:  # noqa: ARG002
        """There are none."""
        return []
