"""What is kept in the state directory for the next process, as long as it holds.

Costs, which are measured anew if they no longer do; and how batches have differed from them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.control.kept import Kept
from evenflow.errors import EvenflowError
from evenflow.model.costs import Costs, costs_from_json
from evenflow.schedule.cut import cut
from evenflow.spark.state.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.model.flow import FlowSpec
    from evenflow.model.query import Query
    from evenflow.spark.run import Run

FILE = "costs.json"
CORRECTIONS = "corrections.json"
OLDEST_SECONDS = 7 * 86_400.0


def read_costs(state: Path) -> Costs | None:
    """Return what the last calibration found, or None if there was none that can be used."""
    try:
        body = read_sealed(state / FILE)
        return None if body is None else costs_from_json(body)
    except EvenflowError:
        # Costs can be had anew, unlike everything else in the directory.
        return None


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What must be known before a loop can begin."""

    costs: Costs
    cores: float


def keep_corrections(state: Path, survey: Survey, kept: Mapping[str, Kept]) -> None:
    """Keep what was learned with some costs."""
    units = {
        unit: {"queries": list(each.queries), "fixed": each.fixed, "factor": each.factor}
        for unit, each in kept.items()
    }
    write_sealed(state / CORRECTIONS, {**_basis(survey), "units": units})


def read_corrections(state: Path, survey: Survey) -> dict[str, Kept]:
    """Return what was learned by unit; nothing if it was with other costs, or cannot be read."""
    try:
        body = read_sealed(state / CORRECTIONS)
        if body is None or {name: body[name] for name in _basis(survey)} != _basis(survey):
            return {}
        return {
            unit: Kept(
                queries=tuple(map(str, each["queries"])),
                fixed=float(each["fixed"]),
                factor=float(each["factor"]),
            )
            for unit, each in body["units"].items()
        }
    except (EvenflowError, KeyError, TypeError, ValueError, AttributeError):
        # It is learned anew.
        return {}


def _basis(survey: Survey) -> dict[str, float | None]:
    """Return what corrections are relative to."""
    return {"measured_at": survey.costs.measured_at, "cores": survey.cores}


def surveyor(spec: FlowSpec, state: Path, say: Callable[[str], None]) -> Callable[[Run], Survey]:
    """Return what surveys a flow before it runs: kept costs if they hold, or else new ones."""

    def survey(run: Run) -> Survey:
        cores = float(run.session.sparkContext.defaultParallelism)
        return Survey(costs=_find(run, with_subscribed(spec, run.queries), state, say), cores=cores)

    return survey


def with_subscribed(spec: FlowSpec, queries: Mapping[str, Query]) -> FlowSpec:
    """Return a flow with the queries that it will run: also those subscribed at run time.

    Args:
        spec: The flow as it was started. Its own queries come first, should time run out.
        queries: All there are, by name.
    """
    own = [queries.get(query.name, query) for query in spec.queries]
    others = queries.keys() - {query.name for query in own}
    return replace(spec, queries=(*own, *(queries[name] for name in sorted(others))))


def _find(run: Run, spec: FlowSpec, state: Path, say: Callable[[str], None]) -> Costs:
    hashes = {query.name: query.operator.hash for query in spec.queries}
    kept = read_costs(state)
    if kept is not None:
        if _holds(kept, hashes, time.time()):
            return kept
        kept = kept.holding(hashes)
    if any(spec.readers[source.name].data is not None for source in spec.sources()):
        # What a program hands in may be read only once, and belongs to the flow. A table is read
        # whole, as often as there are units that join with it.
        return kept or Costs()
    known = kept if kept is not None and _is_young(kept, time.time()) else Costs()
    new = tuple(query for query in spec.queries if query.name not in known.queries)
    try:
        found = _added(known, _calibrated(run, replace(spec, queries=new), say), hashes)
        found = _with_rows(found, spec, {query.name for query in new})
    except (EvenflowError, OSError) as exc:
        say(f"costs are guessed, they could not be measured: {exc}")
        return kept or Costs()
    except KeyboardInterrupt:
        if not run.stop_asked.is_set():
            raise
        return kept or Costs()  # nothing will run with them
    try:
        write_sealed(state / FILE, found.as_json())
    except OSError as exc:
        say(f"costs will be measured again, they could not be kept: {exc}")
    return found


def _added(known: Costs, new: Costs, hashes: Mapping[str, str]) -> Costs:
    """Return what was known with what was measured now.

    What batches have told is relative to the first of them: it holds on.
    """
    return Costs(
        reading={**known.reading, **new.reading},
        queries={**known.queries, **new.queries},
        measured_at=known.measured_at if known.queries else new.measured_at,
        hashes=hashes,
    )


def _with_rows(costs: Costs, spec: FlowSpec, new: set[str]) -> Costs:
    """Return costs of which new queries share the rows of families that were there before.

    They were measured without the others: the row is in what they cost alone.
    """
    queries = dict(costs.queries)
    for unit in cut(spec.queries):
        for family in unit.families:
            names = {member.query for member in family.members} & queries.keys()
            row = max((queries[name].row for name in names - new), default=0.0)
            for name in names & new:
                each = queries[name]
                shared = max(each.row, min(row, each.row + each.own))
                queries[name] = replace(each, row=shared, own=each.row + each.own - shared)
    return replace(costs, queries=queries)


def _calibrated(run: Run, spec: FlowSpec, say: Callable[[str], None]) -> Costs:
    from evenflow.spark.calibrate import calibrate  # noqa: PLC0415  # needs Spark

    folder = Path(tempfile.mkdtemp(prefix="evenflow-calibrate-"))
    try:
        return calibrate(run.session, spec, folder, on_step=say, stop=run.stop_asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _holds(costs: Costs, hashes: Mapping[str, str], now: float) -> bool:
    """Return whether costs are young enough, and were measured of these queries."""
    return _is_young(costs, now) and costs.covers(hashes)


def _is_young(costs: Costs, now: float) -> bool:
    age = costs.age(now)
    return age is not None and age <= OLDEST_SECONDS
