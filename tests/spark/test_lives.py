"""Random lives: answers equal those of plain Spark over the windows owned, counts a plain count."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.conftest import TALLY
from tests.spark.flows import counts
from tests.spark.lives import LivingSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

LIVES = int(os.environ.get("EVENFLOW_LIVES", "20"))
SEED = int(os.environ.get("EVENFLOW_SEED", "20261116"))
QUERIES, FILES = (4, 5) if LIVES > 20 else (3, 4)
"""Of a life: shorter where they are only a part of all tests."""


def faults(set_: LivingSet) -> list[str]:
    """Live, and return what is wrong with the answers and the counts."""
    status = set_.live()
    found = []
    for name, wanted in set_.expected().items():
        given = set_.answered(name)
        if given != wanted:
            more, less = list((given - wanted).items())[:3], list((wanted - given).items())[:3]
            found.append(f"{name}: {set_.random[name].sql}\n  too many: {more}\n  missing: {less}")
    for name in set_.life.states:
        wanted_counts = set_.counted(name)
        given_counts = counts(status, name)
        if wanted_counts is not None and given_counts != wanted_counts:
            sql = set_.random[name].sql
            found.append(f"{name}: {sql}\n  counted {given_counts}\n  expected {wanted_counts}")
    if found:
        found.append("\n".join(str(tenure) for tenure in set_.life.tenures))
    return found


@pytest.mark.parametrize("number", range(LIVES))
def test_lives(
    spark: SparkSession, tmp_path: Path, number: int, record_property: Callable[[str, str], None]
) -> None:
    record_property(TALLY, f"lives (seeds from {SEED})")
    set_ = LivingSet(spark, random.Random(SEED + number), tmp_path, QUERIES, FILES)
    set_.generated = number % 10 == 0
    found = faults(set_)
    assert not found, "\n".join(found)
