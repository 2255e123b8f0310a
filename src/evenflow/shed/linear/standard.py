"""The linear program in the form in which bases are computed: scaled, with a slack for each row.

    maximise c z   subject to   A z + s = b0 + B r,   lower r <= z <= upper r,   s >= 0

for rates r. Flows are scaled so that one unit fills a node, and rows so that a capacity is 1:
tolerances mean the same in networks of a few tuples per second and of millions. Where nodes are
filled by flows of very different sizes, large ones count in smaller units, lest what the others
bring be lost in rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers, Program


SPREAD = 1e5
"""Units of flows are at most so many times the smallest one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StandardForm:
    """Columns are the flows, then the slacks of node rows, rows of splits, and floors."""

    program: Program
    scale: Numbers
    """By flow: tuples per second of one unit."""
    matrix: Numbers
    """Rows by columns, the slacks' identity included."""
    constant: Numbers
    """Right-hand sides without rates: b0."""
    by_rate: Numbers
    """Row by input: B."""
    lower: Numbers
    """Column by input: least value per unit of rate; 0 but for gates that must stay open."""
    upper: Numbers
    """Column by input: greatest value per unit of rate, where `bounded`."""
    bounded: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """By column: it has an upper bound."""
    fixed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """By column: lower and upper bound are one."""
    objectives: Numbers
    """To be maximised one after the other, each among the optima of those before: value, least sum
    of loads, then for each gate by name, on inputs the flow, at splits the flow less what comes to
    it (0 where all is kept). Scaled to 1."""
    split_row: tuple[int | None, ...]
    """For each objective of a gate of a split, its slack's column; None for the others."""

    @property
    def flows(self) -> int:
        """How many columns are flows."""
        return len(self.scale)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.constant)


def standard_form(program: Program) -> StandardForm:
    """Return a program in standard form."""
    scale = np.minimum(program.filling, SPREAD * np.min(program.filling, initial=np.inf))
    splits = [i for i, gate in enumerate(program.gates) if not gate.on_input]
    floors = [i for i, floor in enumerate(program.floor) if floor > 0]
    node_rows, node_limits = _node_rows(program, scale)
    split_rows = _split_rows(program, scale)[splits]
    floor_rows, floor_rates = _floor_rows(program, scale, floors)
    rows = np.vstack([node_rows, split_rows, floor_rows])
    count = len(rows)
    inputs = len(program.inputs)
    upper = np.vstack([program.supply / scale[:, None], np.zeros((count, inputs))])
    fixed = np.array([gate.open for gate in program.gates] + [False] * count)
    by_rate = np.zeros((count, inputs))
    by_rate[count - len(floors) :] = floor_rates
    objectives, split_row = _objectives(program, scale, len(program.nodes), splits)
    return StandardForm(
        program=program,
        scale=scale,
        matrix=np.hstack([rows, np.eye(count)]),
        constant=np.concatenate([node_limits, np.zeros(count - len(node_limits))]),
        by_rate=by_rate,
        lower=np.where(fixed[:, None], upper, 0.0),
        upper=upper,
        bounded=np.array([gate.on_input for gate in program.gates] + [False] * count),
        fixed=fixed,
        objectives=np.hstack([objectives, np.zeros((len(objectives), count))]),
        split_row=split_row,
    )


def _node_rows(program: Program, scale: Numbers) -> tuple[Numbers, Numbers]:
    loaded = np.where(program.capacity > 0, program.capacity, 1.0)
    return program.load * scale / loaded[:, None], program.capacity / loaded


def _split_rows(program: Program, scale: Numbers) -> Numbers:
    """Return by gate: its flow less what comes to it, in its own units."""
    rows: Numbers = np.eye(len(scale)) - program.arriving * scale / scale[:, None]
    return rows


def _floor_rows(program: Program, scale: Numbers, floors: list[int]) -> tuple[Numbers, Numbers]:
    rows = -program.throughput[floors] * scale
    rates = -program.floor[floors, None] * program.unit_throughput[floors]
    size = np.max(np.abs(rows), axis=1, initial=0.0)
    size = np.where(size > 0, size, 1.0)[:, None]
    return rows / size, rates / size


def _objectives(
    program: Program, scale: Numbers, first_split: int, splits: list[int]
) -> tuple[Numbers, tuple[int | None, ...]]:
    rows = [program.value * scale, -np.sum(program.load, axis=0) * scale]
    slacks: list[int | None] = [None, None]
    passed = _split_rows(program, scale)
    by_name = sorted(range(len(scale)), key=lambda i: program.gates[i].name)
    for i in by_name:
        gate = program.gates[i]
        if gate.on_input and gate.open:
            continue
        rows.append(np.eye(len(scale))[i] if gate.on_input else passed[i])
        slacks.append(None if gate.on_input else len(scale) + first_split + splits.index(i))
    objectives = np.array(rows)
    size = np.max(np.abs(objectives), axis=1, keepdims=True, initial=0.0)
    return objectives / np.where(size > 0, size, 1.0), tuple(slacks)
