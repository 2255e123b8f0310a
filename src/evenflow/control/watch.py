"""Looking at a running flow: what Spark and the units say, as facts.

No job is run and nothing is waited for. What a batch that is under way reads comes from the offset
log of its checkpoint, if its sources count their rows there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.control.facts import NEVER, NOBODY, Batch, FlowFacts, QueryFacts, UnitFacts
from evenflow.model.operator import Shed, upstream
from evenflow.model.unit import Kind
from evenflow.schedule.input_gate import input_gate
from evenflow.schedule.request import QueryState
from evenflow.spark.unit.under_way import batch_under_way, is_committed, offset_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from evenflow.model.query import Query
    from evenflow.model.unit import Unit
    from evenflow.schedule.input_gate import InputGate
    from evenflow.schedule.life import Life
    from evenflow.spark.unit.pace import BatchReport
    from evenflow.spark.unit.unit_run import UnitRun

MOST_BATCHES = 8
"""Batches of a unit that a look tells."""

Interval = tuple[float, float]


class Watched(Protocol):
    """What the loop needs of a run."""

    @property
    def also_told(self) -> dict[str, Callable[[], Any]]:
        """What its status has besides."""
        ...

    @property
    def runs(self) -> Sequence[UnitRun]:
        """The units."""
        ...

    @property
    def life(self) -> Life:
        """What all queries do."""
        ...

    @property
    def queries(self) -> Mapping[str, Query]:
        """All queries, by name."""
        ...

    @property
    def gates(self) -> Mapping[str, float]:
        """Fractions in force, by query."""
        ...

    def set_gates(self, keep: Mapping[str, float]) -> None:
        """Put fractions in force from the next batch on; those not named keep everything."""
        ...

    def set_limit(self, source: str, rows: int | None) -> bool:
        """Limit what a batch reads of a source; return whether that can be done."""
        ...

    def waiting(self, source: str, offset: str, at: float) -> int | None:
        """Return how many tuples of a source wait behind an offset, if it tells at any time."""
        ...


def look(run: Watched, now: float) -> FlowFacts:
    """Return how a flow stands."""
    runs = [each for each in run.runs if each.unit.queries]
    for each in runs:
        each.update_pace()
    told = {each.unit.id: (_done(each), _begun(run, each)) for each in runs}
    busy = {
        unit: [*(_interval(batch, now) for batch in done), *(_interval(b, now) for b in begun)]
        for unit, (done, begun) in told.items()
    }
    units = tuple(
        replace(
            _unit(each, *told[each.unit.id], busy, now),
            waiting=_waiting(run, each, *told[each.unit.id], now),
        )
        for each in runs
    )
    return FlowFacts(at=now, units=units, queries=_queries(run, runs), gates=dict(run.gates))


def _unit(
    run: UnitRun,
    done: Sequence[Batch],
    begun: Sequence[Batch],
    busy: Mapping[str, Sequence[Interval]],
    now: float,
) -> UnitFacts:
    unit = run.unit
    gate = input_gate(unit)
    others = [interval for id_, each in busy.items() if id_ != unit.id for interval in each]
    shared = [_with_share(batch, others, now) for batch in (*done, *begun)]
    return UnitFacts(
        id=unit.id,
        sources=tuple(dict.fromkeys(unit.sources)),
        every=unit.every,
        windowed=unit.kind is not Kind.STATELESS,
        families=_families(unit),
        source_shares=_source_shares(run),
        shared=_shared(unit),
        active=run.active,
        batches=tuple(shared[: len(done)]),
        under_way=shared[-1] if begun else None,
        idle=not done and not begun and _is_idle(run),
        started=run.started_at,
        gated_trunk=gate is not None,
        draws=() if gate is None else _draws(unit, gate),
    )


def _families(unit: Unit) -> tuple[tuple[str, ...], ...]:
    rows = tuple(tuple(member.query for member in family.members) for family in unit.families)
    return rows + tuple((branch.query,) for branch in unit.branches)


def _draws(unit: Unit, gate: InputGate) -> tuple[tuple[int, int], ...]:
    found = {
        family.number: (number, draw.window.per_tuple)
        for number, draw in enumerate(gate.draws)
        for family in draw.families
    }
    return tuple(found[family.number] for family in unit.families)


def _source_shares(run: UnitRun) -> dict[str, float]:
    """Return the shares of a unit's sources in the rows of its latest batches."""
    rows: dict[str, int] = {}
    for report in list(run.pace.reports)[-MOST_BATCHES:]:
        for source, count in run.by_source(report.rows):
            rows[source] = rows.get(source, 0) + count
    total = sum(rows.values())
    return {source: count / total for source, count in rows.items()} if total else {}


def _shared(unit: Unit) -> tuple[tuple[str, ...], ...]:
    """Return queries of families of which one's gate keeps what another one's fraction says.

    Where that holds one way only, because one query's FILTER is the condition of the other, they
    count as sharing too: with one fraction for both, both keep what the model says.
    """
    found = []
    for family in unit.families:
        users, query_of = family.gate_users, {m.number: m.query for m in family.members}
        for condition in sorted({member.condition for member in family.members}):
            names = dict.fromkeys(query_of[number] for number in users[condition])
            found += [tuple(names)] if len(names) > 1 else []
    return tuple(found)


def _done(run: UnitRun) -> list[Batch]:
    """Return the latest batches that Spark has reported, with the times between them."""
    reports = list(run.pace.reports)[-MOST_BATCHES - 1 :]
    found = [_batch(run, None, reports[0])] if reports else []
    found += [_batch(run, before, report) for before, report in pairwise(reports)]
    return found[-MOST_BATCHES:]


def _batch(run: UnitRun, before: BatchReport | None, report: BatchReport) -> Batch:
    return Batch(
        number=report.id[1],
        began=report.began,
        seconds=report.seconds,
        spacing=_spacing(before, report),
        rows=sum(rows for _, rows in run.by_source(report.rows)),
        behind=_total(behind for _, behind in run.by_source(report.behind)),
        gates=_gates(run, report.id[1]),
    )


def _gates(run: UnitRun, batch: int) -> dict[str, float]:
    """Return the fractions that a batch ran with, by query."""
    names = run.charge.names
    kept = run.history.of(batch).keep
    return {names[part]: fraction for part, fraction in kept.items() if part in names}


def _waiting(
    run: Watched, unit: UnitRun, done: Sequence[Batch], begun: Sequence[Batch], now: float
) -> int | None:
    """Return rows that wait now, and no batch that is known of has taken.

    Not in the moment in which a batch is committed and not reported: it has taken some of them.
    """
    known = [*done, *begun]
    if not known or is_committed(unit.directory.checkpoint, known[-1].number + 1):
        return None
    return _waiting_behind(run, unit, known[-1].number, now)


def _waiting_behind(run: Watched, unit: UnitRun, batch: int, at: float) -> int | None:
    """Return rows that wait at some time behind where a batch has read, if all sources tell."""
    ends = unit.by_source(offset_lines(unit.directory.checkpoint, batch))
    return _total((run.waiting(source, end, at) for source, end in ends), all_of=True)


def _spacing(before: BatchReport | None, report: BatchReport) -> float | None:
    """Return the seconds between two batches, if one followed the other without a restart."""
    if before is None or before.id[0] != report.id[0] or before.id[1] + 1 != report.id[1]:
        return None
    return max(0.001, report.began - before.began)


def _is_idle(run: UnitRun) -> bool:
    """Return whether a unit that has reported no batch waits for its sources."""
    return run.active and not run.has_finished_batch and run.has_settled


def _begun(run: Watched, unit: UnitRun) -> list[Batch]:
    """Return the batch that is under way, if there is one."""
    last = unit.pace.last
    if last is None or not unit.active:
        return []
    found = batch_under_way(unit.directory.checkpoint, last.id[1])
    if found is None or found.began < last.began:
        return []
    rows = _total((rows for _, rows in unit.by_source(found.rows)), all_of=True)
    return [
        Batch(
            number=found.number,
            began=found.began,
            seconds=None,
            spacing=max(0.001, found.began - last.began),
            rows=rows,
            behind=_waiting_behind(run, unit, found.number, found.began),
            gates=_gates(unit, found.number),
        )
    ]


def _total(values: Iterable[int | None], *, all_of: bool = False) -> int | None:
    """Return the sum of what is known; None if nothing is, or not everything that must be."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if known and not (all_of and len(known) < len(found)) else None


def selectivities(run: Watched) -> dict[str, float]:
    """Return how many tuples a query takes for each that is read, as far as that is known."""
    taken: dict[str, list[float]] = {}
    for each in run.runs:
        for number, (arrived, took, _) in each.pace.part_rates().items():
            name = each.charge.names.get(number)
            if name is not None and arrived > 0:
                taken.setdefault(name, []).append(min(1.0, took / arrived))
    return {name: sum(shares) / len(shares) for name, shares in taken.items()}


# How much of the machine a batch had: batches that run side by side share it evenly.


def _interval(batch: Batch, now: float) -> Interval:
    return batch.began, now if batch.seconds is None else batch.began + batch.seconds


def _with_share(batch: Batch, others: Sequence[Interval], now: float) -> Batch:
    start, end = _interval(batch, now)
    if end <= start or not others:
        return batch
    edges = sorted({start, end, *(t for each in others for t in each if start < t < end)})
    had = 0.0
    for left, right in pairwise(edges):
        beside = sum(1 for begin, stop in others if begin <= left and right <= stop)
        had += (right - left) / (1 + beside)
    return replace(batch, share=min(1.0, had / (end - start)))


# Queries.


def _queries(run: Watched, runs: Sequence[UnitRun]) -> dict[str, QueryFacts]:
    known = run.life.queries
    found = {}
    for name in sorted({name for each in runs for name in each.unit.queries}):
        query = run.queries[name]
        # One that is kept is worked on for nobody: it is the first to give way.
        kept = name in known and known[name].state is QueryState.KEPT
        carrying = [each for each in runs if name in each.unit.queries]
        progress = [each.progress[name] for each in carrying if name in each.progress]
        delays = [p.delay_seconds for p in progress if p.delay_seconds is not None]
        answered = [p.last_answer_at for p in progress if p.last_answer_at is not None]
        found[name] = QueryFacts(
            weight=NOBODY if kept else query.weight,
            floor=0.0 if kept else query.floor,
            deadline=None if kept else query.deadline,
            delay=max(delays, default=None),
            answered_at=max(answered, default=None),
            contract=_contract(query, [each.unit for each in carrying]),
            running=kept or (name in known and known[name].state is QueryState.RUNNING),
        )
    return found


def _contract(query: Query, units: Sequence[Unit]) -> str:
    """Return how tuples before a query's own operators, behind its trunk, may be dropped."""
    below = {operator.hash for unit in units for operator in upstream(unit.trunk)}
    own = {op.shed for op in upstream(query.operator) if op.hash not in below}
    if Shed.NEVER in own:
        return NEVER
    return Shed.WINDOW.value if Shed.WINDOW in own else Shed.TUPLE.value
