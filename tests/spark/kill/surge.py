"""A flow in a surge that is killed: the control loop sheds, opens again, and everything adds up.

The source sends by a schedule, so that what was sent up to any place is known; how long its surge
lasts is said when the flow has been killed often enough. While a process is down the source waits
for it, all but some seconds: on a slow machine minutes of a surge would have to be worked off.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from evenflow.model.costs import Costs, QueryCost
from evenflow.spark.source.generators import TICK_US, Place
from evenflow.spark.state.manifest import read_manifest
from evenflow.spark.unit.checkpoint import committed_offsets
from tests.spark.flows import counts
from tests.spark.kill.attempt import Attempts, Batch, read_attempts
from tests.spark.kill.child import SURGE
from tests.spark.kill.drops import dropped
from tests.spark.kill.process import FlowProcess, Kill, Killed
from tests.spark.kill.schedule import Answer, Schedule, SurgeQuery, answers
from tests.spark.kill.surging import ATTEMPTS, COSTS, SURGE_TICKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

QUERIES = (
    SurgeQuery("dear", "meter", 1000, floor=0.05),
    SurgeQuery("sliding", "feeder", 501, weight=5.0, floor=0.2, size=16, rejects=True),
    SurgeQuery("plain", None, 500, weight=2.0, floor=0.1),
)
SOURCE = {
    "rate": 25,
    "speed": 40,
    "meters": 24,
    "feeders": 8,
    "districts": 4,
    "disorder": 0.02,
    "start": "2027-01-15 08:00:00",
    "surge": 80,
    "surge_after": "6 seconds",
    "max_rows_per_batch": 1000,
    "partitions": 2,
}
"""Few tuples, each of them dear: outside the surge a twentieth of a core is enough, within it twice
two cores are not. The loop limits what batches read; the bound is for the first ones, of a slow
machine."""
START_US = 1_800_000_000_000_000
"""The same start."""
EVERY, DEADLINE = 1.0, 4.0
FOR_EVER = 10**7
_DOWN_SECONDS = 8.0
"""How long the source waits for a process that was killed; the rest of a start is a backlog."""
_PATIENCE = 300.0
"""Seconds, on a machine that has much else to do."""
_AFTER_TICKS = 600
"""How far beyond what was read the reference knows the schedule: windows must be whole."""


class SurgeCase:
    """One flow, over as many lives as it takes."""

    def __init__(self, session: SparkSession, folder: Path, faults: Sequence[str] = ()) -> None:
        """Write the flow.

        Args:
            session: For the reference.
            folder: For everything.
            faults: What to break in the flow's process.
        """
        self.session = session
        self.folder = folder
        self.process = FlowProcess("surge", folder, (SURGE, *faults))
        self.kills: list[str] = []
        self.queries = {query.name: query for query in QUERIES}
        self.subscribed: str | None = None
        """The query that was subscribed at run time and is there."""
        self._number = 0
        (folder / SURGE_TICKS).write_text(str(FOR_EVER))
        self._write_flow()

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.process.state

    def _write_flow(self) -> None:
        known = {q.name: QueryCost(own=q.microseconds / 1e6, certainty=0.9) for q in QUERIES}
        costs = Costs(reading={"s": 3e-5}, queries=known, measured_at=time.time())
        (self.folder / COSTS).write_text(json.dumps(costs.as_json()))
        flow = {
            "evenflow": 1,
            "flow": "surge",
            "state": str(self.state),
            "sources": {"s": {"format": "meters", "options": SOURCE, "watermark": "6 seconds"}},
            "queries": {
                query.name: {
                    "sql": query.sql,
                    "weight": query.weight,
                    "floor": query.floor,
                    "every": f"{EVERY} seconds",
                    "deadline": f"{DEADLINE} seconds",
                    "sink": {"format": "parquet", "path": str(self._out(query.name))},
                }
                for query in QUERIES
            },
        }
        (self.folder / "flow.yaml").write_text(json.dumps(flow))

    def _out(self, name: str) -> Path:
        return self.folder / "out" / name

    # Living.

    def begin(self) -> None:
        """Start the flow."""
        self._hold_clock()
        self.process.start(None)
        self.process.wait_until_up()

    def until_killed(self, kill: Kill, work: Callable[[], object] = lambda: None) -> None:
        """Do something and wait until the flow is killed; a point that is not reached fails."""
        self.process.arm(kill)
        try:
            work()
            self.process.wait_until(lambda: False, _PATIENCE)
        except Killed:
            self.kills.append(str(kill))

    def start_again(self, *kills: Kill) -> None:
        """Start the flow that was killed, as often as it is killed while it starts."""
        for kill in kills:
            self._hold_clock()
            self.process.start(kill)
            self.until_killed(kill)
        self.begin()

    def until_dropping(self) -> None:
        """Wait until batches of this life drop, with windows and without, and one is new."""
        self.process.wait_until(self._drops, _PATIENCE)

    def _drops(self) -> bool:
        attempts, process = self.attempts, self.process.id
        shut = attempts.dropping_units(process)
        units = len(list(self.state.glob("units/*")))
        return len(shut) == units and attempts.has_new_batch(process)

    def end_surge(self) -> None:
        """Have the surge end soon after what was read. The flow is down."""
        after = int(str(SOURCE["surge_after"]).split()[0]) * 10
        (self.folder / SURGE_TICKS).write_text(str(self._newest_place().tick + 10 - after))

    def until_open(self) -> None:
        """Wait until the loop has opened all gates, and a batch has had it.

        On a machine with much else to do they may shut again, because batches alone take too long.
        """
        self.process.wait_until(lambda: self.attempts.has_opened(self.process.id), _PATIENCE)

    def stop(self) -> dict[str, Any]:
        """Stop the flow and return its last status."""
        return self.process.stop()

    # Changes.

    def subscribe(self) -> None:
        """Ask for one query more, of a name that has never been."""
        self._number += 1
        query = SurgeQuery(f"extra{self._number}", "district", 250)
        self.queries[query.name] = query
        request = {
            "sql": query.sql,
            "weight": 1.0,
            "floor": 0.1,
            "every": EVERY,
            "deadline": DEADLINE,
            "on_error": "skip",
            "sinks": [{"format": "parquet", "path": str(self._out(query.name)), "options": {}}],
        }
        self.process.ask({"ask": "subscribe", "name": query.name, "query": request})

    def change(self) -> None:
        """Subscribe a query, or unsubscribe the one that was subscribed."""
        if self.subscribed is None:
            self.subscribe()
        else:
            self.process.ask({"ask": "unsubscribe", "name": self.subscribed})

    def see_change(self) -> None:
        """See in the manifest what has come of changes."""
        manifest = read_manifest(self.state / "manifest.json")
        assert manifest is not None
        names = set(manifest.life.queries)
        assert {query.name for query in QUERIES} <= names
        self.subscribed = next(iter(names - {query.name for query in QUERIES}), None)

    # The source.

    def _newest_place(self) -> Place:
        """Return the furthest place that any unit has planned to read to."""
        offsets = [
            json.loads(line)
            for file in self.state.glob("units/*/checkpoint/offsets/[0-9]*")
            for line in file.read_text().splitlines()
            if '"tick"' in line
        ]
        return max((Place(o["tick"], o["index"]) for o in offsets), key=_order, default=Place(0))

    def _hold_clock(self) -> None:
        """Have the source go on, some seconds from now, where it was read up to."""
        at = round((time.time() + _DOWN_SECONDS) * 1e6) - self._newest_place().tick * TICK_US
        self._clock.parent.mkdir(parents=True, exist_ok=True)
        self._clock.write_text(json.dumps({"origin_us": START_US, "wall_us": at, "first_tick": 0}))

    @property
    def _clock(self) -> Path:
        return self.state / "feed" / "s" / "begin.json"

    def schedule(self) -> Schedule:
        """Return what the source has sent, and would have."""
        begun = json.loads(self._clock.read_text())
        return Schedule(SOURCE, begun, int((self.folder / SURGE_TICKS).read_text()))

    # What came of it.

    @property
    def attempts(self) -> Attempts:
        """What batches were told and did."""
        return read_attempts(self.folder / ATTEMPTS, self.state)

    def answered(self, query: SurgeQuery) -> Counter[Answer]:
        """Return what is in a query's sink."""
        files = sorted(self._out(query.name).glob("*.parquet"))
        tables = [pyarrow.parquet.read_table(f, columns=list(query.columns)) for f in files]
        return Counter(row for table in tables for row in _rows(table))

    def judge(self, status: Mapping[str, Any]) -> list[str]:
        """Return what is wrong, of a flow that has stopped."""
        attempts = self.attempts
        sent = self.schedule().tuples(Place(self._newest_place().tick + _AFTER_TICKS))
        found = attempts.wrong()
        for query in self.queries.values():
            given, batches = self.answered(query), attempts.of(query.name)
            wrong = given - answers(query, sent)
            if wrong:
                found.append(f"{query.name}: {wrong.total()} wrong answers: {list(wrong)[:3]}")
            if query.name in status["queries"]:
                counted = counts(dict(status), query.name)
                found += self._miscounted(query, given, batches, counted)
                if query in QUERIES:
                    found += self._wrong_drops(query, sent, batches, counted)
        return found

    def _miscounted(
        self,
        query: SurgeQuery,
        given: Counter[Answer],
        batches: Sequence[Batch],
        counted: Mapping[str, int],
    ) -> list[str]:
        contributed = (
            given.total() if query.key is None else sum(n * a[2] for a, n in given.items())
        )
        wanted = {
            "in": query.windows * sum(batch.rows for batch in batches),
            "contributed": contributed,
            "late": 0,
        }
        if query.key is not None:
            # Everything is wanted: nothing may be left over for what is filtered.
            wanted["filtered"] = 0
        if not query.rejects:
            wanted["rejected"] = 0
        if query in QUERIES:
            wanted["in"] = query.windows * self._rows_read(batches[-1].unit)
        return [
            f"{query.name}: {name} is {counted.get(name, 0)}, not {value}; {counted}"
            for name, value in wanted.items()
            if counted.get(name, 0) != value
        ]

    def _rows_read(self, unit: str) -> int:
        """Return how many tuples the schedule sends up to where a unit has read."""
        offset = json.loads(committed_offsets(self.state / "units" / unit / "checkpoint")[0])
        return self.schedule().rows(Place(offset["tick"], offset["index"]))

    def _wrong_drops(
        self,
        query: SurgeQuery,
        sent: pa.Table,
        batches: Sequence[Batch],
        counted: Mapping[str, int],
    ) -> list[str]:
        """Compare what was dropped with what the rows of the control history drop.

        What is dropped of windows is known only when they close; without windows, of each attempt.
        """
        wanted, found = dropped(self.session, query, sent, batches), []
        for batch in batches:
            for each in batch.counted:
                given = each["counted"], sum(each["dropped"].values())
                if given != (batch.rows, wanted[batch.number]):
                    found.append(
                        f"batch {batch.number} has dropped {given[1]} of {given[0]}, "
                        f"not {wanted[batch.number]} of {batch.rows}"
                    )
        if counted.get("gate", 0) != wanted.total():
            found.append(f"{query.name}: dropped is {counted.get('gate')}, not {wanted.total()}")
        return found


def _order(place: Place) -> tuple[int, int]:
    return place.tick, place.index


def _rows(table: pa.Table) -> list[Answer]:
    columns = [
        column.cast("int64") if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
