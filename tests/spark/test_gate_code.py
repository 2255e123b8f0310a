"""Code that Spark generates for gates: written anew for every batch, also while all are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenflow.bench.workload import WORKLOADS
from evenflow.schedule.cut import cut
from evenflow.spark.compile.gates import GateColumns, GatePlan, NoGates
from evenflow.spark.compile.stack import Bounds, StackBuilder
from evenflow.spark.compile.trunk import TrunkBuilder
from evenflow.spark.compile.types import struct
from evenflow.spark.gate.history import OPEN
from tests.spark.reference import generate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FEW, MANY = 20, 50


def code(session: SparkSession, folder: Path, queries: int, plan: type[GatePlan]) -> int:
    """Return how many characters of code a stack has."""
    spec = WORKLOADS["distinct-keys"].spec(folder, queries)
    (unit,) = cut(spec.queries)
    (source,) = spec.sources()
    frame = session.createDataFrame([], struct(source.schema))
    trunk = TrunkBuilder(
        source=lambda _: frame,
        pulse=None,
        table=lambda _: frame,
        applied=spec.applied,
        has_misfits=lambda _: False,
    ).build(unit.trunk)
    gates = plan(unit)
    file = folder / "told.txt"
    file.write_text(",".join(map(str, gates.told(OPEN))))
    numbers = F.split("value", ",").cast("array<bigint>")
    told = session.read.text(str(file)).select(numbers).scalar()
    stack = StackBuilder(
        unit,
        trunk.frame,
        trunk.resolve,
        event_time=F.col("c0"),
        bounds=Bounds(F.lit(0).cast("long"), GateColumns(gates, told, 0)),
        delay_ms=0,
        pulse=None,
    ).build()
    assert session._jvm is not None
    explained = session._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("codegen")
    return len(stack._jdf.queryExecution().explainString(explained))


def test_the_code_of_gates_does_not_grow_with_the_queries(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    generate(session)
    few, many = (
        code(session, tmp_path, count, GatePlan) - code(session, tmp_path, count, NoGates)
        for count in (FEW, MANY)
    )
    assert 0 < many < 1.5 * few
