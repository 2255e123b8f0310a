"""Reverse mapping: from entries of children and levels of taps to flows of heads (section 6.3)."""
# Why merges need shares, and how many
# ====================================
# Behind a union or join, a flow y comes from several heads. The paper takes all ways to divide y
# among them, which are infinitely many. Here head i contributes k_i/n of y, with whole k_i that
# add up to n. Let shares p_i be those of an optimal plan, and h heads feed the merge. Take whole
# numbers k_i <= p_i (n + h - 1); they can be had with sum n, because rounding down loses less than
# h in all. So the optimal plan, with everything behind the merge scaled by n / (n + h - 1), needs
# no more of any head than an entry with these shares. With n = s (h - 1) that is s / (s + 1).
#
# A split with gates takes the largest demand of its branches; the gates of the others drop the
# rest. A split without gates does not occur (`cut`).

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.shed.fit.part import Part
    from evenflow.shed.program import Numbers

Tail = tuple[str, int]
"""Where flows of heads end: a dimension of a child, or a gate, for which the child is empty."""

Key = str | int | Tail
"""What is chosen for an entry: an entry of a child, a level of a tap, shares at a tail."""


def merge_tails(part: Part) -> dict[Tail, int]:
    """Return the tails that several heads feed, and how many."""
    rows = {
        **{(link.child, i): row for link in part.links for i, row in enumerate(link.gain)},
        **{("", i): row for i, row in enumerate(part.arriving)},
    }
    feeding = {tail: int(np.count_nonzero(row > 0.0)) for tail, row in rows.items()}
    return {tail: count for tail, count in feeding.items() if count > 1}


def count_share_vectors(shares: int, heads: int) -> int:
    """Return how many ways `share_vectors` finds."""
    return comb((shares + 1) * (heads - 1), heads - 1)


def share_vectors(shares: int, heads: int) -> Numbers:
    """Return all ways to divide a flow among heads in parts of 1/n, n = shares * (heads - 1)."""
    parts = shares * (heads - 1)
    places = range(parts + heads - 1)
    found = [
        np.diff([-1, *bars, parts + heads - 1]) - 1 for bars in combinations(places, heads - 1)
    ]
    return np.array(found) / parts


def head_flows(part: Part, size: int, chosen: Mapping[Key, Numbers]) -> Numbers:
    """Return the least flows of heads, entry by head, that meet what is chosen.

    What is not chosen counts as 0, so that the flows of a part of the choices are a lower bound. A
    demand that no head can meet gives infinite flows.

    Args:
        part: The node.
        size: Number of entries.
        chosen: Demands of children, entry by dimension of the child; levels of taps; shares of
            tails that several heads feed, entry by head that does.
    """
    flows = np.zeros((size, len(part.heads)))
    for tap in part.taps:
        if tap in chosen:
            flows[:, tap] = chosen[tap]
    for link in part.links:
        if link.child in chosen:
            for i, row in enumerate(link.gain):
                _meet(flows, row, chosen[link.child][:, i], chosen.get((link.child, i)))
    for head in reversed(range(len(part.dimensions), len(part.heads))):
        _meet(flows, part.arriving[head], flows[:, head].copy(), chosen.get(("", head)))
    return flows


def _meet(flows: Numbers, row: Numbers, demand: Numbers, shares: Numbers | None) -> None:
    feeding: Sequence[int] = np.flatnonzero(row > 0.0).tolist()
    if not feeding:
        flows[demand > 0.0, 0] = np.inf
    elif len(feeding) == 1:
        head = feeding[0]
        np.maximum(flows[:, head], demand / row[head], out=flows[:, head])
    elif shares is not None:
        for share, head in zip(shares.T, feeding, strict=True):
            np.maximum(flows[:, head], demand * share / row[head], out=flows[:, head])
