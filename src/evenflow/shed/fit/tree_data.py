"""Trees of tables as data. There may be millions of numbers: they are packed, not written out."""

from __future__ import annotations

import base64
import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.shed.fit.coarseness import Trial, next_trial
from evenflow.shed.fit.survey import terms_of_root
from evenflow.shed.fit.table import Table
from evenflow.shed.fit.tree import MOST_ENTRIES, PlannedTree, survey_tree, terms_of_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from evenflow.shed.fit.part import Part

_FLOWS, _CHOICES = "<f8", "<u4"
"""How numbers are packed: the same on every machine."""
_QUICK = 1
"""Of zlib: more takes longer and saves little."""


def tree_data(tree: PlannedTree) -> dict[str, Any]:
    """Return what a tree can be had from again, as JSON knows it."""
    return {
        "trials": [[trial.loss, trial.fits] for trial in tree.trials],
        "tables": {node: _table_data(table) for node, table in sorted(tree.tables.items())},
    }


def tree_from_data(
    parts: Mapping[str, Part],
    nodes: list[str],
    max_rates: Mapping[str, float],
    epsilon: float,
    data: Mapping[str, Any],
) -> PlannedTree:
    """Return the tree that data was made from.

    Args:
        parts: Of all nodes.
        nodes: Those of the tree, parents first.
        max_rates: By dimension of the root.
        epsilon: What the tables were made for.
        data: As `tree_data` gives it.

    Raises:
        ValueError: It is no such data, or another error that odd values come to.
    """
    trials = tuple(Trial(loss=float(loss), fits=bool(fits)) for loss, fits in data["trials"])
    loss = _loss(epsilon, trials)
    root = nodes[0]
    surveys = survey_tree(parts, nodes)
    most = np.array([max_rates[name] for name in parts[root].dimensions])
    terms = terms_of_tree(parts, nodes, terms_of_root(surveys[root], most, loss, MOST_ENTRIES))
    tables: dict[str, Table] = {}
    for node in reversed(nodes):
        below = [len(tables[link.child]) for link in parts[node].links]
        tables[node] = _table(data["tables"][node], parts[node], below)
    return PlannedTree(root=root, surveys=surveys, terms=terms, tables=tables, trials=trials)


def _loss(epsilon: float, trials: tuple[Trial, ...]) -> float:
    """Return the loss that tables were made for, which follows from the search for it."""
    searched = [next_trial(epsilon, trials[:number]) for number in range(len(trials) + 1)]
    fitting = [trial.loss for trial in trials if trial.fits]
    if searched[:-1] != [trial.loss for trial in trials] or searched[-1] not in fitting:
        raise ValueError("the trials are those of no search")
    return searched[-1]


def _table_data(table: Table) -> dict[str, Any]:
    return {
        "entries": len(table),
        "flows": _packed(table.flows, _FLOWS),
        "scores": _packed(table.scores, _FLOWS),
        "choices": _packed(table.choices, _CHOICES),
    }


def _table(data: Mapping[str, Any], part: Part, below: list[int]) -> Table:
    entries = data["entries"]
    if type(entries) is not int or not 1 <= entries <= MOST_ENTRIES:
        raise ValueError("no table has so many entries")
    flows = _unpacked(data["flows"], _FLOWS, (entries, len(part.heads)))
    scores = _unpacked(data["scores"], _FLOWS, (entries,))
    choices = _unpacked(data["choices"], _CHOICES, (entries, len(below))).astype(np.int64)
    if not (np.all(np.isfinite(flows)) and np.all(flows >= 0.0) and np.all(np.isfinite(scores))):
        raise ValueError("a table holds what is no flow")
    if np.any(choices >= np.array(below, dtype=np.int64)):
        raise ValueError("an entry is made of one that is not there")
    return Table(
        rates=flows[:, : len(part.dimensions)],
        scores=scores,
        ceilings=None,
        flows=flows,
        choices=choices,
    )


def _packed(numbers: NDArray[Any], form: str) -> str:
    raw = np.ascontiguousarray(numbers, dtype=form).tobytes()
    return base64.b64encode(zlib.compress(raw, _QUICK)).decode("ascii")


def _unpacked(text: str, form: str, shape: tuple[int, ...]) -> NDArray[Any]:
    size = math.prod(shape) * np.dtype(form).itemsize
    unpack = zlib.decompressobj()
    try:
        # No more than there should be: a file must not fill the memory.
        raw = unpack.decompress(base64.b64decode(text, validate=True), size + 1)
    except zlib.error as exc:
        raise ValueError("numbers cannot be unpacked") from exc
    if len(raw) != size or not unpack.eof:
        raise ValueError("there are more or fewer numbers than there should be")
    return np.frombuffer(raw, dtype=form).reshape(shape)
