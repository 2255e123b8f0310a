"""What one node needs to know of a network to make its feasible input table.

A part is numbers only, in the order of its names; `cut` makes it out of a network.
"""
# Words
# =====
# dimension   what arrives at the node as one flow: an input arc, or what the parent sends
# head        where a flow begins that no later gate has touched: a dimension, or a gate on a split
#             of this node behind which tuples go on to other nodes
# own gate    a gate on a split of this node behind which all tuples stay on this node; it belongs
#             to the complementary local plan
# tap         a head behind which some tuples become answers on this node without passing another
#             head: its flow takes part in a score here, so it is the one that is rounded
#
# The table has the flows of dimensions as columns. An entry is made from one entry of each child
# and one level for each tap; the flows of heads follow from them (reverse mapping), and what the
# own gates drop follows from the heads.

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.drop_order import DropOrder, drop_order

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Link:
    """How a child is fed."""

    child: str
    dimensions: tuple[str, ...]
    """Of the child. They are others after an operator has moved between the two."""
    gain: Numbers
    """Dimension of the child by head of ours: tuples that arrive there for one behind the head."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One node, its share of the network, and its neighbours.

    Every child dimension is fed by heads that feed nothing else: `cut` refuses other networks.
    """

    node: str
    parent: str | None
    capacity: float
    dimensions: tuple[str, ...]
    """Names of gates for input arcs, also those of nodes further down; else of the producer."""
    inlets: tuple[bool, ...]
    """By dimension: whether it is an input arc, of this node or of one further down."""
    heads: tuple[str, ...]
    """Dimensions first, then gates, each after those that feed it."""
    arriving: Numbers
    """Head by head: what comes to a gate for one tuple behind another head; 0 for dimensions."""
    own_gates: tuple[str, ...]
    own_arriving: Numbers
    """Own gate by (heads, own gates)."""
    load: Numbers
    """By (heads, own gates): load on this node of one tuple, before other gates."""
    value: Numbers
    """By (heads, own gates): weighted answers on this node of one tuple, before other gates."""
    links: tuple[Link, ...]

    @cached_property
    def drops(self) -> DropOrder:
        """In which order own gates drop, and what is left of load and value."""
        return drop_order(
            heads=len(self.heads), arriving=self.own_arriving, load=self.load, value=self.value
        )

    @cached_property
    def taps(self) -> tuple[int, ...]:
        """Heads that are taps."""
        return tuple(int(head) for head in np.flatnonzero(self.drops.values[0] > 0.0))

    @cached_property
    def open_flows(self) -> Numbers:
        """Head by dimension: flow behind each head for one tuple, all gates open."""
        flows = np.eye(len(self.heads), len(self.dimensions))
        for head in range(len(self.dimensions), len(self.heads)):
            flows[head] = self.arriving[head] @ flows
        return flows

    @cached_property
    def merges(self) -> int:
        """Most merges in a row that a tuple passes here on its way to another node."""
        depth = np.zeros(len(self.heads), dtype=int)
        for head in range(len(self.dimensions), len(self.heads)):
            depth[head] = _merge_depth(self.arriving[head], depth)
        tails = [_merge_depth(row, depth) for link in self.links for row in link.gain]
        return max((int(each) for each in (*depth, *tails)), default=0)


def _merge_depth(row: Numbers, depth: np.ndarray) -> int:
    feeding = np.flatnonzero(row > 0.0)
    deepest = max((int(depth[head]) for head in feeding), default=0)
    return deepest + (1 if len(feeding) > 1 else 0)
