"""Samples of rejected tuples with their reasons, kept in the state directory: the newest few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.spark.state.directory import StateDirectory
from evenflow.spark.state.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_KEPT = 20
"""Per query."""

Rejected = dict[str, list[dict[str, Any]]]
"""By query: when (seconds since 1970), reason and tuple, the newest last."""


def keep_rejected(file: Path, found: Mapping[str, list[dict[str, Any]]]) -> None:
    """Add samples to a unit's file; the oldest give way."""
    known: Rejected = read_sealed(file) or {}
    for query, samples in found.items():
        known[query] = [*known.get(query, []), *samples][-MOST_KEPT:]
    write_sealed(file, known)


def read_rejected(state: Path) -> Rejected:
    """Return the samples of all units of a flow, running or not.

    Raises:
        StateError: A file is damaged.
    """
    found: Rejected = {}
    for unit in StateDirectory(state).units():
        for query, samples in (read_sealed(unit.rejected) or {}).items():
            found.setdefault(query, []).extend(samples)
    for samples in found.values():
        samples.sort(key=lambda sample: float(sample["at"]))
    return {query: samples[-MOST_KEPT:] for query, samples in sorted(found.items())}
