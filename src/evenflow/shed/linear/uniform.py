"""Uniform drop: one fraction for all inputs. The safe plan when a solver fails or is slow.

No gate of a split drops. Inputs that feed a query with a floor keep at least that share, so that
floors hold; inputs before `shed: never` keep everything. Finding it takes arithmetic only. A floor
that some inputs could serve for others, or a gate at a split could make room for, may leave none
that fits: `even` has a plan then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.check import Checker
    from evenflow.shed.plan import SheddingPlan
    from evenflow.shed.program import Numbers, Program


class Uniform:
    """Makes uniform plans for one network."""

    def __init__(self, program: Program, checker: Checker) -> None:
        self._program = program
        self._checker = checker
        self._least = _least_fractions(program)
        # Load per tuple behind each input arc, gates of splits open; rows of those gates do not
        # count, because no input comes to them.
        self._per_flow = program.load @ program.opened

    def plan(self, rates: Mapping[str, float]) -> SheddingPlan | None:
        """Return the plan with the greatest fraction that fits, or None if there is none."""
        fraction = self._fraction(self._program.rate_vector(rates))
        if fraction is None:
            return None
        kept = np.maximum(self._least, fraction)
        keep = {
            gate.name: float(share) if gate.on_input else 1.0
            for gate, share in zip(self._program.gates, kept, strict=True)
            if not gate.open
        }
        return self._checker.plan_of(rates, keep, "uniform")

    def _fraction(self, rates: Numbers) -> float | None:
        """Return the greatest fraction that fits.

        Load is linear in it between the least fractions of inputs, so that the last piece in which
        the load still fits holds the answer.
        """
        edges = np.unique(np.concatenate(([0.0, 1.0], self._least)))[::-1]
        if not self._fits(edges[-1], rates):
            return None
        for high, low in zip(edges, [*edges[1:], 0.0], strict=True):
            if self._fits(high, rates):
                return float(high)
            if self._fits(low, rates):
                above, below = self._load(high, rates), self._load(low, rates)
                room, grown = self._program.capacity - below, above - below
                share = np.min(room[grown > 0] / grown[grown > 0])
                return float(low + (high - low) * share)
        return None

    def _fits(self, fraction: float, rates: Numbers) -> bool:
        return bool(np.all(self._load(fraction, rates) <= self._program.capacity))

    def _load(self, fraction: float, rates: Numbers) -> Numbers:
        kept = np.maximum(self._least, fraction)
        made: Numbers = self._per_flow @ (kept * (self._program.supply @ rates))
        return made


def _least_fractions(program: Program) -> Numbers:
    """Return by gate what it keeps at least: the greatest floor behind it, or everything."""
    network = program.network
    behind = [
        frozenset[str]().union(*(network.reach[arc.consumer] for arc in gate.arcs))
        for gate in program.gates
    ]
    return np.array(
        [
            1.0
            if gate.open
            else max(
                [0.0, *(network.queries[name].floor for name in names if name in network.queries)]
            )
            for gate, names in zip(program.gates, behind, strict=True)
        ]
    )
