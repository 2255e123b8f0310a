"""Kills: nothing is lost, nothing is repeated, every counter is exact."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING

import pytest

from tests.spark.kill.case import KilledSet
from tests.spark.kill.plan import FIXED, SIX_FILES, SIX_FIXED, files_for, live_at_random, live_six
from tests.spark.kill.process import Kill
from tests.spark.kill.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

KILLS = int(os.environ.get("EVENFLOW_KILLS", "6"))
SEED = int(os.environ.get("EVENFLOW_SEED", "20261116"))
_PER_CASE = 8
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> Iterator[Report]:
    """What all cases come to; it is printed at the end."""
    found = Report([], [])
    yield found
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    reporter.write_line(f"\n{found}, points not reached {len(found.missed)}, first seed {SEED}")


def check(report: Report, total: Report, seed: int) -> None:
    total.add(report)
    sys.stdout.write(f"seed {seed}: {report}\n  {', '.join(report.kills)}\n")
    assert not report.details, f"seed {seed}\n" + "\n".join(report.details)


@pytest.mark.parametrize("number", range(1 - (6 - KILLS) // _PER_CASE))
def test_kills(spark: SparkSession, tmp_path: Path, total: Report, number: int) -> None:
    seed = SEED + number
    rng = random.Random(seed)
    if number == 0:
        case = KilledSet(spark, rng, tmp_path, fixed=SIX_FIXED, files=SIX_FILES)
        kills = 6
    else:
        kills = min(_PER_CASE, KILLS - 6 - _PER_CASE * (number - 1))
        fixed = FIXED[number % len(FIXED)]
        case = KilledSet(spark, rng, tmp_path, fixed=fixed, files=files_for(kills))
    try:
        check(live_six(case) if number == 0 else live_at_random(case, rng, kills), total, seed)
    finally:
        case.process.end()
    assert len(case.report.kills) == kills
    assert number or not case.report.missed


@pytest.mark.long
def test_faults_are_noticed(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is done again gets other files; counts are saved after the commit."""
    case = KilledSet(
        spark,
        random.Random(SEED),
        tmp_path,
        fixed=("plain", "q0"),
        files=3,
        faults=("other names", "counts after the commit"),
    )
    try:
        case.begin()
        case.read(3, Kill("after a write"), Kill("after the commit"))
        report = case.judge(case.stop())
    finally:
        case.process.end()
    assert report.repeated
    assert report.counters_wrong
    assert not report.missed
