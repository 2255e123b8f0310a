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
WARM = 2
"""Files that are read before the first kill: from then on every batch has answers to write."""
pytestmark = pytest.mark.timeout(1800)

Reads = list[tuple[Kill, ...]]
"""Kills while a file is read, one after another. The next file is there when they are over: every
point is reached, because a batch has all of them."""


def drawn(rng: random.Random, kills: int) -> Reads:
    """Draw kills: in a batch, and every other time also while the flow starts again."""
    reads: Reads = [(Kill("answers, no counts"),), (Kill("counts, no commit"),)]
    left = kills - len(reads)
    while left > 0:
        points = (rng.choice(tuple(BATCH)), rng.choice(tuple(RECOVERY)))[:left]
        reads.append(tuple(map(Kill, points)))
        left -= len(points)
    return reads


def live(
    spark: SparkSession, folder: Path, reads: Reads
) -> tuple[KilledSet, dict[str, Counter[Row]], dict[str, Any]]:
    """Read everything, killed now and then; return answers and the last status."""
    folder.mkdir()
    files = WARM + len(reads)
    case = KilledSet(
        spark, random.Random(SEED), folder, fixed=FIXED, files=files, faults=("gates",)
    )
    try:
        case.begin()
        case.read(WARM)
        for kills in reads:
            case.read(1, *kills)
        status = case.stop()
        return case, {name: case.answered(name) for name in FIXED}, status
    finally:
        case.process.end()


@pytest.mark.long
def test_kills_while_gates_drop(spark: SparkSession, tmp_path: Path) -> None:
    reads = drawn(random.Random(SEED), KILLS)
    case, killed, status = live(spark, tmp_path / "killed", reads)
    other, wanted, untouched = live(spark, tmp_path / "untouched", [()] * len(reads))
    exact = case.expected()
    given = {name: counts(status, name)["gate"] for name in FIXED}
    sys.stdout.write(
        f"gates, seed {SEED}: kills {len(case.report.kills)}, dropped {given}\n"
        f"  {', '.join(case.report.kills)}\n"
    )
    assert case.report.kills == [str(kill) for kills in reads for kill in kills]
    assert not case.report.missed
    for name in FIXED:
        assert killed[name] == wanted[name], f"{name}: {case.report.kills}"
        assert not killed[name] - exact[name]
        assert counts(status, name) == counts(untouched, name)
        assert given[name] > 0
        assert case.told(name) == other.told(name)
        assert sum(case.told(name).values()) > 0
