"""How a running flow stands, from its units."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from evenflow.graph.rates import PartRates, Rates
from evenflow.model.unit import Kind
from evenflow.schedule.request import QueryState
from evenflow.spark.unit.batch import QueryProgress
from evenflow.spark.unit.tally import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    read: dict[str, float] = {}
    for each in units.runs.values():
        each.update_pace()
        rates, failure = _read_rates(each), each.failure
        read = {n: max(read.get(n, 0.0), rates.get(n, 0.0)) for n in (*read, *rates)}
        found.append(_unit_status(each, rates))
        held = supervisor.held.get(each.unit.id)
        for name, counts in each.counts(exact=exact).items():
            part = parts[name]
            part.add(each.progress.get(name, QueryProgress()), counts, sum(rates.values()))
            part.held = part.held or held
            part.failure = part.failure or (failure.reason if failure is not None else None)
            part.units.append(each)
    queries = {
        name: _query_status(known, definitions[name], parts[name], running=running)
        for name, known in sorted(units.life.queries.items())
    }
    sources = sorted({source for each in units.life.units for source in each.sources})
    return {
        "flow": flow,
        "running": running,
        "paused": running and supervisor.paused,
        "seconds": round(seconds, 3),
        "units": found,
        "queries": queries,
        "fairness": round(fairness(_shares(queries)), 6),
        "sources": {name: _source_status(name, units, supervisor, read) for name in sources},
        "operators": _operators(units, definitions, read),
    }


def fairness(shares: Sequence[float]) -> float:
    """Return Jain's index of shares: 1 if all are equal, 1/n if one of n has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else 1.0


def _shares(queries: Mapping[str, dict[str, Any]]) -> list[float]:
    """Return the shares kept of the queries that run, or did until the flow stopped."""
    running = ("running", "stopped")
    return [each["share_kept"] for each in queries.values() if each["state"] in running]


def _read_rates(run: UnitRun) -> dict[str, float]:
    """Return rows per second that a unit reads, by source."""
    rates: dict[str, float] = {}
    for source, rate in run.by_source(run.pace.read_rates(active=run.active)):
        rates[source] = rates.get(source, 0.0) + rate
    return rates


def _source_status(
    name: str, units: Units, supervisor: Supervisor, read: Mapping[str, float]
) -> dict[str, Any]:
    reading = [run for run in units.runs.values() if name in run.unit.sources]
    failing = [supervisor.retries[r.unit.id] for r in reading if r.unit.id in supervisor.retries]
    now = time.monotonic()
    waiting = [max(0.0, retry.at - now) for retry in failing if retry.at is not None]
    behind = [
        rows
        for run in reading
        if run.pace.last is not None
        for source, rows in run.by_source(run.pace.last.behind)
        if source == name and rows is not None
    ]
    return {
        "read": len(reading),
        "state": "failing" if failing else "running",
        "reason": failing[0].reason if failing else None,
        "retry_seconds": round(min(waiting), 1) if waiting else None,
        "rows_per_second": round(read.get(name, 0.0), 1),
        "rows_behind": max(behind, default=None),
    }


class _Sum:
    """What the parts of a query say together."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.rate = 0.0
        self.failure: str | None = None
        self.held: str | None = None
        self.progress = QueryProgress()
        self.units: list[UnitRun] = []

    def add(self, progress: QueryProgress, counts: Counts, rate: float) -> None:
        self.counts.add(counts)
        self.rate = max(self.rate, rate)
        self.progress.answers += progress.answers
        self.progress.answers_rejected += progress.answers_rejected
        self.progress.last_answer_at = _largest(
            self.progress.last_answer_at, progress.last_answer_at
        )
        self.progress.delay_seconds = _largest(self.progress.delay_seconds, progress.delay_seconds)
        self.progress.kept += progress.kept
        self.progress.lost += progress.lost


def _largest(*values: float | None) -> float | None:
    return max((each for each in values if each is not None), default=None)


def _query_status(known: QueryLife, query: Query, sum_: _Sum, *, running: bool) -> dict[str, Any]:
    at, delay = sum_.progress.last_answer_at, sum_.progress.delay_seconds
    state = known.state.value
    if state == "running" and sum_.held is not None:
        state = QueryState.QUARANTINED.value
    return {
        "state": "stopped" if state == "running" and not running else state,
        "reason": known.reason or sum_.held or sum_.failure,
        "rows_per_second": round(sum_.rate, 1),
        "age_seconds": None if at is None else round(time.time() - at, 3),
        "delay_seconds": None if delay is None else round(delay, 3),
        "deadline_seconds": query.deadline,
        "late": _late(query, sum_) if state == "running" else None,
        "share_kept": round(sum_.progress.share_kept, 6),
        "answers": sum_.progress.answers,
        "answers_rejected": sum_.progress.answers_rejected,
        "counts": sum_.counts.as_json(),
    }


def _late(query: Query, sum_: _Sum) -> str | None:
    """Return why the newest answers of a query were older than its deadline; None if not."""
    delay = sum_.progress.delay_seconds
    if query.deadline is None or delay is None or delay <= query.deadline:
        return None
    for run in sum_.units:
        last = run.pace.last
        if last is None:
            continue
        behind = sum(rows or 0 for _, rows in run.by_source(last.behind))
        read = sum(rows for _, rows in run.by_source(last.rows))
        if behind > read:
            return (
                f"{behind} rows wait, of which a batch of unit {run.unit.id} reads {read} "
                f"in {last.seconds:.1f} s"
            )
        waiting = f" and {behind} rows wait" if behind else ""
        if last.seconds > run.unit.every:
            return (
                f"batches of unit {run.unit.id} take {last.seconds:.1f} s instead of "
                f"{run.unit.every:g} s{waiting}"
            )
        batches = 2 if run.unit.kind is Kind.STATELESS else 3
        if query.deadline < batches * run.unit.every:
            return f"unit {run.unit.id} answers only every {run.unit.every:g} s{waiting}"
    return "a batch took long"


def _unit_status(run: UnitRun, rates: Mapping[str, float]) -> dict[str, Any]:
    unit, last = run.unit, run.pace.last
    return {
        "id": unit.id,
        "kind": unit.kind.value,
        "sources": list(unit.sources),
        "queries": list(unit.queries),
        "families": len(unit.families),
        "slots": len(unit.slots),
        "rows_per_second": round(sum(rates.values()), 1),
        "every_seconds": unit.every,
        "batch_seconds": None if last is None else last.seconds,
        "state_rows": None if last is None else last.state_rows,
        "state_bytes": None if last is None else last.state_bytes,
        "watermark": None if last is None else last.watermark,
    }


def _operators(
    units: Units, definitions: Mapping[str, Query], read: Mapping[str, float]
) -> list[dict[str, Any]]:
    measured: dict[int, PartRates] = {}
    for run in units.runs.values():
        for number, (arrived, taken, answers) in run.pace.part_rates().items():
            window = run.layout.windows.get(number)
            times = 1 if window is None else window.per_tuple
            measured[number] = PartRates(arrived / times, taken / times, answers)
    rates = Rates(read)
    for name, known in sorted(units.life.queries.items()):
        parts = [measured.get(number, PartRates()) for number in known.numbers]
        rates.add(name, definitions[name].operator, parts)
    return [
        {
            "kind": each.kind,
            "text": each.text,
            "queries": each.queries,
            "in_per_second": None if each.rate_in is None else round(each.rate_in, 1),
            "out_per_second": None if each.rate_out is None else round(each.rate_out, 1),
        }
        for each in rates.operators()
    ]
