"""Latency: how old answers are when they become visible, of 1 and 50 queries and of plain Spark.

1,000 tuples per second arrive by the clock, whatever their readers do. The age of an answer is the
time at which the file that holds it became visible (see `visible`), less the scheduled arrival of
the tuple that completed it: of a filter's answer the tuple itself, of a window's the first whose
event time moves the watermark to the window's end. When a batch begins to read it does not matter.

Both sides have the same source, watermark, sink format and trigger, a batch per second, and
run one after another in one JVM, plain Spark last, when the JVM is warmest. Windows last 370 ms, so
that they end at all phases of the second between two batches.

What is measured are the answers of a span of event time that begins after the warm-up. All of
them are compared with those that follow from the schedule: none missing, none twice, none wrong.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.choice import Only
from evenflow.bench.figures import percentile
from evenflow.bench.live import SECOND_US, Arrivals, FilterQuery, WindowQuery, live_spec
from evenflow.bench.own_process import given_task, results_of, tell
from evenflow.bench.visible import first_answer, read_answers, wait_until
from evenflow.errors import RunError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from evenflow.bench.live import Answer, LiveQuery
    from evenflow.model.flow import FlowSpec

OPTIONS = ("case", "queries")
KINDS = ("stateless", "windowed")
WINDOW_US = 370_000
DELAY_US = 500_000
BAR_QUERIES = 50
_BAR = 2.0
_FIRST_SECONDS = 120.0
"""How long the first answers are waited for, with which the warm-up begins."""
_GRACE_SECONDS = 60.0
"""How long answers are waited for that should be there."""

Span = tuple[int, int]
"""From an event time to before another, in microseconds."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    rate: int = 1_000
    every: float = 1.0
    """Seconds between batches: what users have who do not say otherwise."""
    warm_seconds: float = 20.0
    measured_seconds: float = 90.0


FULL = Size()
QUICK = replace(FULL, warm_seconds=10.0, measured_seconds=25.0)
QUERIES = (1, 50)


def run(*, quick: bool, on_step: Callable[[str], None], only: Only | None = None) -> dict[str, Any]:
    """Run all cases and return the report.

    Raises:
        UserError: There is no such case.
    """
    only = only or Only()
    numbers = [n for n in QUERIES if only.queries in (None, n)]
    kinds = [kind for kind in KINDS if only.case in (None, kind)]
    if not numbers or not kinds:
        raise UserError("there is no such case", "cases: stateless, windowed; queries: 1, 50")
    cases = []
    for kind in kinds:
        on_step(f"latency: {kind}, {' and '.join(map(str, numbers))} queries, then plain Spark")
        task = {"kind": kind, "queries": numbers, "size": asdict(QUICK if quick else FULL)}
        cases += list(results_of("evenflow.bench.latency", task))
    return {"bench": "latency", "cases": cases}


def verdict(report: dict[str, Any]) -> list[str]:
    """Return lines that say whether the bar is met: 50 queries within twice plain Spark's p99."""
    lines = []
    for case in report["cases"]:
        if case["queries"] == BAR_QUERIES:
            ratio = case["p99"] / case["plain_one_query_p99"]
            met = "met" if ratio <= _BAR else "missed"
            lines.append(
                f"50 {case['kind']} queries: p99 {case['p99']:.2f} s, {ratio:.2f} times plain "
                f"Spark's of one query; bar {_BAR:g}: {met}"
            )
    return lines


@dataclass(frozen=True, slots=True)
class Trial:
    """Some queries, run once in one way."""

    queries: Sequence[LiveQuery]
    arrivals: Arrivals
    every: float
    folder: Path

    @property
    def sinks(self) -> Path:
        """Where answers go, one folder per query."""
        return self.folder / "out"

    def spec(self) -> FlowSpec:
        """Return the queries as a flow."""
        return live_spec(self.arrivals, self.queries, self.sinks, self.every)

    def answers(self, query: LiveQuery, span: Span) -> list[tuple[Answer, float]]:
        """Return the answers that begin in a span, and since when each is visible."""
        seen = ((query.answer(row), at) for row, at in read_answers(self.sinks / query.name))
        own = self.arrivals
        return [(a, at) for a, at in seen if span[0] <= query.begun_us(own, a) < span[1]]

    def has_all(self, query: LiveQuery, span: Span) -> bool:
        """Whether all right answers of a span are there."""
        found = Counter(answer for answer, _ in self.answers(query, span))
        return not query.right(self.arrivals, *span) - found

    def ages(self, span: Span) -> list[float]:
        """Check the answers of a span and return their ages.

        Raises:
            RunError: One is missing, wrong or there twice.
        """
        ages: list[float] = []
        for each in self.queries:
            found = self.answers(each, span)
            right = each.right(self.arrivals, *span)
            check(each.name, Counter(answer for answer, _ in found), right)
            ages += [at - each.completed_us(self.arrivals, a) / SECOND_US for a, at in found]
        return ages


def measure(
    session: SparkSession, kind: str, numbers: Sequence[int], size: Size
) -> list[dict[str, Any]]:
    """Run the cases of one kind.

    Raises:
        RunError: An answer is missing, wrong or there twice.
    """
    folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    arrivals = Arrivals(rate=size.rate, delay_us=DELAY_US)
    try:
        ages = {}
        for n in numbers:
            trial = Trial(queries_of(kind, n), arrivals, size.every, folder / f"flow-{n}")
            ages[n] = _ages(_flow, session, trial, size)
        trial = Trial(queries_of(kind, 1), arrivals, size.every, folder / "plain")
        plain = _ages(_plain, session, trial, size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        {
            "kind": kind,
            "queries": n,
            "p50": round(percentile(own, 0.5), 3),
            "p99": round(percentile(own, 0.99), 3),
            "plain_one_query_p50": round(percentile(plain, 0.5), 3),
            "plain_one_query_p99": round(percentile(plain, 0.99), 3),
        }
        for n, own in ages.items()
    ]


def queries_of(kind: str, count: int) -> list[LiveQuery]:
    """Return the first queries of a kind."""
    if kind == "stateless":
        return [FilterQuery(i) for i in range(count)]
    return [WindowQuery(i, WINDOW_US) for i in range(count)]


# Running.


@contextmanager
def _flow(session: SparkSession, trial: Trial) -> Iterator[None]:
    from evenflow.spark.run import Run

    with Run(trial.spec(), session, trial.folder / "state").start():
        yield


@contextmanager
def _plain(session: SparkSession, trial: Trial) -> Iterator[None]:
    """Run one query as plain Spark.

    Its predicate stays above the watermark, so that the same tuple closes the same window.
    """
    from evenflow.spark.compile.plain import PlainBuilder
    from evenflow.spark.session import own_session
    from evenflow.spark.source.sources import Sources
    from evenflow.spark.state.directory import StateDirectory

    spec = trial.spec()
    (query,) = spec.queries
    sources = Sources(own_session(session), spec, StateDirectory(trial.folder / "sources"))
    builder = PlainBuilder(
        source=sources.open,
        table=sources.open_table,
        applied=spec.applied,
    )
    writer = builder.query(query).writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(trial.folder / "checkpoint"))
    writer = writer.option("path", str(trial.sinks / query.name))
    running = writer.trigger(processingTime=f"{query.every} seconds").start()
    try:
        yield
        failure = running.exception()
        if failure is not None:
            raise RunError(f"plain Spark failed: {str(failure).splitlines()[0]}") from failure
    finally:
        running.stop()


def _ages(
    side: Callable[[SparkSession, Trial], AbstractContextManager[None]],
    session: SparkSession,
    trial: Trial,
    size: Size,
) -> list[float]:
    """Run a trial for its time and return the ages of all answers of the measured span."""
    with side(session, trial):
        first_answer(trial.sinks / trial.queries[0].name, _FIRST_SECONDS)
        begin = _whole_us(time.time() + size.warm_seconds)
        span = begin, _whole_us(begin / SECOND_US + size.measured_seconds)
        time.sleep(max(0.0, span[1] / SECOND_US - time.time()))
        for each in trial.queries:
            # What is missing even then is told when answers are checked.
            with suppress(RunError):
                wait_until(partial(trial.has_all, each, span), _GRACE_SECONDS, "answers")
        # Before it stops: plain Spark takes back the files of a batch that is broken off.
        return trial.ages(span)


def _whole_us(seconds: float) -> int:
    """Return an instant at which a window starts."""
    return round(seconds * SECOND_US) // WINDOW_US * WINDOW_US


def check(query: str, found: Counter[Answer], right: Counter[Answer]) -> None:
    """Compare answers.

    Raises:
        RunError: Some are missing, too many or wrong.
    """
    missing, surplus = right - found, found - right
    if missing or surplus:
        example = next(iter(missing or surplus))
        raise RunError(
            f"query {query}: {missing.total()} answers missing, {surplus.total()} too many "
            f"or wrong, as {example}"
        )


def main() -> None:
    """Run the cases given as JSON and print their results."""
    from evenflow.spark.session import make_session

    task = given_task()
    session = make_session("bench latency")
    try:
        for case in measure(session, task["kind"], task["queries"], Size(**task["size"])):
            tell(case)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
