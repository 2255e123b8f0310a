"""Giving back what an entry leaves of the capacities: entries are samples, rates lie between them.

Beyond the paper. It can only add to a score, so that bounds stay true; with many inputs, where
tables must be coarse, it is most of what they lose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evenflow.shed.program import Numbers, Program

_MOST_REMEMBERED = 4096
_ENOUGH = 1e-12
"""Share of a rate or capacity that is not worth another step."""


class Filler:
    """Opens the gates on input arcs further, those first that bring most for the scarcest load.

    Gates on splits keep the fractions of the entry, so that load and value are proportional to
    the flows behind input arcs.
    """

    def __init__(self, program: Program, inlets: NDArray[np.intp]) -> None:
        self._program = program
        self._inlets = inlets
        self._splits = [i for i, gate in enumerate(program.gates) if not gate.on_input]
        self._ready: dict[int, tuple[Numbers, Numbers, Numbers]] = {}

    def filled(self, row: int, flows: Numbers, arriving: Numbers) -> Numbers:
        """Return flows that are no smaller.

        Args:
            row: Number of the entry, to remember what was computed for it.
            flows: Of the entry, by gate.
            arriving: What there is at each input arc.
        """
        spread, load, value = self._of_entry(row, flows)
        sent = np.minimum(flows[self._inlets], arriving)
        left = self._program.capacity * (1.0 - _ENOUGH) - load @ sent
        room = arriving - sent
        while True:
            room[room <= _ENOUGH * arriving] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                steps = np.where(load > 0.0, left[:, None] / load, np.inf).min(axis=0)
                price = np.where(load > 0.0, load / left[:, None], 0.0).sum(axis=0)
                worth = np.where((room > 0.0) & (steps > 0.0) & (value > 0.0), value / price, 0.0)
            best = int(np.argmax(worth))
            if not worth[best] > 0.0:
                filled: Numbers = spread @ sent
                return filled
            step = min(room[best], steps[best])
            sent[best] += step
            left = np.maximum(left - load[:, best] * step, 0.0)
            room[best] = 0.0

    def _of_entry(self, row: int, flows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        ready = self._ready.get(row)
        if ready is None:
            program = self._program
            spread = np.zeros((len(program.gates), len(self._inlets)))
            spread[self._inlets, np.arange(len(self._inlets))] = 1.0
            for gate in self._splits:
                come = program.arriving[gate] @ flows
                kept = min(1.0, flows[gate] / come) if come > 0.0 else 1.0
                spread[gate] = kept * (program.arriving[gate] @ spread)
            ready = (spread, program.load @ spread, program.value @ spread)
            if len(self._ready) >= _MOST_REMEMBERED:
                self._ready.clear()
            self._ready[row] = ready
        return ready
