"""The surge while it goes on, on stderr: a view that updates in place, or a line per second.

Decisions are told as they are made, with their reasons; in a terminal they stay above the view.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.cli.command import one_line, say
from evenflow.cli.demo.script import SURGE, age_now
from evenflow.cli.table import cell_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType

    from evenflow.cli.demo.script import Moment
    from evenflow.model.query import Query

BAR = 20
"""Characters of a bar."""
LATELY = 6.0
"""Seconds for which the age of an answer is shown: a query of which everything is dropped has no
new ones."""
HEADER_EVERY = 20
"""Lines between two headers."""


class View(Protocol):
    """Shows a surge."""

    def moment(self, moment: Moment) -> None:
        """Show how the flow stands."""
        ...

    def decision(self, decision: Mapping[str, Any]) -> None:
        """Tell a decision."""
        ...


@contextmanager
def shown_surge(queries: Sequence[Query], *, quiet: bool) -> Iterator[View]:
    """Yield what shows a surge.

    Args:
        queries: In the order in which they are shown.
        quiet: Show nothing, unless there is a terminal.
    """
    if sys.stderr.isatty():
        from rich.console import Console

        with _in_place(queries, Console(stderr=True)) as view:
            yield view
    elif quiet:
        yield _Nothing()
    else:
        yield Lines(queries)


class _Nothing:
    """Shows nothing."""

    def moment(self, moment: Moment) -> None:
        """Show nothing."""

    def decision(self, decision: Mapping[str, Any]) -> None:
        """Tell nothing."""


def decision_line(decision: Mapping[str, Any]) -> str:
    """Return a decision as it is told: when, what, why."""
    at = datetime.fromtimestamp(decision["at"]).astimezone().strftime("%H:%M:%S")
    return f"{at} {decision['act']}: {one_line(decision['why'])}"


# --- lines ----------------------------------------------------------------------------------------


class Lines:
    """One line per second, with a header now and then."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._queries = queries
        self._lines = 0
        self._second = -1

    def moment(self, moment: Moment) -> None:
        """Print a line, if it is the first of a second."""
        if int(moment.seconds) == self._second:
            return
        self._second = int(moment.seconds)
        if self._lines % HEADER_EVERY == 0:
            say(header_line(self._queries))
        self._lines += 1
        say(moment_line(moment, self._queries))

    def decision(self, decision: Mapping[str, Any]) -> None:
        """Print it."""
        say(decision_line(decision))


_FIXED = ("phase", "time", "rows/s", "load", "age s")
_WIDTHS = (5, 5, 7, 5, 5)


def header_line(queries: Sequence[Query]) -> str:
    """Return the header of the lines."""
    fixed = [name.rjust(width) for name, width in zip(_FIXED, _WIDTHS, strict=True)]
    return "  ".join([*fixed, "kept:", *(query.name for query in queries)])


def moment_line(moment: Moment, queries: Sequence[Query]) -> str:
    """Return one moment: the load without gates, the oldest of the newest answers, shares kept."""
    ages = [age_now(moment, query.name, LATELY) for query in queries]
    cells = (
        _name(moment),
        _clock(moment.seconds),
        cell_text(None if moment.rows is None else round(moment.rows)),
        _times(moment.load_without_gates),
        cell_text(max((age for age in ages if age is not None), default=None)),
    )
    fixed = [cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)]
    shares = [f"{moment.keep[q.name]:.0%}".rjust(len(q.name)) for q in queries]
    return "  ".join([*fixed, "     ", *shares])


def _name(moment: Moment) -> str:
    return moment.phase.upper() if moment.phase == SURGE else moment.phase


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes}:{rest:02}"


def _times(load: float | None) -> str:
    return "-" if load is None else f"{load:.1f}x"


# --- in place -------------------------------------------------------------------------------------


@contextmanager
def _in_place(queries: Sequence[Query], console: Console) -> Iterator[View]:
    from rich.live import Live

    with Live(console=console, refresh_per_second=4, vertical_overflow="visible") as live:

        class InPlace:
            """A view that updates."""

            def moment(self, moment: Moment) -> None:
                """Draw it anew."""
                live.update(moment_view(moment, queries, blocks=_has_blocks(console)))

            def decision(self, decision: Mapping[str, Any]) -> None:
                """Print it above the view."""
                from rich.text import Text

                live.console.print(Text(decision_line(decision), style=_style(decision)))

        yield InPlace()


def moment_view(moment: Moment, queries: Sequence[Query], *, blocks: bool) -> RenderableType:
    """Return the view of one moment.

    Args:
        moment: How the flow stands.
        queries: In this order.
        blocks: The terminal can show block characters.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("query", no_wrap=True)
    table.add_column("weight", justify="right")
    table.add_column("kept", no_wrap=True, min_width=BAR + 5)
    table.add_column("age s", justify="right", min_width=5)
    table.add_column("deadline s", justify="right")
    for query in queries:
        kept, age = moment.keep[query.name], age_now(moment, query.name, LATELY)
        late = age is not None and query.deadline is not None and age > query.deadline
        table.add_row(
            Text(query.name),
            f"{query.weight:g}",
            Text(f"{bar(kept, blocks=blocks)} {kept:4.0%}", style=_colour(kept)),
            Text(cell_text(age), style="bold red" if late else ""),
            "-" if query.deadline is None else f"{query.deadline:g}",
        )
    style = "bold red" if moment.phase == SURGE else "bold"
    return Group(Text(head(moment), style=style), table)


def head(moment: Moment) -> str:
    """Return the first line of the view."""
    told = f"{_name(moment)} {_clock(moment.seconds)}"
    if moment.rows is None:
        return f"{told}  warming up"
    told += f"  {cell_text(round(moment.rows))} rows/s in"
    if moment.fitting is not None:
        told += f", {cell_text(round(moment.fitting))} fit"
    if moment.load is None or moment.load_without_gates is None:
        return told
    told += f"  load {moment.load:.1f} of 1"
    shut = any(kept < 1 for kept in moment.keep.values())
    return f"{told}, {moment.load_without_gates:.1f} without gates" if shut else told


def bar(share: float, *, blocks: bool) -> str:
    """Return a bar; it is empty only if nothing is kept and full only if everything is."""
    full = round(share * BAR)
    if 0 < share < 1:
        full = min(BAR - 1, max(1, full))
    return ("█" if blocks else "#") * full + ("░" if blocks else ".") * (BAR - full)


def _has_blocks(console: Console) -> bool:
    try:
        "█░".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _colour(kept: float) -> str:
    if kept >= 1:
        return "green"
    return "yellow" if kept > 0 else "red"


def _style(decision: Mapping[str, Any]) -> str:
    return {"shed": "red", "adjust": "yellow", "open": "green"}.get(str(decision["act"]), "")
