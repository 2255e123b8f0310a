"""Soak: does anything grow while a flow of about twenty queries is changed every few seconds?

A query is subscribed, unsubscribed (now and then kept), paused or resumed, as a seed decides. Each
quarter of a minute the driver's JVM collects its garbage and everything is looked at: memory of
the Python process, of the JVM, of executors on a cluster and of Python workers; heap and classes
that are left; threads, processes, open files; files in the state directory.

The source is Spark's own `rate`: every start of a source that is written in Python, ours too,
leaves a thread of Spark's behind (its idle worker monitor), which is not ours to judge here.

The slope is the median of the slopes between all pairs of samples after the first minutes. A
thing grows if it rose, by that slope, by more than 3 % of its level and by more than its noise.
Of the queries that were never touched, all windows must have been answered once.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.figures import slope
from evenflow.bench.own_process import given_task, results_of, tell
from evenflow.bench.process_tree import descendants, files_under, heap_after_gc
from evenflow.bench.soak_flow import UNTOUCHED, Population, SoakQuery, apply, soak_spec
from evenflow.bench.visible import window_totals
from evenflow.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from evenflow.bench.choice import Only
    from evenflow.spark.run import Run

OPTIONS = ("seconds",)
_MOST_SETTLING_SECONDS = 180.0
_CHECKED_SECONDS = 60.0
"""In less time some queries have no answers yet."""
_HOUR = 3600.0
_SHARE = 0.03

Sample = dict[str, float]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    seconds: float = 600.0
    queries: int = 20
    rate: int = 1_000
    every: float = 1.0
    change_seconds: float = 3.0
    sample_seconds: float = 15.0
    seed: int = 0


FULL = Size()
QUICK = Size(seconds=180.0)


def run(*, quick: bool, on_step: Callable[[str], None], only: Only | None = None) -> dict[str, Any]:
    """Run it and return the report."""
    size = QUICK if quick else FULL
    if only is not None and only.seconds is not None:
        size = Size(seconds=only.seconds)
    on_step(f"soak: {size.queries} queries for {size.seconds:g} s")
    samples: list[Sample] = []
    for sample in results_of("evenflow.bench.soak", asdict(size)):
        samples.append(sample)
        on_step("soak: " + ", ".join(f"{name} {value:g}" for name, value in sample.items()))
    return report_of(samples, settling_seconds(size.seconds))


def settling_seconds(seconds: float) -> float:
    """Return how long nothing is judged: caches fill, old batches are not yet forgotten."""
    return min(_MOST_SETTLING_SECONDS, seconds / 3)


def report_of(samples: Sequence[Sample], settling: float) -> dict[str, Any]:
    """Return the report over samples, of which each has its `seconds` and the `changes` so far."""
    judged = [sample for sample in samples if sample["seconds"] >= settling]
    if len(judged) < 3:
        raise RunError("the soak was too short to tell whether anything grows", "give --for 10m")
    names = [name for name in judged[0] if name not in ("seconds", "changes")]
    return {
        "bench": "soak",
        "seconds": round(samples[-1]["seconds"]),
        "settling_seconds": round(settling),
        "changes": int(samples[-1]["changes"]),
        "cases": [
            {"what": name, **trend([(s["seconds"], s[name]) for s in judged])} for name in names
        ],
    }


def trend(points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Return how a thing has developed, from its samples: seconds and value."""
    per_second = slope(points)
    level = statistics.median(value for _, value in points)
    middle = statistics.median(seconds for seconds, _ in points)
    off = [abs(value - level - per_second * (seconds - middle)) for seconds, value in points]
    rise = per_second * (points[-1][0] - points[0][0])
    return {
        "first": round(points[0][1], 1),
        "last": round(points[-1][1], 1),
        "slope_per_hour": round(per_second * _HOUR, 1),
        "grows": rise > max(_SHARE * level, 2 * statistics.median(off)),
    }


def verdict(report: dict[str, Any]) -> list[str]:
    """Return a line that says what grows."""
    growing = [case["what"] for case in report["cases"] if case["grows"]]
    said = f"{', '.join(growing)} grows" if growing else "nothing grows"
    span = f"{report['changes']} changes in {report['seconds']} s"
    return [f"{span}; after the first {report['settling_seconds']} s {said}"]


# Running.


def soak(session: SparkSession, size: Size, on_sample: Callable[[Sample], None]) -> None:
    """Run a flow for its time and hand out a sample now and then.

    Raises:
        RunError: A query is quarantined, or an answer is missing or wrong.
    """
    from evenflow.spark.run import Run

    folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    sinks, state = folder / "out", folder / "state"
    queries = [SoakQuery(i) for i in range(size.queries)]
    population = Population(size.queries, size.seed)
    changes = 0
    try:
        with Run(soak_spec(queries, sinks, size.rate, size.every), session, state).start() as run_:
            began = time.monotonic()
            sampled = began
            while (now := time.monotonic()) < began + size.seconds:
                apply(run_, *population.draw(), sinks, size.every)
                changes += 1
                time.sleep(max(0.0, now + size.change_seconds - time.monotonic()))
                if time.monotonic() >= sampled + size.sample_seconds:
                    sampled = time.monotonic()
                    found = take_sample(state)
                    on_sample({"seconds": sampled - began, "changes": changes, **found})
            _check_health(run_)
        for each in queries[:UNTOUCHED] if size.seconds >= _CHECKED_SECONDS else ():
            if each.window_us is not None:
                each.check(size.rate, window_totals(sinks / each.name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_health(run_: Run) -> None:
    for name, query in run_.status()["queries"].items():
        if query["state"] == "quarantined":
            raise RunError(f"query {name} is quarantined: {query['reason']}")


def take_sample(state: Path) -> Sample:
    """Return what everything takes now, after the driver's garbage was collected."""
    tree = descendants(os.getpid())
    own = tree[0]
    java = [each for each in tree if each.is_java]
    driver, executors = java[0], java[1:]
    left = heap_after_gc(driver.pid)
    workers = [each for each in tree[1:] if not each.is_java]
    files, megabytes = files_under(state)
    sample = {
        "python_rss_mb": own.rss_mb,
        "driver_rss_mb": driver.rss_mb,
        "workers_rss_mb": sum(each.rss_mb for each in workers),
        "python_threads": threading.active_count(),
        "driver_threads": driver.threads,
        "workers": len(workers),
        "python_open_files": own.open_files(),
        "driver_open_files": driver.open_files(),
        "state_files": files,
        "state_mb": megabytes,
    }
    if left is not None:
        sample |= {"driver_heap_mb": left.heap_mb, "driver_classes_mb": left.metaspace_mb}
    if executors:
        sample["executors_rss_mb"] = sum(each.rss_mb for each in executors)
        sample["executors_threads"] = sum(each.threads for each in executors)
    return {name: round(value, 1) for name, value in sample.items()}


def main() -> None:
    """Run what is given as JSON and print each sample."""
    from evenflow.spark.session import make_session

    size = Size(**given_task())
    session = make_session("bench soak", os.environ.get("EVENFLOW_MASTER"))
    try:
        soak(session, size, tell)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
