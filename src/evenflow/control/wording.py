"""Why a decision was made, in one sentence for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.control.plans import Choice
    from evenflow.control.view import View

MOST_NAMED = 6
_NOT_BEST = ("narrower",)
"""What finds gates that fit, but perhaps not the best."""


def why_drops(view: View, choice: Choice) -> str:
    """Return why tuples are dropped, and whose."""
    times = view.open_load / view.capacity if view.capacity > 0 else 0.0
    told = f"{_rows(view)}, {times:.1f} times what fits"
    if view.late:
        told += f", and {_names(view.late)} {_be(view.late)} late"
    if not choice.fits:
        return f"{told}: not even the floors fit, so queries that cost something are at theirs"
    dropped = {name: kept for name, kept in choice.keep.items() if kept < 1.0}
    order = sorted(dropped, key=lambda name: (dropped[name], name))
    best = ", which costs the least value" if choice.method not in _NOT_BEST else ""
    return f"{told}: {_kept(dropped, order)}{best}"


def why_floors(view: View, choice: Choice) -> str:
    """Return why gates are changed that were below floors."""
    told = "all gates open" if choice.is_open else "the gates are those that load needs"
    return f"{_rows(view)}; queries kept less than their floors: {told}"


def why_wider(view: View, choice: Choice) -> str:
    """Return why less is dropped than before, or nothing."""
    share = view.open_load / view.capacity if view.capacity > 0 else 0.0
    if choice.is_open:
        return f"{_rows(view)}, {share:.0%} of what fits: all gates open"
    return f"{_rows(view)}, load is {share:.1f} times what fits and has fallen: more is kept"


def why_catching_up(unit: str, rows: float) -> str:
    """Return why nothing is dropped although much waits."""
    return (
        f"{unit} works off {rows:,.0f} rows that waited while it stood still; "
        "nothing is shed for them, answers are late meanwhile"
    )


def _rows(view: View) -> str:
    arriving = sum(view.rates.values())
    told = f"{arriving:,.0f} rows/s arrive"
    if view.piled:
        told += " and rows have piled up"
    return told


def _kept(kept: Mapping[str, float], order: list[str]) -> str:
    named = ", ".join(f"{name} keeps {kept[name]:.0%}" for name in order[:MOST_NAMED])
    more = len(order) - MOST_NAMED
    return f"{named} and {more} more keep less than all" if more > 0 else named


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"


def _be(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"
