"""The gates of all units: what is asked of them, by query, and their control histories."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from evenflow.spark.gate.history import ControlHistory
from evenflow.spark.unit.checkpoint import first_unplanned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from evenflow.model.unit import Unit
    from evenflow.schedule.layout import UnitLayout
    from evenflow.schedule.life import Life
    from evenflow.spark.state.directory import StateDirectory


class FlowGates:
    """Tells units what their gates are to keep. Queries that are not named keep everything."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._histories: dict[str, ControlHistory] = {}
        self._keep: dict[str, float] = {}

    @property
    def keep(self) -> dict[str, float]:
        """The fractions that were asked for, by query; those that are not 1."""
        return dict(self._keep)

    def history(self, unit: str) -> ControlHistory:
        """Return that of a unit."""
        if unit not in self._histories:
            self._histories[unit] = ControlHistory(self._directory.unit(unit).gates)
        return self._histories[unit]

    def find(self, life: Life) -> None:
        """Take over what an earlier process has left.

        A unit that has begun no batch since gates were set does not know of them: of several units
        with a query, the one that keeps least tells.
        """
        names = life.names
        for layout in life.units:
            for number, fraction in self.history(layout.id).newest.items():
                name = names.get(number)
                if name is not None and number in layout.numbers:
                    self._keep[name] = min(fraction, self._keep.get(name, 1.0))

    def set(
        self, keep: Mapping[str, float], life: Life, units: Iterable[tuple[Unit, UnitLayout]]
    ) -> None:
        """Ask units for fractions; queries that are no more have none.

        Who shares a gate may leave while the state holds what it has dropped: units are told what
        gates really keep.
        """
        self._keep = {name: f for name, f in keep.items() if f < 1.0 and name in life.queries}
        names = life.names
        for unit, layout in units:
            wanted = {number: self._keep.get(names[number], 1.0) for number in layout.numbers}
            self.history(layout.id).ask(unit.with_shared_gates(wanted))

    def keep_for_next(self, units: Iterable[str]) -> None:
        """Have what was asked for, and no batch has had yet, hold in the next process."""
        for unit in units:
            # Without room on the disk it is lost, as in a crash.
            with suppress(OSError):
                self.history(unit).keep_asked(
                    first_unplanned(self._directory.unit(unit).checkpoint)
                )
