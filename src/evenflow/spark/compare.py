"""The flow against plain Spark: the same files batch by batch, answers from disk, both speeds."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.errors import RunError
from evenflow.model.query import Sink
from evenflow.spark.compile.plain import PlainBuilder
from evenflow.spark.equality import difference, not_in, read_answers
from evenflow.spark.record import record, recorded, recorded_rows
from evenflow.spark.run import Run
from evenflow.spark.session import make_session, own_session
from evenflow.spark.source.sources import Sources
from evenflow.spark.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from evenflow.model.flow import FlowSpec

DEFAULT_ROWS = 200_000
_PLAIN_AT_ONCE = 64
"""Plain StreamingQueries that run side by side; the others wait for one of them to end."""


def compare_flow(
    spec: FlowSpec,
    *,
    rows: int | None = None,
    sample: Path | None = None,
    session: SparkSession | None = None,
    on_step: Callable[[str], None] | None = None,
    run_type: type[Run] = Run,
) -> dict[str, Any]:
    """Run a flow's queries plain and shared on the same sample and compare every answer.

    Args:
        spec: The flow.
        rows: Tuples of each source to record.
        sample: A folder of an earlier recording, instead of recording.
        session: Where to run; otherwise on a session of ours.
        on_step: Told what is being done.
        run_type: What runs the shared side; tests put a faulty one here.
    """
    say = on_step or (lambda _: None)
    made = make_session(f"compare {spec.name}") if session is None else None
    folder = Path(tempfile.mkdtemp(prefix="evenflow-compare-"))
    try:
        own = own_session(made or session)  # type: ignore[arg-type]  # one of them is there
        if sample is None:
            say("recording a sample")
            files = folder / "sample"
            replayed = record(own, spec, files, rows or DEFAULT_ROWS)
        else:
            files = sample
            replayed = recorded(spec, sample)
        counts = recorded_rows(spec, files)
        # Whoever runs second finds a warmer JVM: the comparison must not owe that to us.
        say(f"running {len(spec.queries)} queries shared")
        shared, late = run_shared(own, replayed, folder / "shared", run_type)
        say("running them as plain Spark")
        plain = run_plain(own, replayed, folder / "plain")
        say("comparing the answers")
        differences = compare_answers(replayed, folder)
        moved = _moved_by_pushing(own, replayed, late, folder) if late else {}
        return _result(spec, counts, plain, shared, differences, moved)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if made is not None:
            made.stop()


@dataclass(frozen=True, slots=True)
class Timing:
    """When the work after the first batch began and ended, in seconds."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(self.ended - self.began, 1e-3)


def timing(progress: Sequence[Any]) -> Timing:
    """Return the time from the second batch with data to the end, over all StreamingQueries.

    The first batch compiles and warms up, on both sides alike.
    """
    begins, ends = [], []
    for each in progress:
        began = datetime.fromisoformat(each["timestamp"]).timestamp()
        ends.append(began + each["durationMs"].get("triggerExecution", 0) / 1000)
        if each["batchId"] >= 1:
            begins.append(began)
    return Timing(min(begins or ends), max(ends))


def run_plain(
    session: SparkSession,
    spec: FlowSpec,
    folder: Path,
    at_once: int = _PLAIN_AT_ONCE,
    *,
    pushed: bool = False,
) -> Timing:
    """Run each query as a StreamingQuery of its own into parquet; return how long it took.

    Args:
        session: Where to run.
        spec: The flow.
        folder: For answers and checkpoints.
        at_once: How many StreamingQueries run side by side.
        pushed: Let Spark push predicates below the watermark, as it does when left alone.

    Raises:
        RunError: Plain Spark failed.
    """
    sources = Sources(session, spec, StateDirectory(folder / "sources"))
    builder = PlainBuilder(
        source=sources.open,
        table=sources.open_table,
        applied=spec.applied,
        pushed=pushed,
    )
    waiting = list(spec.queries)
    running: list[Any] = []
    progress: list[Any] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            query = waiting.pop(0)
            writer = builder.query(query).writeStream.format("parquet").outputMode("append")
            writer = writer.option("checkpointLocation", str(folder / "checkpoint" / query.name))
            writer = writer.option("path", str(folder / "out" / query.name))
            running.append(writer.trigger(availableNow=True).start())
        for each in [r for r in running if not r.isActive]:
            failure = each.exception()
            if failure is not None:
                raise RunError(f"plain Spark failed: {str(failure).splitlines()[0]}") from failure
            progress += list(each.recentProgress)
            running.remove(each)
        time.sleep(0.01)
    return timing(progress)


def run_shared(
    session: SparkSession, spec: FlowSpec, folder: Path, run_type: type[Run] = Run
) -> tuple[Timing, list[str]]:
    """Run the flow into parquet; return how long it took, and which queries had late tuples."""
    queries = tuple(
        replace(q, sinks=(Sink("parquet", path=str(folder / "out" / q.name)),))
        for q in spec.queries
    )
    run = run_type(replace(spec, queries=queries), session, folder / "state")
    run.start(available_now=True)
    run.wait()
    progress = [p for each in run.runs for p in each.recent_progress()]
    status = run.stop()
    late = [name for name, query in status["queries"].items() if query["counts"]["late"]]
    return timing(progress), late


def _moved_by_pushing(
    session: SparkSession, spec: FlowSpec, late: Sequence[str], folder: Path
) -> dict[str, int]:
    """Return how many answers Spark alone, which pushes a WHERE below the watermark, has otherwise.

    A pushed predicate lets the watermark see fewer tuples, so that fewer are late. Only queries
    that had late tuples can differ, and only they are run again. Windows that its own slower
    watermark has not closed yet do not count.
    """
    queries = tuple(q for q in spec.queries if q.name in late)
    run_plain(session, replace(spec, queries=queries), folder / "pushed", pushed=True)
    moved = {}
    for query in queries:
        pushed = read_answers(folder / "pushed" / "out" / query.name, query.schema)
        above = read_answers(folder / "plain" / "out" / query.name, query.schema)
        moved[query.name] = not_in(pushed, above)
    return {name: count for name, count in moved.items() if count}


def compare_answers(spec: FlowSpec, folder: Path) -> list[str]:
    """Return one line per query whose answers on disk differ."""
    found = []
    for query in spec.queries:
        plain = read_answers(folder / "plain" / "out" / query.name, query.schema)
        shared = read_answers(folder / "shared" / "out" / query.name, query.schema)
        fault = difference(plain, shared)
        if fault is not None:
            found.append(f"{query.name}: {fault}")
    return found


def _result(
    spec: FlowSpec,
    counts: dict[str, list[int]],
    plain: Timing,
    shared: Timing,
    differences: list[str],
    moved: dict[str, int],
) -> dict[str, Any]:
    measured = sum(sum(files[1:]) if len(files) > 1 else sum(files) for files in counts.values())
    per_plain = measured / plain.seconds
    per_shared = measured / shared.seconds
    return {
        "equal": not differences,
        "queries": len(spec.queries),
        "operators_alone": spec.operators_alone(),
        "operators_shared": spec.operators_shared(),
        "rows": sum(map(sum, counts.values())),
        "plain_rows_per_second": round(per_plain, 1),
        "shared_rows_per_second": round(per_shared, 1),
        "ratio": round(per_shared / per_plain, 2),
        "differences": differences,
        "pushed_down": moved,
    }
