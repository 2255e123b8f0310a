"""The units of a running flow, and changing them between two batches.

A change is made in this order, so that it can be broken off anywhere: what the units will be is
built while they still run; those concerned stop after their batch; what comes of the requests is
decided from how far they have read; it is written to the manifest, which is the moment from which
it holds; the units start again. Units that the change does not concern never stop.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError, RunError, SinkError
from evenflow.model.unit import Kind
from evenflow.schedule.cut import build_units
from evenflow.schedule.life import Facts, change, parts_to_write_off
from evenflow.schedule.request import QueryState, Subscribe
from evenflow.spark.compile.stack import NOT_YET
from evenflow.spark.gate.flow_gates import FlowGates
from evenflow.spark.gate.shares import remove_in_state, remove_shares
from evenflow.spark.sink.cursor import close_cursors
from evenflow.spark.sink.sinks import open_sinks
from evenflow.spark.state.manifest import Manifest, write_manifest
from evenflow.spark.unit.checkpoint import (
    committed_batch,
    committed_offsets,
    late_bound_ms,
    next_batch,
    watermark_after,
    watermark_of,
)
from evenflow.spark.unit.saved_counts import begin_behind, saved_counts
from evenflow.spark.unit.seed import (
    Around,
    Donation,
    forget_seed,
    keep_seed,
    sow,
    sow_stateless,
)
from evenflow.spark.unit.state_reader import newest_read
from evenflow.spark.unit.unit_run import Charge, UnitRun

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from evenflow.model.operator import Source
    from evenflow.model.query import Query
    from evenflow.model.unit import Family, Unit
    from evenflow.schedule.layout import UnitLayout
    from evenflow.schedule.life import Life, Outcome
    from evenflow.schedule.request import Request
    from evenflow.spark.definitions import Definitions
    from evenflow.spark.sink.answer_sink import AnswerSink
    from evenflow.spark.source.sources import Sources
    from evenflow.spark.state.directory import StateDirectory
    from evenflow.spark.unit.unit_run import Surroundings

_log = logging.getLogger(__name__)


class Units:
    """All units of a flow."""

    def __init__(
        self,
        manifest: Manifest,
        definitions: Definitions,
        directory: StateDirectory,
        sources: Sources,
        around: Surroundings,
    ) -> None:
        """Prepare; nothing is built or changed yet."""
        self._manifest = manifest
        self._definitions = definitions
        self._directory = directory
        self._sources = sources
        self._around = around
        self._available_now: bool | None = None
        """How units are started; None if they are not."""
        self.runs: dict[str, UnitRun] = {}
        self._gates = FlowGates(directory)

    @property
    def life(self) -> Life:
        """The life of all queries."""
        return self._manifest.life

    # Starting and stopping.

    def build(self, requests: Sequence[Request]) -> Outcome:
        """Make a first change and build all units. Nothing runs.

        Raises:
            EvenflowError: A source, a sink or a query cannot be had. Nothing was changed.
        """
        self._directory.keep_units({layout.id for layout in self.life.units})
        facts = self.facts()
        outcome = self._decide(requests, facts)
        new = _new_queries(requests, outcome)
        known = {**self._definitions.queries, **new}
        self._open_sinks(known[name] for name in outcome.life.queries)
        self._gates.find(outcome.life)
        for unit, layout in self._units(outcome.life, new):
            self.runs[unit.id] = self._made(unit, layout, outcome.life, new)
        self._commit(outcome.life, new, facts)
        for each in self.runs.values():
            self._take_over(each, each.layout)
        return outcome

    def start(self, *, available_now: bool, without: Collection[str] = ()) -> None:
        """Start all units, without some."""
        self._available_now = available_now
        for id_, each in list(self.runs.items()):
            if id_ not in without:
                each.start(available_now=available_now)

    def stop(self) -> None:
        """Stop all units after their running batches; they can be started again."""
        self._available_now = None
        for each in list(self.runs.values()):
            each.stop()

    def finish(self) -> None:
        """Have all units read what is left, and end."""
        self.stop()
        self.start(available_now=True)

    def restart(self, unit: str) -> None:
        """Start a unit that has ended, as all are started."""
        self.runs[unit].start(available_now=bool(self._available_now))

    def is_dry(self) -> bool:
        """Whether all units have read all there will ever be."""
        names = {name for run in self.runs.values() for name in run.unit.sources}
        if not names or not all(map(self._sources.is_finite, names)):
            return False
        read = [_read_by(run) for run in self.runs.values()]
        return all(
            offsets is not None and all(self._sources.is_dry(*each) for each in offsets.items())
            for offsets in read
        )

    # Sinks.

    @property
    def sinks(self) -> dict[str, tuple[AnswerSink, ...]]:
        """Where answers go, by query."""
        return self._around.sinks

    def _open_sinks(self, queries: Iterable[Query]) -> None:
        for query in queries:
            close_cursors(self.sinks.get(query.name, ()))
            self.sinks[query.name] = open_sinks(query, self._manifest.id, self._around.session)

    def close(self) -> None:
        """End all cursors, and let go of the units: there are no more answers.

        Gates that were asked for and that no batch has had yet are for the next process.
        """
        for sinks in self.sinks.values():
            close_cursors(sinks)
        self._gates.keep_for_next(self.runs)
        for each in self.runs.values():
            each.close()

    def _drop_sinks(self, life: Life) -> None:
        for name in [name for name in self.sinks if name not in life.queries]:
            close_cursors(self.sinks.pop(name))

    # Changing.

    def change(self, requests: Sequence[Request]) -> Outcome:
        """Change what the units do, from the next batch on.

        Raises:
            EvenflowError: A new query cannot be built on Spark. Nothing was changed.
        """
        self._directory.keep_units({layout.id for layout in self.life.units})
        planned = self._decide(requests, self.facts())
        draft, new = planned.life, _new_queries(requests, planned)
        self._open_sinks(new.values())
        prepared = self._prepared(draft, new)
        stopping = [id_ for id_ in self.runs if id_ in prepared or _is_idle(draft, id_)]
        for id_ in stopping:
            self.runs[id_].stop()
        in_state = {
            id_: self.runs[id_].written_off(numbers)
            for id_, numbers in parts_to_write_off(self.life, draft).items()
        }
        facts = replace(self.facts(), in_state=in_state)
        outcome = self._decide(requests, facts)
        for id_ in stopping:
            self._take_back(self.runs[id_], outcome.life)
        self._commit(outcome.life, new, facts)
        self._drop_sinks(outcome.life)
        before_runs = {id_: self.runs.pop(id_) for id_ in stopping}
        for each in before_runs.values():
            each.close()
        for unit, layout in self._units(outcome.life):
            if unit.id in self.runs:
                continue
            made = prepared.get(unit.id) or self._made(unit, layout, outcome.life)
            self._take_over(made, layout)
            if unit.id in before_runs:
                made.pace = before_runs[unit.id].pace
            self.runs[unit.id] = made
            if self._available_now is not None:
                made.start(available_now=self._available_now)
        return outcome

    def _prepared(self, draft: Life, new: Mapping[str, Query]) -> dict[str, UnitRun]:
        """Return the units that change, built while they run as they were."""
        before = {layout.id: layout for layout in self.life.units}
        prepared = {}
        for unit, layout in self._units(draft, new):
            if unit.id not in before:
                # It is made when it is known where it begins. Can it be made at all?
                self._made(unit, layout, draft, new)
            elif layout != before[unit.id]:
                beginning = _beginning(unit, before[unit.id])
                prepared[unit.id] = self._made(beginning, layout, draft, new)
        return prepared

    def _take_back(self, run: UnitRun, life: Life) -> None:
        """Remove what was written of a batch that was not finished, and is not written again."""
        batch = next_batch(run.directory.checkpoint)
        carried = {number for u in life.units if u.id == run.unit.id for number in u.numbers}
        delivering = {
            name
            for name, query in life.queries.items()
            if query.state is QueryState.RUNNING and not carried.isdisjoint(query.numbers)
        }
        remove_in_state(run.directory.shares, run.unit.id, batch)
        for name in run.charge.delivering - delivering:
            for sink in self.sinks[name]:
                _remove(sink, run.unit.id, batch)

    def _decide(self, requests: Sequence[Request], facts: Facts) -> Outcome:
        return change(self.life, requests, self._definitions.queries, facts)

    def _commit(self, life: Life, new: Mapping[str, Query], facts: Facts) -> None:
        """Write what holds from now on."""
        known = {layout.id for layout in self.life.units}
        for layout in life.units:
            if layout.id not in known:
                self._keep_seed(layout, facts)
        self._definitions.follow(life, new)
        self._manifest = replace(
            self._manifest, life=life, definitions=self._definitions.to_keep(life)
        )
        write_manifest(self._directory.manifest, self._manifest)
        self.set_gates(self._gates.keep)
        self._directory.keep_units({layout.id for layout in life.units})

    def _keep_seed(self, layout: UnitLayout, facts: Facts) -> None:
        """Keep for a new unit how far its donors had read. They may run on meanwhile."""
        donors = {each.id: each for each in self.life.units if each.id in layout.donors}
        if not donors:
            return
        donations = {
            name: self._donation(donors[donor], hash_, facts.batch[donor])
            for name, hash_, donor in zip(
                layout.sources, layout.source_hashes, layout.donors, strict=True
            )
            if donor is not None
        }
        known = [self._around_batch(donor, facts) for donor in donors.values()]
        watermarks = [watermark for watermark, _ in known]
        if len(donations) < len(layout.sources):
            watermarks.append(Around(0, 0))
        read = [each for _, each in known if each is not None]
        keep_seed(
            self._directory.unit(layout.id).seed,
            donations,
            Around(min(w.before for w in watermarks), min(w.after for w in watermarks)),
            Around(max(r.before for r in read), max(r.after for r in read)) if read else None,
        )

    def _donation(self, donor: UnitLayout, source_hash: str, batch: int) -> Donation:
        at = donor.source_hashes.index(source_hash)
        # A source of a unit with windows is followed by its pulse.
        position = at if donor.site.kind is Kind.STATELESS else 2 * at
        return Donation(self._directory.unit(donor.id).checkpoint, batch, position)

    def _around_batch(self, donor: UnitLayout, facts: Facts) -> tuple[Around, Around | None]:
        """Return a donor's watermarks, and the newest event times it had read if any were."""
        there = self._directory.unit(donor.id)
        batch, after_us = facts.batch[donor.id], facts.read_us.get(donor.id)
        delay = self._delay_us(donor)
        if donor.site.kind is Kind.STATELESS:
            before_us: int | None = saved_counts(there, batch - 1)["read_us"]
            watermarks = Around(_watermark_ms(before_us, delay), _watermark_ms(after_us, delay))
        else:
            before = watermark_of(there.checkpoint, batch)
            before_us = _newest_us(before, delay)
            watermarks = Around(before, watermark_after(there.checkpoint, batch))
        if after_us is None:
            return watermarks, None
        return watermarks, Around(after_us if before_us is None else before_us, after_us)

    def _source(self, hash_: str) -> Source:
        return next(s for s in self._definitions.sources.values() if s.hash == hash_)

    def _take_over(self, run: UnitRun, layout: UnitLayout) -> None:
        directory = run.directory
        if directory.seed.exists():
            if run.unit.kind is Kind.STATELESS:
                read = sow_stateless(directory.seed, directory.checkpoint, run.read_sources)
                begin_behind(directory, *((read.before, read.after) if read else (None, None)))
            else:
                if committed_batch(directory.checkpoint) is None:
                    self._run_over_nothing(run, layout)
                sow(directory.seed, directory.checkpoint, run.read_sources)
            forget_seed(directory.seed)
        run.take_over(layout)

    def _run_over_nothing(self, run: UnitRun, layout: UnitLayout) -> None:
        """Commit a first batch of a unit, in which it reads nothing of its sources."""
        around = replace(run.around, open_source=self._sources.open_nothing)
        idle = UnitRun(run.charge, run.directory, around, run.history)
        idle.take_over(layout)
        idle.pulse(0)
        idle.start(available_now=True)
        while idle.active:
            time.sleep(0.01)
        idle.raise_failure()
        idle.stop()
        idle.close()

    # Gates.

    @property
    def gates(self) -> dict[str, float]:
        """The fractions to keep that were asked for, by query; those that are not 1."""
        return self._gates.keep

    def set_gates(self, keep: Mapping[str, float]) -> None:
        """Have gates keep fractions of what comes to queries; those of all others are open."""
        self._gates.set(keep, self.life, self._units(self.life))

    # Building.

    def _units(
        self, life: Life, new: Mapping[str, Query] | None = None
    ) -> list[tuple[Unit, UnitLayout]]:
        known = {**self._definitions.queries, **(new or {})}
        layouts = {layout.id: layout for layout in life.units}
        return [(unit, layouts[unit.id]) for unit in build_units(life, known)]

    def _made(
        self,
        unit: Unit,
        layout: UnitLayout,
        life: Life,
        new: Mapping[str, Query] | None = None,
    ) -> UnitRun:
        names = life.names
        carried = {number: names[number] for number in layout.numbers}
        running = {n for n in carried.values() if life.queries[n].state is QueryState.RUNNING}
        directory = self._directory.unit(unit.id)
        late_us = late_bound_ms(directory.checkpoint) * 1000
        families = tuple(_without_old_since(f, late_us) for f in unit.families)
        charge = Charge(replace(unit, families=families), layout, carried, frozenset(running))
        around = replace(self._around, queries={**self._definitions.queries, **(new or {})})
        try:
            return UnitRun(charge, directory, around, self._gates.history(unit.id))
        except EvenflowError:
            raise
        except Exception as exc:
            # Whatever a function of the user's, or Spark, has against it.
            said = f"{type(exc).__name__}: {exc}".splitlines()[0][:300]
            raise RunError(f"unit {unit.id} cannot be built: {said}") from exc

    # Knowing.

    def facts(self) -> Facts:
        """Return how far each unit has read."""
        known = {source.hash for source in self._definitions.sources.values()}
        read: dict[str, int] = {}
        bound: dict[str, int] = {}
        batches: dict[str, int] = {}
        for layout in self.life.units:
            directory = self._directory.unit(layout.id)
            batch = committed_batch(directory.checkpoint)
            if batch is None or not known.issuperset(layout.source_hashes):
                continue
            batches[layout.id] = batch
            bound[layout.id] = watermark_of(directory.checkpoint, batch)
            newest = self._read_us(layout, batch)
            if newest is not None:
                read[layout.id] = newest
        return Facts(read_us=read, bound_ms=bound, batch=batches)

    def _read_us(self, layout: UnitLayout, batch: int) -> int | None:
        """Return the newest event time that a unit has read up to a batch."""
        directory = self._directory.unit(layout.id)
        if layout.site.kind is Kind.STATELESS:
            found: int | None = saved_counts(directory, batch)["read_us"]
            return found
        watermark = watermark_after(directory.checkpoint, batch)
        known = [_newest_us(watermark, self._delay_us(layout))]
        if len(layout.sources) > 1:
            # The watermark is that of the slowest source.
            known.append(newest_read(self._around.session, directory.checkpoint, batch))
            known += [family.since_us for family in layout.families]
        return max((us for us in known if us is not None), default=None)

    def _delay_us(self, layout: UnitLayout) -> int:
        return max(self._source(hash_).watermark_us for hash_ in layout.source_hashes)


def _new_queries(requests: Sequence[Request], outcome: Outcome) -> dict[str, Query]:
    """Return the queries that were subscribed, by name."""
    refused = {id(refusal.request) for refusal in outcome.refusals}
    taken = (r for r in requests if isinstance(r, Subscribe) and id(r) not in refused)
    return {request.name: request.query for request in taken}


def _remove(sink: AnswerSink, unit: str, batch: int) -> None:
    """Remove what a sink holds of a batch.

    What cannot be removed is logged: the folder of one query must not end what runs for others.
    """
    try:
        for file in sink.files(unit, batch):
            file.unlink(missing_ok=True)
        if sink.by_executors:
            remove_shares(sink, unit, batch)
    except (SinkError, OSError) as exc:
        _log.warning("answers of batch %d of %s may be left behind: %s", batch, unit, exc)


def _read_by(run: UnitRun) -> dict[str, str] | None:
    """Return how far a unit has read each source, by name; None if it cannot be told."""
    found = run.by_source(committed_offsets(run.directory.checkpoint))
    return dict(found) if len(found) == len(run.read_sources) else None


def _watermark_ms(read_us: int | None, delay_us: int) -> int:
    return 0 if read_us is None else max(0, read_us // 1000 - delay_us // 1000)


def _newest_us(watermark_ms: int, delay_us: int) -> int | None:
    """Return the newest event time that was read when a watermark was made, if any was.

    The watermark is that less the delay, cut to milliseconds. A window starts on a whole
    millisecond, so what is cut off decides nothing.
    """
    return None if watermark_ms == 0 else (watermark_ms + delay_us // 1000) * 1000 + 999


def _beginning(unit: Unit, before: UnitLayout) -> Unit:
    """Return a unit whose new families begin when it is started."""
    known = {family.number for family in before.families}
    families = tuple(
        f if f.number in known else replace(f, since_us=NOT_YET) for f in unit.families
    )
    return replace(unit, families=families)


def _without_old_since(family: Family, late_us: int) -> Family:
    """Return a family that need not look whether it owns a window, if all others are late."""
    since = family.since_us
    if since is None or since == NOT_YET or since + family.window.size_us >= late_us:
        return family
    return replace(family, since_us=None)


def _is_idle(life: Life, unit: str) -> bool:
    return not any(layout.id == unit and layout.numbers for layout in life.units)
