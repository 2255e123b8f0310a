"""What works beside a run, as long as its units run: the seam of the control loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from evenflow.spark.run import Run


class Beside(Protocol):
    """Whoever works beside a run."""

    def prepare(self, run: Run) -> None:
        """Do what must be done before the units start."""
        ...

    def start(self) -> None:
        """Begin: they have started."""
        ...

    def stop(self) -> None:
        """End: they are about to stop. May be called without `start`."""
        ...
