"""Planning a tree of nodes in one place: surveys up, terms down, tables up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.dag import in_order
from evenflow.shed.fit.coarseness import Trial, next_trial
from evenflow.shed.fit.make_table import make_table
from evenflow.shed.fit.survey import Survey, Terms, survey_of, terms_of_child, terms_of_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenflow.shed.fit.part import Part
    from evenflow.shed.fit.table import Table

MOST_ENTRIES = 100_000
"""By default. Four inputs at a tenth need two thirds of it, and a search then takes a tenth of a
millisecond. Beyond it, tables are made coarser, and the index says what it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedTree:
    """The tables of a root and all nodes below it."""

    root: str
    surveys: Mapping[str, Survey]
    """By node, as are the next two."""
    terms: Mapping[str, Terms]
    tables: Mapping[str, Table]
    trials: tuple[Trial, ...]
    """How often tables were made; more than once means that they are coarser than asked for."""


def entries_in(trees: Iterable[PlannedTree]) -> int:
    """Return how many entries the tables of the roots have."""
    return sum(len(tree.tables[tree.root]) for tree in trees)


def named_entries(entries: Sequence[int | None]) -> int | str | None:
    """Return what a plan is called: the entry that the root has taken, if one was.

    Of several trees all entries are named, as 3+17; - stands for a tree that needs none.
    """
    if len(entries) == 1 or not any(entry is not None for entry in entries):
        return next(iter(entries), None)
    return "+".join("-" if entry is None else str(entry) for entry in entries)


def share_kept(trees: Iterable[PlannedTree]) -> float:
    """Return the share of the optimum that every selection has at least; 0 if none is certain."""
    return min((tree.terms[tree.root].kept for tree in trees), default=1.0)


def trees_of(parts: Mapping[str, Part]) -> list[list[str]]:
    """Return the nodes of each tree, the root first and every node after its parent."""
    trees: dict[str, list[str]] = {}
    root_of: dict[str, str] = {}
    above = {node: () if each.parent is None else (each.parent,) for node, each in parts.items()}
    for node in in_order(above):
        parent = parts[node].parent
        root = node if parent is None else root_of[parent]
        root_of[node] = root
        trees.setdefault(root, []).append(node)
    return list(trees.values())


def plan_tree(
    parts: Mapping[str, Part],
    nodes: list[str],
    max_rates: Mapping[str, float],
    epsilon: float,
    most_entries: int = MOST_ENTRIES,
) -> PlannedTree:
    """Return the tables of a tree.

    Args:
        parts: Of all nodes.
        nodes: Those of the tree, parents first.
        max_rates: By dimension of the root.
        epsilon: Share of the optimum that may be lost.
        most_entries: Of each table; where they do not suffice, more is lost, as the terms say.
    """
    root = nodes[0]
    surveys = survey_tree(parts, nodes)
    most = np.array([max_rates[name] for name in parts[root].dimensions])
    made: dict[float, tuple[dict[str, Terms], dict[str, Table]]] = {}
    trials: tuple[Trial, ...] = ()
    while (loss := next_trial(epsilon, trials)) not in made:
        terms = terms_of_tree(parts, nodes, terms_of_root(surveys[root], most, loss, most_entries))
        tables = make_tables(parts, nodes, terms)
        trials = (*trials, Trial(loss=loss, fits=tables is not None))
        if tables is not None:
            made[loss] = (terms, tables)
    chosen, tables = made[loss]
    return PlannedTree(root=root, surveys=surveys, terms=chosen, tables=tables, trials=trials)


def survey_tree(parts: Mapping[str, Part], nodes: list[str]) -> dict[str, Survey]:
    """Return the surveys of all nodes of a tree."""
    surveys: dict[str, Survey] = {}
    for node in reversed(nodes):
        below = {link.child: surveys[link.child] for link in parts[node].links}
        surveys[node] = survey_of(parts[node], below)
    return surveys


def terms_of_tree(parts: Mapping[str, Part], nodes: list[str], terms: Terms) -> dict[str, Terms]:
    """Return the terms of all nodes of a tree, given those of its root."""
    found = {nodes[0]: terms}
    for node in nodes:
        for link in parts[node].links:
            found[link.child] = terms_of_child(parts[node], found[node], link)
    return found


def make_tables(
    parts: Mapping[str, Part], nodes: list[str], terms: Mapping[str, Terms]
) -> dict[str, Table] | None:
    """Return the tables under given terms, leaves first; None if one is too large."""
    tables: dict[str, Table] = {}
    for node in reversed(nodes):
        below = {link.child: tables[link.child] for link in parts[node].links}
        table = make_table(parts[node], terms[node], below)
        if table is None:
            return None
        tables[node] = table
    return tables
