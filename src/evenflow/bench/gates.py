"""Gates: what gates cost that are open.

The same stack of fifty queries is built with gates and without, and both run in one JVM over the
same files, 200,000 rows per batch, in turns: with, without, without, with. Batches of full size
after the warm-up count, by the median of Spark's `triggerExecution`. Both runs of a round are
compared with each other alone, because machines grow slower and faster from minute to minute; the
median of rounds is told, and how far they lie apart.

Every unit has gates; leaving them out is for this benchmark alone (`NoGates`).
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.choice import Only
from evenflow.bench.own_process import given_task, results_of, tell
from evenflow.bench.workload import WORKLOADS
from evenflow.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from evenflow.model.flow import FlowSpec

OPTIONS = ("case", "rows")
CASES = ("distinct-keys", "metering-mix")
QUERIES = 50
_BAR = 0.1
_WITH, _WITHOUT = "with", "without"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    rows: int = 200_000
    warm: int = 4
    """Batches of a run that do not count."""
    measured: int = 8
    rounds: int = 16
    """Of one run with gates and one without."""
    first: int = 4
    """How many of them come first and do not count: the JVM has much to compile still, and more
    with gates than without. One that is alone counts."""


FULL = Size()
QUICK = replace(FULL, warm=3, measured=6, rounds=4, first=1)


def run(*, quick: bool, on_step: Callable[[str], None], only: Only | None = None) -> dict[str, Any]:
    """Run all cases and return the report.

    Raises:
        UserError: There is no such case.
    """
    only = only or Only()
    size = QUICK if quick else FULL
    if only.rows is not None:
        size = replace(size, rows=only.rows)
    cases = []
    for name in CASES:
        if only.case in (None, name):
            on_step(f"gates: {name}, {QUERIES} queries, {size.rows:,} rows per batch")
            task = {"workload": name, "size": asdict(size)}
            cases += list(results_of("evenflow.bench.gates", task))
    if not cases:
        raise UserError("there is no such case", f"cases: {', '.join(CASES)}")
    return {"bench": "gates", "cases": cases}


def verdict(report: dict[str, Any]) -> list[str]:
    """Return lines that say whether the bar is met: less than 10 % of a batch."""
    return [
        f"{case['case']}: open gates add {case['overhead']:.1%} to a batch "
        f"({case['overhead_least']:.1%} to {case['overhead_most']:.1%} by round); "
        f"bar {_BAR:.0%}: {'met' if case['overhead'] < _BAR else 'missed'}"
        for case in report["cases"]
    ]


def measure(session: SparkSession, workload: str, queries: int, size: Size) -> dict[str, Any]:
    """Run one case."""
    folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    try:
        data = WORKLOADS[workload]
        data.write(session, folder / "data", size.warm + size.measured, size.rows)
        spec = data.spec(folder / "data", queries)
        taken: dict[str, list[float]] = {_WITH: [], _WITHOUT: []}
        for number in range(size.rounds):
            # Whoever runs second finds a warmer JVM.
            order = (_WITH, _WITHOUT) if number % 2 == 0 else (_WITHOUT, _WITH)
            for side in order:
                of_run = _batches(session, spec, folder / f"{side}-{number}", size, side)
                taken[side].append(statistics.median(of_run))
        counted = slice(min(size.first, size.rounds - 1), None)
        gated, bare = taken[_WITH][counted], taken[_WITHOUT][counted]
        added = sorted(one / other - 1 for one, other in zip(gated, bare, strict=True))
        return {
            "case": workload,
            "queries": queries,
            "rows": size.rows,
            "rounds": len(added),
            "batch_seconds_with_gates": round(statistics.median(gated), 4),
            "batch_seconds_without": round(statistics.median(bare), 4),
            "overhead": round(statistics.median(added), 4),
            "overhead_least": round(added[0], 4),
            "overhead_most": round(added[-1], 4),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _batches(
    session: SparkSession, spec: FlowSpec, folder: Path, size: Size, side: str
) -> list[float]:
    """Return what batches of a run took."""
    from evenflow.model.query import Sink
    from evenflow.spark.compile.gates import GatePlan, NoGates
    from evenflow.spark.run import Run

    queries = tuple(
        replace(q, sinks=(Sink("parquet", path=str(folder / "out" / q.name)),))
        for q in spec.queries
    )
    plan = GatePlan if side == _WITH else NoGates
    run_ = Run(replace(spec, queries=queries), session, folder / "state", gate_plan=plan)
    run_.start(available_now=True)
    run_.wait()
    (unit,) = run_.runs
    full = [p for p in unit.recent_progress() if p["numInputRows"] >= size.rows]
    run_.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return [p["durationMs"]["triggerExecution"] / 1000 for p in full[size.warm :]]


def main() -> None:
    """Run the case given as JSON and print its result."""
    from evenflow.spark.session import make_session

    task = given_task()
    session = make_session("bench gates")
    try:
        tell(measure(session, task["workload"], QUERIES, Size(**task["size"])))
    finally:
        session.stop()


if __name__ == "__main__":
    main()
