"""Progress of a run on stderr: a table that updates in place, or lines where there is no terminal.

Progress comes as status objects (docs/cli.md), as often as the run likes.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evenflow.cli.command import say
from evenflow.cli.table import cell_text, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from evenflow.cli.status import Status

    OnProgress = Callable[[Status], None]

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def shown_progress(*, verbose: bool) -> Iterator[OnProgress]:
    """Yield the function to call with each status object."""
    if sys.stderr.isatty():
        with _live_table() as show:
            yield show
    elif verbose:
        yield _Lines().show
    else:
        yield lambda _: None


def shown_steps(*, verbose: bool) -> Callable[[str], None]:
    """Return the function to call with what is done next, where there are no status objects."""
    return say if verbose or sys.stderr.isatty() else lambda _: None


@contextmanager
def _live_table() -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.live import Live

    start = time.monotonic()
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield lambda status: live.update(progress_table(status, time.monotonic() - start))


def progress_table(status: Status, elapsed: float) -> Table:
    """Return the table of one moment."""
    from rich.table import Table
    from rich.text import Text

    total = f"{cell_text(total_rate(status))} rows/s"
    minutes, seconds = divmod(int(elapsed), 60)
    title = f"{status.get('flow')}  {minutes}:{seconds:02}  {total}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("query", no_wrap=True)
    table.add_column("state")
    for name in ("rows/s", "answers", "age s", "delay s", "kept"):
        table.add_column(name, justify="right", min_width=9)
    for name, query in status.get("queries", {}).items():
        table.add_row(
            Text(name),
            Text(str(query.get("state")), style=_style(query)),
            cell_text(query.get("rows_per_second")),
            cell_text(query.get("answers")),
            cell_text(query.get("age_seconds")),
            Text(cell_text(query.get("delay_seconds")), style="red" if query.get("late") else ""),
            "-" if query.get("share_kept") is None else percent(query["share_kept"]),
        )
    return table


def total_rate(status: Status) -> float | None:
    """Return the rows per second that enter the flow, each source counted once."""
    rates: dict[str, float] = {}
    for unit in status.get("units", ()):
        for source in unit.get("sources", ()):
            rates[source] = max(rates.get(source, 0.0), unit.get("rows_per_second") or 0.0)
    return sum(rates.values()) if rates else None


def _style(query: dict[str, Any]) -> str:
    return {"running": "green", "quarantined": "bold red"}.get(str(query.get("state")), "yellow")


class _Lines:
    """One line now and then."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = 0.0

    def show(self, status: Status) -> None:
        now = time.monotonic()
        if self._shown and now - self._shown < SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        queries = status.get("queries", {}).values()
        answers = [q.get("answers") for q in queries if q.get("answers") is not None]
        ages = [q.get("age_seconds") for q in queries if q.get("age_seconds") is not None]
        say(
            f"{now - self._start:.0f} s: {cell_text(total_rate(status))} rows/s, "
            f"{cell_text(sum(answers))} answers, oldest {cell_text(max(ages, default=None))} s"
        )
