"""Fractions that gates keep, by query: which of them drop something, and which are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_CHANGE = 0.005
"""Fractions that differ by less are the same."""


def dropping(gates: Mapping[str, float]) -> dict[str, float]:
    """Return those that drop something, in order."""
    return {name: kept for name, kept in sorted(gates.items()) if kept < 1.0}


def alike(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return whether two are the same to whoever counts changes: all open, or nearly equal."""
    if bool(one) != bool(other):
        return False
    names = {*one, *other}
    return all(abs(one.get(n, 1.0) - other.get(n, 1.0)) < LEAST_CHANGE for n in names)
