"""Sharing: N queries as plain Spark StreamingQueries against the same N in one flow.

Both sides read the same generated files in the same batches and write every query to a parquet
sink of its own; the answers are compared from disk. Plain Spark is measured twice, all queries at
once and one after another, and its better figure counts (of fifty queries some are measured alone,
and multiplied). Every workload has a JVM of its own.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.choice import Only
from evenflow.bench.own_process import given_task, results_of, tell
from evenflow.bench.workload import WORKLOADS
from evenflow.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from evenflow.bench.workload import Workload
    from evenflow.model.flow import FlowSpec


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: batches that warm up, batches that are measured, rows in each."""

    warm: int
    measured: int
    rows: int
    plain: bool = True
    in_turn: int = 1
    """Of how many queries one is measured alone, for plain Spark's second way."""
    rounds: int = 1
    """How often plain Spark runs; of several rounds the first warms up."""


OPTIONS = ("case", "queries", "rows")
_ROWS = 500_000
FULL = {
    1: Size(warm=2, measured=6, rows=_ROWS, rounds=5),
    10: Size(warm=3, measured=3, rows=_ROWS),
    50: Size(warm=2, measured=3, rows=_ROWS, in_turn=10),
    200: Size(warm=3, measured=5, rows=_ROWS, plain=False),
}
QUICK = {
    1: Size(warm=1, measured=4, rows=_ROWS // 2, rounds=3),
    50: Size(warm=1, measured=1, rows=_ROWS // 2, in_turn=50),
}
"""By number of queries: what ends within five minutes, most of which plain Spark takes."""


def run(*, quick: bool, on_step: Callable[[str], None], only: Only | None = None) -> dict[str, Any]:
    """Run all cases and return the report.

    Raises:
        UserError: There is no such case.
    """
    only = only or Only()
    cases: list[dict[str, Any]] = []
    for workload in ("distinct-keys", "metering-mix") if quick else WORKLOADS:
        for flag in (True,) if quick else (True, False):
            sizes = _sizes(QUICK if quick else FULL, only)
            if sizes and only.case in (None, workload):
                cases += _in_own_process(workload, flag, sizes, on_step)
    if not cases:
        numbers = ", ".join(map(str, QUICK if quick else FULL))
        hint = f"cases: {', '.join(WORKLOADS)}; queries: {numbers}; --quick has not all of them"
        raise UserError("there is no such case", hint)
    return {"bench": "sharing", "cases": cases}


def verdict(report: dict[str, Any]) -> list[str]:
    """Return a line if answers differed; docs/results.md has the bars."""
    differ = sum(case["equal"] is False for case in report["cases"])
    return [f"answers differ in {differ} cases"] if differ else []


def _sizes(sizes: dict[int, Size], only: Only) -> dict[int, Size]:
    return {
        queries: size if only.rows is None else replace(size, rows=only.rows)
        for queries, size in sizes.items()
        if only.queries in (None, queries)
    }


def _summary(case: dict[str, Any]) -> str:
    shared = f"{case['shared_rows_per_second']:,.0f} rows/s shared"
    if case["ratio"] is None:
        millions = case["shared_rows_per_second"] * case["queries"] / 1e6
        return f"{shared}, {millions:,.1f} million query-rows/s"
    return f"{shared}, {case['plain_rows_per_second']:,.0f} plain, ratio {case['ratio']:.1f}"


def _in_own_process(
    workload: str, flag: bool, sizes: dict[int, Size], on_step: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Run the cases of one workload in a process of their own: a JVM has its flag for life."""
    said = {
        n: f"{workload}, {n} queries" + ("" if flag else ", without the JVM flag") for n in sizes
    }
    waiting = list(sizes)
    on_step(f"sharing: {said[waiting[0]]}")
    task = {"workload": workload, "flag": flag, "sizes": {n: asdict(s) for n, s in sizes.items()}}
    cases = []
    memory = {"EVENFLOW_DRIVER_MEMORY": "6g"}
    for case in results_of("evenflow.bench.sharing", task, environment=memory):
        cases.append(case)
        on_step(f"sharing: {said[waiting.pop(0)]}: {_summary(case)}")
        if waiting:
            on_step(f"sharing: {said[waiting[0]]}")
    return cases


def measure(
    session: SparkSession, workload: Workload, queries: int, flag: bool, size: Size
) -> dict[str, Any]:
    """Run one case."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    try:
        workload.write(session, folder / "data", size.warm + size.measured, size.rows)
        spec = workload.spec(folder / "data", queries)
        measured: dict[str, list[float]] = {"plain": [], "shared": []}
        sides = {"plain": _plain, "shared": _shared} if size.plain else {"shared": _shared}
        # Many plain queries warm the JVM up by themselves, one flow has to run twice for that.
        rounds = {"plain": size.rounds, "shared": max(size.rounds, 2)}
        for index in range(max(rounds.values())):
            # Whoever runs second finds a warmer JVM.
            for side in sides if index % 2 == 0 else reversed(sides):
                if index < rounds[side]:
                    shutil.rmtree(folder / side, ignore_errors=True)
                    measured[side].append(sides[side](session, spec, folder / side, size))
        plain = _median(measured["plain"])
        shared = _median(measured["shared"])
        equal = _equal(spec, folder) if size.plain else None
        return {
            "case": workload.name,
            "queries": queries,
            "flag": flag,
            "plain_rows_per_second": round(plain) if size.plain else None,
            "shared_rows_per_second": round(shared),
            "ratio": round(shared / plain, 2) if size.plain else None,
            "equal": equal,
            "seconds": round(time.monotonic() - began, 1),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _median(rounds: Sequence[float]) -> float:
    """Return the median of the rounds after the first, or of the only one."""
    return statistics.median(rounds[1:] or rounds or [0.0])


def _shared(session: SparkSession, spec: FlowSpec, folder: Path, size: Size) -> float:
    from evenflow.model.query import Sink
    from evenflow.spark.run import Run

    queries = tuple(
        replace(q, sinks=(Sink("parquet", path=str(folder / "out" / q.name)),))
        for q in spec.queries
    )
    run_ = Run(replace(spec, queries=queries), session, folder / "state")
    run_.start(available_now=True)
    run_.wait()
    durations = [_durations(each.recent_progress(), size) for each in run_.runs]
    run_.stop()
    # Units run side by side and each sees every row: the slowest decides.
    return size.rows / max(statistics.median(d) for d in durations)


def _durations(progress: list[Any], size: Size) -> list[float]:
    """Return the seconds of the measured batches: those of full size after the warm-up."""
    full = [p for p in progress if p["numInputRows"] >= size.rows]
    return [p["durationMs"]["triggerExecution"] / 1000 for p in full[size.warm :]]


def _plain(session: SparkSession, spec: FlowSpec, folder: Path, size: Size) -> float:
    """Return plain Spark's rows per second, the better of its two ways."""
    together = _plain_together(session, spec, folder, size)
    if len(spec.queries) == 1:
        return together
    in_turn = _plain_in_turn(session, spec, folder.with_name("plain-in-turn"), size)
    return max(together, in_turn)


def _start_plain(session: SparkSession, spec: FlowSpec, folder: Path, index: int) -> Any:
    from evenflow.spark.compile.plain import PlainBuilder
    from evenflow.spark.session import own_session
    from evenflow.spark.source.sources import Sources
    from evenflow.spark.state.directory import StateDirectory

    own = own_session(session)
    sources = Sources(own, spec, StateDirectory(folder / "sources"))
    builder = PlainBuilder(
        source=sources.open,
        table=sources.open_table,
        applied=spec.applied,
        pushed=True,
    )
    query = spec.queries[index]
    writer = builder.query(query).writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint" / query.name))
    writer = writer.option("path", str(folder / "out" / query.name))
    return writer.trigger(availableNow=True).start()


def _plain_together(session: SparkSession, spec: FlowSpec, folder: Path, size: Size) -> float:
    running = [_start_plain(session, spec, folder, i) for i in range(len(spec.queries))]
    for each in running:
        each.awaitTermination()
    if len(running) == 1:
        return size.rows / statistics.median(_durations(list(running[0].recentProgress), size))
    return size.rows * size.measured / _wall(running, size)


def _wall(running: list[Any], size: Size) -> float:
    """Return seconds from the first measured batch to the end of the last, over all queries."""
    from evenflow.spark.compare import timing

    measured: list[Any] = []
    for each in running:
        full = [p for p in each.recentProgress if p["numInputRows"] >= size.rows]
        measured += full[size.warm :]
    return timing(measured).seconds


def _plain_in_turn(session: SparkSession, spec: FlowSpec, folder: Path, size: Size) -> float:
    seconds = []
    for index in range(0, len(spec.queries), size.in_turn):
        query = _start_plain(session, spec, folder, index)
        query.awaitTermination()
        seconds.append(statistics.median(_durations(list(query.recentProgress), size)))
    return size.rows / (statistics.mean(seconds) * len(spec.queries))


def _equal(spec: FlowSpec, folder: Path) -> bool:
    from evenflow.spark.compare import compare_answers

    return not compare_answers(spec, folder)


def main() -> None:
    """Run the cases given as JSON and print each result when it is there."""
    from evenflow.spark.session import make_session

    task = given_task()
    workload, flag = WORKLOADS[task["workload"]], task["flag"]
    session = make_session("bench sharing", compile_large_methods=flag)
    try:
        for queries, size in task["sizes"].items():
            case = measure(session, workload, int(queries), flag, Size(**size))
            tell(case)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
