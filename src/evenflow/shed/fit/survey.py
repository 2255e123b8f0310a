"""What a node must know of the others before it makes a table: surveys go up, terms come down.

A survey says what one tuple along each dimension brings and strains in the subtree of a node.
The root sees the whole tree in its own survey, divides epsilon and sends terms downstream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.levels import Spread, choose_spread
from evenflow.shed.fit.mapping import count_share_vectors, merge_tails

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from evenflow.shed.fit.part import Link, Part
    from evenflow.shed.program import Numbers

MOST_LOSS = 0.7
"""Share of the optimum beyond which no bound is claimed. Levels then lie apart by value alone: with
many inputs that leaves the best plans for a table of its size, though there is no proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a subtree says of itself, by dimension of its root."""

    values: tuple[float, ...]
    """What one tuple per second brings with all gates open."""
    strains: tuple[tuple[float, ...], ...]
    """By node of the subtree: share of its capacity that one tuple per second takes with all gates
    open. One over the largest of them is the paper's maximum feasible rate of a dimension."""
    taps: int
    merges: int
    """Most merges in a row on the way to a tap."""
    branches: int = 1
    """Most that feed one merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a node's table has to hold to. The same for a whole tree, but for the last three."""

    kept: float
    """Share of the optimum that is kept for certain: 1 - epsilon, or less where tables would be too
    large, or 0 where nothing is certain."""
    spread: Spread
    shares: int
    """Parts into which the flow behind a merge is divided among the branches that feed it."""
    most_entries: int
    most: tuple[float, ...]
    """By dimension of the node: no more tuples per second can arrive."""
    strains: tuple[tuple[float, ...], ...] | None
    """By node of the tree, as in the survey of the root, but by dimension of this node. None where
    other taps of the tree have a say: their needs may make any entry here the best one."""
    limits: tuple[tuple[float, ...], ...]
    """By node upstream: share of its capacity that a tuple of each dimension takes there at least.
    Entries that ask for more than all of it would be thrown away upstream."""


def survey_of(part: Part, below: Mapping[str, Survey]) -> Survey:
    """Return the survey of a node, given those of its children."""
    flows = part.open_flows
    values = part.drops.values[0] @ flows
    strains = [_shares(part.drops.loads[0], part.capacity) @ flows]
    for link in part.links:
        arriving = link.gain @ flows
        values = values + np.array(below[link.child].values) @ arriving
        strains += [np.array(row) @ arriving for row in below[link.child].strains]
    return Survey(
        values=tuple(values.tolist()),
        strains=tuple(tuple(row.tolist()) for row in strains),
        taps=len(part.taps) + sum(each.taps for each in below.values()),
        merges=part.merges + max((each.merges for each in below.values()), default=0),
        branches=max([1, *merge_tails(part).values(), *(each.branches for each in below.values())]),
    )


def _shares(loads: Numbers, capacity: float) -> Numbers:
    # `cut` refuses work on a node without capacity.
    return loads / capacity if capacity > 0.0 else np.zeros_like(loads)


def least_score(survey: Survey) -> float:
    """Return a score that the optimum has wherever something must be shed.

    Rates that do not fit, scaled down until they do, strain one capacity fully; what they bring is
    at least the smallest value per strain. Inputs without value do not count: they are closed
    before anything else, and what is left fits or is judged as here.
    """
    ratios = [
        value / strain
        for row in survey.strains
        for value, strain in zip(survey.values, row, strict=True)
        if value > 0.0 and strain > 0.0
    ]
    return min(ratios, default=0.0)


def terms_of_root(survey: Survey, max_rates: Numbers, loss: float, most_entries: int) -> Terms:
    """Return the terms for the root of a tree.

    Args:
        survey: Of the root.
        max_rates: By dimension of the root.
        loss: Share of the optimum that may be lost; from `MOST_LOSS` on, only how coarse levels
            are.
        most_entries: Most that a table may hold.
    """
    values, strains = np.array(survey.values), np.max(survey.strains, axis=0)
    with np.errstate(divide="ignore"):
        tops = values * np.minimum(max_rates, 1.0 / strains)
    certain = loss < MOST_LOSS
    rounding, shares = _budget(1.0 - min(loss, MOST_LOSS), survey.merges)
    if not certain:
        ways = {n: count_share_vectors(n, survey.branches) for n in range(1, shares + 1)}
        shares = max((n for n in ways if ways[n] <= most_entries), default=1)
    least = least_score(survey)
    if certain:
        each = [float(top) for top in tops if top > 0.0]
        spread = choose_spread(rounding, least, survey.taps, each)
    else:
        spread = Spread(thinning=0.0, step=loss * least / max(1, survey.taps))
    return Terms(
        kept=1.0 - loss if certain else 0.0,
        spread=spread,
        shares=shares,
        most_entries=most_entries,
        most=tuple(np.where(_decided(survey), max_rates, 0.0).tolist()),
        strains=survey.strains,
        limits=(),
    )


def _decided(survey: Survey) -> NDArray[np.bool_]:
    """Return by dimension whether entries decide about it.

    What brings nothing is closed, and what strains nothing is open, whatever the others do.
    """
    strains = np.max(survey.strains, axis=0)
    decided: NDArray[np.bool_] = (np.array(survey.values) > 0.0) & (strains > 0.0)
    return decided


def stands_for(basis: Survey, survey: Survey) -> bool:
    """Whether terms that were made for one survey keep what they say for another.

    A strain must not have grown: a leaf would exclude a triangle that no longer fits, and with it
    the entries that rates just outside of what fits need.
    """
    if len(basis.strains) != len(survey.strains):
        return False
    if (basis.taps, basis.merges) != (survey.taps, survey.merges):
        return False
    if not np.array_equal(_decided(basis), _decided(survey)):
        return False
    tighter = np.array(survey.strains) > np.array(basis.strains)
    return not np.any(tighter) and least_score(survey) >= least_score(basis)


def _budget(kept: float, merges: int) -> tuple[float, int]:
    """Divide what may be lost: the same share to rounding and to each merge in a row.

    With n shares, two branches of a merge can be met to 1 - 1/(n + 1); see `mapping`.
    """
    if merges == 0:
        return 1.0 - kept, 1
    each = kept ** (1.0 / (1 + merges))
    shares = max(1, int(np.ceil(each / (1.0 - each))))
    # What the whole number of shares leaves over goes to rounding.
    return 1.0 - kept / (shares / (shares + 1)) ** merges, shares


def terms_of_child(part: Part, terms: Terms, link: Link) -> Terms:
    """Return the terms that a node hands on to one of its children."""
    most = np.array(terms.most)
    heads = part.open_flows @ most
    if part.capacity < np.inf:
        # Whatever the own gates drop, a tuple behind a head makes at least this load.
        cost = part.drops.loads[-1]
        limit = np.divide(part.capacity, cost, out=np.full(len(cost), np.inf), where=cost > 0.0)
        heads = np.minimum(heads, limit)
    arriving = link.gain @ heads
    return replace(
        terms,
        most=tuple(arriving.tolist()),
        strains=_strains_of_child(part, terms, link),
        limits=_limits_of_child(part, terms, link),
    )


def _limits_of_child(part: Part, terms: Terms, link: Link) -> tuple[tuple[float, ...], ...]:
    """Return limits in the child's dimensions. What is not known for certain counts as 0."""
    heads, dimensions = len(part.heads), len(part.dimensions)
    rows = [_shares(part.drops.loads[-1], part.capacity)]
    rows += [np.concatenate([row, np.zeros(heads - dimensions)]) for row in terms.limits]
    # Dimensions that one head each feeds have different heads, so that what these take adds up.
    alone = (link.gain > 0.0).sum(axis=1) == 1
    feeding, gain = _first_feeding(link)
    return tuple(
        tuple(np.divide(row[feeding], gain, out=np.zeros(len(gain)), where=alone).tolist())
        for row in rows
    )


def _strains_of_child(part: Part, terms: Terms, link: Link) -> tuple[tuple[float, ...], ...] | None:
    """Return the strains in the child's dimensions, if those are all there is to decide on."""
    if terms.strains is None or part.taps or not one_to_one(part):
        return None
    feeding, gain = _first_feeding(link)
    return tuple(tuple((np.array(row)[feeding] / gain).tolist()) for row in terms.strains)


def _first_feeding(link: Link) -> tuple[NDArray[np.intp], Numbers]:
    """Return by dimension of a child the first head that feeds it, and what arrives of it."""
    if link.gain.size == 0:
        # Nothing comes to the child, ever.
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    feeding = np.argmax(link.gain > 0.0, axis=1)
    return feeding, link.gain[np.arange(len(feeding)), feeding]


def one_to_one(part: Part) -> bool:
    """Whether each dimension feeds one dimension of the only child, which nothing else feeds."""
    if len(part.links) != 1 or len(part.heads) > len(part.dimensions):
        return False
    fed = part.links[0].gain > 0.0
    return bool(np.all(fed.sum(axis=0) == 1) and np.all(fed.sum(axis=1) == 1))
