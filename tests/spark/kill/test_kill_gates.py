"""Kills while gates drop: a batch that is done again drops the same, and answers stay exact."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.flows import counts
from tests.spark.kill.case import KilledSet
from tests.spark.kill.points import BATCH, RECOVERY
from tests.spark.kill.process import Kill

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.reference import Row

KILLS = int(os.environ.get("EVENFLOW_KILLS", "2"))
SEED = int(os.environ.get("EVENFLOW_SEED", "20261117"))
FIXED = ("plain", "q0", "q1")
FILES = 6 if KILLS == 2 else 8
pytestmark = pytest.mark.timeout(1800)


def live(
    spark: SparkSession, folder: Path, kills: tuple[Kill, ...]
) -> tuple[KilledSet, dict[str, Counter[Row]], dict[str, Any]]:
    """Read everything, killed now and then; return answers and the last status."""
    folder.mkdir()
    case = KilledSet(
        spark, random.Random(SEED), folder, fixed=FIXED, files=FILES, faults=("gates",)
    )
    try:
        case.begin()
        case.read(2)
        case.read(FILES - 2, *kills)
        status = case.stop()
        return case, {name: case.answered(name) for name in FIXED}, status
    finally:
        case.process.end()


def test_kills_while_gates_drop(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    drawn = [rng.choice((*BATCH, *RECOVERY)) for _ in range(max(0, KILLS - 2))]
    points = ["answers, no counts", "counts, no commit", *drawn]
    case, killed, status = live(spark, tmp_path / "killed", tuple(map(Kill, points)))
    _, wanted, untouched = live(spark, tmp_path / "untouched", ())
    exact = case.expected()
    given = {name: counts(status, name)["gate"] for name in FIXED}
    sys.stdout.write(
        f"gates, seed {SEED}: kills {len(case.report.kills)}, not reached "
        f"{len(case.report.missed)}, dropped {given}\n  {', '.join(case.report.kills)}\n"
    )
    assert len(case.report.kills) + len(case.report.missed) == len(points)
    assert len(case.report.kills) >= 2
    for name in FIXED:
        assert killed[name] == wanted[name], f"{name}: {case.report.kills}"
        assert not killed[name] - exact[name]
        assert counts(status, name) == counts(untouched, name)
        assert given[name] > 0
