"""Changes: what a change to a running flow costs the queries that it does not concern.

Tuples arrive at 200,000 per second, as files, whatever the flow does. N windowed queries run in
one stack, as users have it: a batch per second, counting, durable sinks. Another query is
subscribed, paused, resumed and unsubscribed, several times, each change some quiet seconds after
the one before.

- `steady_batch_seconds`: median of Spark's `triggerExecution` before the first change: what a
  batch takes, without the waiting for the next one.
- `gap_seconds`, of a change: the longest time between two successive files of answers in the sink
  of any other query, of all pairs of files that overlap the time from the request to the second
  answers after it. Nothing is taken off: the second between two batches of a flow at rest is in it.
  Windows last a quarter of a second, so that every batch answers every query.
- `first_answer_seconds`: from calling `subscribe` to the new query's first file of answers; median.
  Part of it is waiting for a window that the query sees whole, and for the watermark.

Answers are checked: every window of every other query was answered once, with the right total.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.arriving import arriving
from evenflow.bench.choice import Only
from evenflow.bench.figures import longest_gap
from evenflow.bench.live import Arrivals, WindowQuery, live_spec, sink_of
from evenflow.bench.own_process import given_task, results_of, tell
from evenflow.bench.visible import answer_files, first_answer, wait_until, window_totals
from evenflow.errors import RunError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from evenflow.spark.run import Run

OPTIONS = ("queries",)
WINDOW_US = 250_000
BAR_QUERIES = 50
_MOST_SECONDS = 120.0
"""For anything that is waited for."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    rate: int = 200_000
    every: float = 1.0
    """Seconds between batches: what users have who do not say otherwise."""
    warm_seconds: float = 30.0
    steady_batches: int = 20
    rounds: int = 6
    """Of four changes each: subscribe, pause, resume, unsubscribe."""
    quiet_seconds: float = 3.0
    """Between the end of a change and the next."""


FULL = dict.fromkeys((1, 10, 50), Size())
QUICK = {50: replace(Size(), warm_seconds=20.0, steady_batches=12, rounds=3)}
"""By number of queries."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change, in seconds since the epoch."""

    asked: float
    settled: float
    """When the second answers after it were there."""


def run(*, quick: bool, on_step: Callable[[str], None], only: Only | None = None) -> dict[str, Any]:
    """Run all cases and return the report.

    Raises:
        UserError: There is no such case.
    """
    only = only or Only()
    cases = []
    for queries, size in (QUICK if quick else FULL).items():
        if only.queries in (None, queries):
            on_step(f"change: {queries} queries at {size.rate:,} rows/s")
            task = {"queries": queries, "size": asdict(size)}
            cases += list(results_of("evenflow.bench.change", task))
    if not cases:
        raise UserError("there is no such case", "queries: 1, 10, 50; --quick has 50 only")
    return {"bench": "change", "cases": cases}


def verdict(report: dict[str, Any]) -> list[str]:
    """Return lines that say whether the bar is met: at 50 queries, 2.5 steady batches plus 1 s."""
    lines = []
    for case in report["cases"]:
        if case["queries"] == BAR_QUERIES:
            bar = 2.5 * case["steady_batch_seconds"] + 1.0
            met = "met" if case["gap_seconds_worst"] <= bar else "missed"
            if met == "missed" and case["gap_seconds_median"] <= bar:
                met = "missed by the worst, met by the median"
            lines.append(
                f"50 queries: gap {case['gap_seconds_median']:.2f} s, worst "
                f"{case['gap_seconds_worst']:.2f} s; bar {bar:.2f} s: {met}"
            )
    return lines


def measure(session: SparkSession, queries: int, size: Size) -> dict[str, Any]:
    """Run one case.

    Raises:
        RunError: An answer is missing or wrong.
    """
    from evenflow.spark.run import Run

    folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    try:
        arrivals = Arrivals(rate=size.rate, delay_us=WINDOW_US)
        others = [WindowQuery(i, WINDOW_US) for i in range(queries)]
        sinks = folder / "out"
        files = folder / "in"
        spec = live_spec(arrivals, others, sinks, size.every, files)
        with arriving(arrivals, files), Run(spec, session, folder / "state").start() as run_:
            first_answer(sinks / others[0].name, _MOST_SECONDS)
            time.sleep(size.warm_seconds)
            steady = _steady(run_, size.steady_batches)
            changes, firsts = _changes(run_, queries, sinks, size)
        times = [[f.at for f in answer_files(sinks / each.name)] for each in others]
        gaps = [gap_of(each, times) for each in changes]
        for each in others:
            check(each, arrivals, sinks)
        return {
            "queries": queries,
            "steady_batch_seconds": round(steady, 3),
            "gap_seconds_median": round(statistics.median(gaps), 3),
            "gap_seconds_worst": round(max(gaps), 3),
            "first_answer_seconds": round(statistics.median(firsts), 3),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def gap_of(change: Change, times: Sequence[Sequence[float]]) -> float:
    """Return the longest gap that any query sees around a change."""
    return max(longest_gap(each, change.asked, change.settled) for each in times)


def _steady(run_: Run, batches: int) -> float:
    """Return what a batch takes, over as many of the latest batches of the one unit."""
    (unit,) = run_.runs

    def seconds() -> list[float]:
        full = [p for p in unit.recent_progress() if p["numInputRows"] > 0]
        return [p["durationMs"]["triggerExecution"] / 1000 for p in full]

    known = len(seconds())
    wait_until(lambda: len(seconds()) >= known + batches, _MOST_SECONDS, f"{batches} batches")
    return statistics.median(seconds()[-batches:])


def _changes(run_: Run, queries: int, sinks: Path, size: Size) -> tuple[list[Change], list[float]]:
    """Make all changes; return them, and how long each new query waited for its first answer."""
    changes: list[Change] = []
    firsts: list[float] = []
    witness = sinks / WindowQuery(0, WINDOW_US).name

    def make(change: Callable[[], None]) -> float:
        asked = time.time()
        change()
        done = time.time()
        wait_until(
            lambda: sum(f.at > done for f in answer_files(witness)) >= 2,
            _MOST_SECONDS,
            "answers after a change",
        )
        changes.append(Change(asked, time.time()))
        return asked

    for round_ in range(size.rounds):
        extra = WindowQuery(queries + round_, WINDOW_US)
        sink = sink_of(sinks, extra)
        asked = make(partial(run_.subscribe, extra.name, extra.sql, sink, every=size.every))
        firsts.append(first_answer(sinks / extra.name, _MOST_SECONDS) - asked)
        for change in (run_.pause, run_.resume, run_.unsubscribe):
            time.sleep(size.quiet_seconds)
            make(partial(change, extra.name))
        time.sleep(size.quiet_seconds)
    return changes, firsts


def check(query: WindowQuery, arrivals: Arrivals, sinks: Path) -> None:
    """Compare a query's windows with the schedule, from the first that it saw whole.

    Raises:
        RunError: A window is missing, or its answers are not those of the schedule.
    """
    found = window_totals(sinks / query.name)
    if not found:
        raise RunError(f"query {query.name} has no answers")
    starts = range(min(found) + query.window_us, max(found) + 1, query.window_us)
    for start in starts:
        right = query.total(arrivals, start)
        if found.get(start, 0) != right:
            raise RunError(
                f"query {query.name}: window {start} counts {found.get(start, 0)}, not {right}"
            )


def main() -> None:
    """Run the case given as JSON and print its result."""
    from evenflow.spark.session import make_session

    task = given_task()
    session = make_session("bench change")
    try:
        tell(measure(session, task["queries"], Size(**task["size"])))
    finally:
        session.stop()


if __name__ == "__main__":
    main()
