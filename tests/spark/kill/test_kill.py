"""Kills: nothing is lost, nothing is repeated, every counter is exact."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.spark.kill.case import KilledSet
from tests.spark.kill.process import Kill

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEED = 20261116


@pytest.mark.timeout(900)
def test_six(spark: SparkSession, tmp_path: Path) -> None:
    set_ = KilledSet(spark, random.Random(SEED), tmp_path, fixed=("plain", "q0"), files=8)
    try:
        set_.begin()
        set_.read(3, Kill("after a write", 1))
        set_.change("subscribe", "sorted", Kill("before the manifest"), Kill("while sowing"))
        set_.read(2, Kill("counts, no commit", 2), Kill("recovery, after the manifest"))
        set_.change("pause", "q0", Kill("before starting"))
        set_.read(1)
        set_.change("resume", "q0")
        set_.read(2)
        report = set_.judge(set_.stop())
    finally:
        set_.process.end()
    print(report)
    assert not report.details, "\n".join(report.details)
    assert not report.missed
