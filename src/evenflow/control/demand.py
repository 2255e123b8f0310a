"""How much a unit is asked for: what arrives, and what its next batch will hold. Arithmetic only.

A surge shows first in a batch that has only begun: sources that count their rows tell how many it
reads. Where they do not, a batch that goes on for too long tells that it has more rows than usual.

Rows may come in bursts, files above all, and Spark runs batches without rows in between, to close
windows. Such a batch tells no rate: the rows of the next one came since the last that had some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.control.facts import Batch, UnitFacts
    from evenflow.control.model import FlowModel, UnitModel

ENOUGH = 0.4
"""How much of a span must have passed for what came meanwhile to tell a rate: tuples may come in
steps."""
SILENT = 3.0
"""A unit that has begun no batch for so many times `every` gets no rows: Spark then begins none."""
OVERDUE = 1.5
"""A batch that takes so many times longer than expected has more rows than were thought; a burst
that is so late does not come any more."""
GROWTH = 2.0
"""How long a batch that is overdue is expected to take, for what it took. Less, and gates are set
many times while it goes on, of which only the last counts."""
LIMITED = 0.1
"""Share of its rows from which on what a batch left behind shows that it was limited."""
BURSTS = 3
"""Batches over which the rate of rows that come in bursts is averaged."""
GROWN = 1.5
"""How many times more the next batch may then read, because limits adapt."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a unit is asked for."""

    rate: float
    """Tuples per second that arrive."""
    pressure: float
    """Tuples per second to plan for: those of the next batch, done in the time a batch should
    take. Above the rate if rows have piled up, below it if a limit holds them back."""


def demand(
    unit: UnitFacts,
    flow: FlowModel,
    model: UnitModel,
    gates: Mapping[str, float],
    now: float,
    *,
    adaptive: bool = False,
) -> Demand:
    """Return what a unit is asked for.

    Args:
        unit: Complete facts.
        flow: The model of the flow.
        model: That of the unit.
        gates: Fractions that the newest batch runs with.
        now: Wall-clock seconds.
        adaptive: What a batch may read is set by the loop: all that waits can be had.
    """
    if gets_nothing(unit, now):
        return Demand(rate=0.0, pressure=0.0)
    rate = _rate_now(unit, model.span, now)
    batch = unit.under_way
    if batch is None:
        ahead = rate * max(unit.every, model.span)
        if unit.waiting is not None and unit.last is not None:
            ahead = rate * max(0.0, unit.every - (now - unit.last.began))
        waiting = _next_rows(unit, unit.last, ahead, adaptive)
        return Demand(rate=rate, pressure=waiting / model.span)
    gone = max(0.0, now - batch.began)
    rows = batch.rows
    if rows is None:
        known = _with_rows(unit)
        spacing = batch.began - known[-1].began if known else batch.spacing or unit.every
        usual = rate * spacing
        if gone * batch.share > OVERDUE * _seconds(flow, model, usual, gates):
            usual = max(usual, _rows_in(flow, model, GROWTH * gone * batch.share, gates))
            rate = max(rate, usual / spacing)
        rows = round(usual)
    lasts = _seconds(flow, model, rows, gates) / batch.share
    if gone > lasts:
        lasts = gone * (GROWTH if gone > OVERDUE * lasts else 1.0)
    ahead = max(lasts, unit.every, model.span) - (0.0 if unit.waiting is None else gone)
    waiting = _next_rows(unit, batch, rate * max(0.0, ahead), adaptive)
    return Demand(rate=rate, pressure=waiting / model.span)


def _rate_now(unit: UnitFacts, span: float, now: float) -> float:
    """Return tuples per second that arrive: since a batch last had rows, if that is long enough.

    Sources that tell at any time what waits show a surge before the next batch does.
    """
    known = _with_rows(unit)
    newest = known[-1] if known else unit.newest
    if newest is None or newest.behind is None or unit.waiting is None:
        return _fading(unit, now)
    gone = now - newest.began
    if gone < ENOUGH * span:
        return arrival_rate(unit)
    rate = max(0.0, unit.waiting - newest.behind) / max(gone, burst_gap(unit))
    # Between two bursts nothing comes.
    return max(rate, _fading(unit, now)) if _in_bursts(unit) else rate


def _fading(unit: UnitFacts, now: float) -> float:
    """Return the arrival rate, lower the longer no batch has begun: there was nothing to read.

    The next one begins when the last is done, however long that took.
    """
    rate, known = arrival_rate(unit), _with_rows(unit)
    if unit.under_way is not None or not known or not known[-1].spacing:
        return rate
    newest = known[-1]
    quiet = now - newest.began - max(unit.every, newest.seconds or 0.0)
    return rate * min(1.0, known[-1].spacing / quiet) if quiet > 0 else rate


def _next_rows(unit: UnitFacts, batch: Batch | None, arriving: float, adaptive: bool) -> float:
    """Return how many rows the batch after the newest will hold.

    Args:
        unit: The unit.
        batch: Its newest.
        arriving: What comes until the next one begins: from now on, if it is known what waits now,
            else since the newest began.
        adaptive: All that waits can be had.
    """
    if batch is None:
        return 0.0
    behind, rows = batch.behind or 0, batch.rows or 0
    waiting = arriving + (behind if unit.waiting is None else unit.waiting)
    if rows and behind > LIMITED * rows and not adaptive:
        # It read as much as it was allowed to, and so will the next, or not much more.
        return min(waiting, GROWN * rows)
    return waiting


def arrival_rate(unit: UnitFacts) -> float:
    """Return tuples per second that arrived before the newest batch whose rows are known.

    Of rows that come in bursts the average of a few: how many of them a batch meets is chance.
    """
    batches = _with_rows(unit)
    rows = seconds = 0.0
    for at in range(len(batches) - 1, -1, -1):
        spacing = batches[at].spacing
        before = batches[at - 1] if at > 0 else None
        if batches[at].behind is None and before is not None and before.behind:
            continue  # it reads of what waited, and does not tell how much is left of that
        if spacing:
            rows, seconds = rows + _arrived(batches[at], before), seconds + spacing
            if at <= len(batches) - BURSTS or not _in_bursts(unit):
                break
    # The first batch since a start has all that waited for it, and so tells nothing.
    return max(0.0, rows) / seconds if seconds > 0 else 0.0


def burst_gap(unit: UnitFacts) -> float:
    """Return the seconds between two bursts, 0 if rows do not come in bursts."""
    gaps = [batch.spacing for batch in _with_rows(unit)[-BURSTS:] if batch.spacing]
    return min(gaps, default=0.0) if _in_bursts(unit) else 0.0


def _in_bursts(unit: UnitFacts) -> bool:
    """Whether rows come in bursts: there were batches without any."""
    return any(batch.rows == 0 and not batch.behind for batch in unit.batches)


def _with_rows(unit: UnitFacts) -> list[Batch]:
    """Return batches whose rows are known and that have some, each with the time since the last."""
    told = [*unit.batches, *([] if unit.under_way is None else [unit.under_way])]
    found: list[Batch] = []
    empty: float | None = 0.0
    for batch in told:
        if batch.rows is None:
            continue
        since = None if empty is None or batch.spacing is None else empty + batch.spacing
        if batch.rows == 0 and not batch.behind:
            empty = since
            continue
        found.append(replace(batch, spacing=since))
        empty = 0.0
    return found


def _arrived(batch: Batch, before: Batch | None) -> float:
    """Return rows that came between the beginnings of two batches."""
    arrived = float(batch.rows or 0)
    if before is not None and batch.behind is not None and before.behind is not None:
        arrived += batch.behind - before.behind
    return arrived


def backlog(unit: UnitFacts, span: float) -> float:
    """Return rows that wait beyond those that arrive in a span.

    The newest batch that is done tells: one that is under way has not shown how long it takes.
    """
    last = unit.last
    if last is None or last.seconds is None:
        return 0.0
    arrived = arrival_rate(unit) * (last.seconds - max(unit.every, span))
    return max(0.0, (last.behind or 0) + arrived)


def gets_nothing(unit: UnitFacts, now: float) -> bool:
    """Return whether no rows come to a unit: it is held, or its sources are silent."""
    if not unit.active:
        return True
    last = unit.last
    if unit.under_way is not None:
        return False
    if last is None or last.seconds is None:
        return True
    silent = max(SILENT * unit.every, OVERDUE * burst_gap(unit))
    return not last.behind and now - (last.began + last.seconds) > silent


def _seconds(flow: FlowModel, model: UnitModel, rows: float, gates: Mapping[str, float]) -> float:
    return model.fixed + flow.work(model, rows, gates)


def _rows_in(
    flow: FlowModel, model: UnitModel, seconds: float, gates: Mapping[str, float]
) -> float:
    """Return how many rows a batch of some machine-seconds has had."""
    per_row = flow.work(model, 1.0, gates)
    return max(0.0, seconds - model.fixed) / per_row if per_row > 0 else 0.0
