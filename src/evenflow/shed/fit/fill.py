"""Giving back what an entry leaves of the capacities: entries are samples, rates lie between them.

Beyond the paper. It can only add to a score, so that bounds stay true; with many inputs, where
tables must be coarse, it is most of what they lose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers, Program

_MOST_REMEMBERED = 1024
_ENOUGH = 1e-12
"""Share of a rate or capacity that is not worth another step."""


class Filler:
    """Opens gates further, those first that bring most for the scarcest load.

    What comes to a gate behind the one that is opened is divided by it as before. So what a step
    brings and costs is proportional to its length, and known beforehand.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._capacity = program.capacity * (1.0 - _ENOUGH)
        self._ready: dict[int, tuple[Numbers, Numbers, Numbers]] = {}

    def filled(self, entry: int, flows: Numbers, supply: Numbers) -> Numbers:
        """Return flows that bring no less.

        Args:
            entry: Its number, to remember what was computed for it.
            flows: Of the entry, by gate.
            supply: What there is at each gate on an input arc; 0 for the others.
        """
        program = self._program
        effect, load, value = self._of_entry(entry, flows)
        flows = flows.copy()
        left = np.maximum(self._capacity - program.load @ flows, 0.0)
        for _ in range(2 * len(flows)):
            come = supply + program.arriving @ flows
            room = come - flows
            with np.errstate(divide="ignore", invalid="ignore"):
                steps = np.where(load > 0.0, left[:, None] / load, np.inf).min(axis=0)
                price = np.where(load > 0.0, load / left[:, None], 0.0).sum(axis=0)
                open_ = (room > _ENOUGH * come) & (steps > _ENOUGH * come) & (value > 0.0)
                worth = np.where(open_, value / price, 0.0)
            best = int(np.argmax(worth))
            if not worth[best] > 0.0:
                break
            step = min(room[best], steps[best])
            flows += effect[:, best] * step
            left = np.maximum(left - load[:, best] * step, 0.0)
        return flows

    def _of_entry(self, entry: int, flows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return what one more tuple behind each gate does to flows, loads and value."""
        ready = self._ready.get(entry)
        if ready is None:
            program = self._program
            come = program.arriving @ flows
            kept = np.divide(flows, come, out=np.ones_like(flows), where=come > 0.0)
            effect = np.eye(len(flows))
            for gate, fraction in enumerate(np.minimum(kept, 1.0)):
                if not program.gates[gate].on_input:
                    effect[gate] += fraction * (program.arriving[gate] @ effect)
            ready = (effect, program.load @ effect, program.value @ effect)
            if len(self._ready) >= _MOST_REMEMBERED:
                self._ready.clear()
            self._ready[entry] = ready
        return ready
