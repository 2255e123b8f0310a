"""From an entry to what every gate lets through: the plan that the entry stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.fit.part import Part
    from evenflow.shed.fit.table import Table
    from evenflow.shed.program import Numbers


def local_flows(part: Part, heads: Numbers) -> dict[str, float]:
    """Return the flow behind each head and own gate of a node, given those of its heads."""
    if not part.own_gates:
        return dict(zip(part.heads, heads.tolist(), strict=True))
    closed = part.drops.settle(heads[None, :], part.capacity)[0][0]
    keep = part.drops.fractions(closed, len(part.own_gates))
    flows = np.concatenate([heads, np.zeros(len(part.own_gates))])
    for gate, kept in enumerate(keep, len(heads)):
        flows[gate] = kept * (part.own_arriving[gate - len(heads)] @ flows)
    return dict(zip((*part.heads, *part.own_gates), flows.tolist(), strict=True))


def entry_flows(
    parts: Mapping[str, Part], tables: Mapping[str, Table], root: str, row: int
) -> dict[str, float]:
    """Return the flow behind each gate of a tree for an entry of its root.

    Names of dimensions that are no gates are among them too.
    """
    table = tables[root]
    found = local_flows(parts[root], table.flows[row])
    for link, choice in zip(parts[root].links, table.choices[row].tolist(), strict=True):
        found |= entry_flows(parts, tables, link.child, choice)
    return found
