"""How a running flow stands, from its units."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from evenflow.schedule.request import QueryState
from evenflow.spark.unit.batch import QueryProgress
from evenflow.spark.unit.tally import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.model.query import Query
    from evenflow.schedule.life import QueryLife
    from evenflow.spark.supervisor import Supervisor
    from evenflow.spark.unit.unit_run import UnitRun
    from evenflow.spark.units import Units


def make_status(
    flow: str,
    units: Units,
    definitions: Mapping[str, Query],
    supervisor: Supervisor,
    *,
    seconds: float,
    exact: bool,
    running: bool,
) -> dict[str, Any]:
    """Return the object of `evenflow status --json`."""
    parts: dict[str, _Sum] = {name: _Sum() for name in units.life.queries}
    found = []
    for each in units.runs.values():
        rate, failure = each.progress_rate(), each.failure
        found.append(_unit_status(each, rate))
        held = supervisor.held.get(each.unit.id)
        for name, counts in each.counts(exact=exact).items():
            part = parts[name]
            part.add(each.progress.get(name, QueryProgress()), counts, rate)
            part.held = part.held or held
            part.failure = part.failure or (failure.reason if failure is not None else None)
    queries = {
        name: _query_status(known, definitions[name], parts[name], running=running)
        for name, known in sorted(units.life.queries.items())
    }
    sources = sorted({source for each in units.life.units for source in each.sources})
    return {
        "flow": flow,
        "running": running,
        "seconds": round(seconds, 3),
        "units": found,
        "queries": queries,
        "sources": {name: _source_status(name, units, supervisor) for name in sources},
    }


def _source_status(name: str, units: Units, supervisor: Supervisor) -> dict[str, Any]:
    reading = [run for run in units.runs.values() if name in run.unit.sources]
    failing = [supervisor.retries[r.unit.id] for r in reading if r.unit.id in supervisor.retries]
    now = time.monotonic()
    waiting = [max(0.0, retry.at - now) for retry in failing if retry.at is not None]
    return {
        "read": len(reading),
        "state": "failing" if failing else "running",
        "reason": failing[0].reason if failing else None,
        "retry_seconds": round(min(waiting), 1) if waiting else None,
    }


class _Sum:
    """What the parts of a query say together."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.rate = 0.0
        self.failure: str | None = None
        self.held: str | None = None
        self.progress = QueryProgress()

    def add(self, progress: QueryProgress, counts: Counts, rate: float) -> None:
        self.counts.add(counts)
        self.rate = max(self.rate, rate)
        self.progress.answers += progress.answers
        self.progress.answers_rejected += progress.answers_rejected
        times = (self.progress.last_answer_at, progress.last_answer_at)
        self.progress.last_answer_at = max((t for t in times if t is not None), default=None)


def _query_status(known: QueryLife, query: Query, sum_: _Sum, *, running: bool) -> dict[str, Any]:
    at = sum_.progress.last_answer_at
    state = known.state.value
    if state == "running" and sum_.held is not None:
        state = QueryState.QUARANTINED.value
    return {
        "state": "stopped" if state == "running" and not running else state,
        "reason": known.reason or sum_.held or sum_.failure,
        "rows_per_second": round(sum_.rate, 1),
        "age_seconds": None if at is None else round(time.time() - at, 3),
        "deadline_seconds": query.deadline,
        "share_kept": 1.0,
        "answers": sum_.progress.answers,
        "answers_rejected": sum_.progress.answers_rejected,
        "counts": sum_.counts.as_json(),
    }


def _unit_status(run: UnitRun, rate: float) -> dict[str, Any]:
    unit = run.unit
    return {
        "id": unit.id,
        "kind": unit.kind.value,
        "sources": list(unit.sources),
        "queries": list(unit.queries),
        "families": len(unit.families),
        "slots": len(unit.slots),
        "rows_per_second": round(rate, 1),
    }
