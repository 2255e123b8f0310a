"""What one node lets through, from its own table and what arrives: plan selection of `d-fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.quadtree import PointQuadtree

if TYPE_CHECKING:
    from evenflow.shed.fit.part import Part
    from evenflow.shed.fit.survey import Survey
    from evenflow.shed.fit.table import Table
    from evenflow.shed.program import Numbers

_NEAR = 1e-9
"""Relative difference at which what arrives is what an entry asks for."""


class LocalChoice:
    """Selects entries of one node's table.

    The root scales its inputs down to an entry. What arrives at other nodes is what an entry of
    theirs asks for, because the parent made its plan from it: they find that entry again.
    """

    def __init__(self, part: Part, survey: Survey, table: Table) -> None:
        self._part = part
        self._table = table
        self._quadtree = PointQuadtree(table.rates, table.scores)
        self._strains = np.array(survey.strains)
        self._values = np.array(survey.values)
        self._inlets = np.array(part.inlets, dtype=bool)
        self._free = self._inlets & np.all(self._strains == 0.0, axis=0)
        """Inputs that strain nothing are never scaled down."""

    def choose(self, arriving: Numbers) -> tuple[Numbers, int | None]:
        """Return the flow behind each head, and the entry that was taken, if one was.

        Args:
            arriving: Along each dimension.
        """
        if self._fits(arriving):
            return self._open(arriving), None
        useful = np.where((self._values > 0.0) | ~self._inlets, arriving, 0.0)
        if self._fits(useful):
            return self._open(useful), None
        free = self._open(np.where(self._free, useful, 0.0))
        row = self._row(useful)
        if row is None:
            return free, None
        flows: Numbers = self._table.flows[row] + free
        # What has no gate comes as it is; the entry says the same, but for rounding.
        dimensions = len(self._part.dimensions)
        flows[:dimensions] = np.where(self._inlets, flows[:dimensions], useful)
        return flows, row

    def _row(self, arriving: Numbers) -> int | None:
        if np.all(self._inlets):
            return self._quadtree.best_below(arriving)
        given = ~self._inlets
        near = np.all(
            np.abs(self._table.rates[:, given] - arriving[given])
            <= _NEAR * np.maximum(arriving[given], 1e-300),
            axis=1,
        )
        near &= np.all(self._table.rates <= arriving * (1.0 + _NEAR), axis=1)
        if not np.any(near):
            return self._quadtree.best_below(arriving)
        return int(np.argmax(np.where(near, self._table.scores, -np.inf)))

    def _fits(self, arriving: Numbers) -> bool:
        return bool(np.all(self._strains @ arriving <= 1.0))

    def _open(self, arriving: Numbers) -> Numbers:
        flows: Numbers = self._part.open_flows @ arriving
        return flows
