"""The delay operator of experiments: it keeps a core busy for a given time per tuple.

The time is spent hashing text, an amount of work that was timed once in this process: the same
processor seconds whoever else runs, which is what costs are. Nobody can tell before how it ends.

Timed in another process it may come out a tenth apart. Processes that are to be compared are told
it, by `BLOCKS` in their environment.
"""

from __future__ import annotations

import os
import time
from functools import cache

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from evenflow.spark.processor_time import processor_seconds

BLOCKS = "EVENFLOW_DELAY_BLOCKS"
"""In the environment: blocks of work per microsecond, instead of timing them."""
_BLOCK = "0123456789abcdef" * 4
_TIMED_BLOCKS = 2_000
_TIMED_ROWS = 400
_ROUNDS = 5
_MILLION = 1_000_000


def delayed(number: Column, microseconds: float, share: float) -> Column:
    """Return TRUE for a share of all numbers, a while later; NULL if there is no number."""
    done = _work(number, max(1, round(microseconds * blocks_per_microsecond())))
    passed = F.pmod(F.xxhash64(number), F.lit(_MILLION)) < F.lit(round(share * _MILLION))
    # A hash has no such digit, but Spark does not know.
    return done.substr(1, 1).isin("z").eqNullSafe(F.lit(False)) & number.isNotNull() & passed


def _work(number: Column, blocks: int) -> Column:
    text = F.concat(number.cast("string"), F.lit(_BLOCK))
    return F.sha2(F.repeat(text, blocks), 256)


@cache
def blocks_per_microsecond() -> float:
    """Return blocks of work per microsecond: what was given, or timed on one core.

    It is timed in the session that is there; without what any job takes.
    """
    if given := os.environ.get(BLOCKS):
        return float(given)
    work, nothing = _timed(_TIMED_BLOCKS), _timed(1)
    return (_TIMED_BLOCKS - 1) * _TIMED_ROWS / (max(work - nothing, work / 10) * _MILLION)


def _timed(blocks: int) -> float:
    rows = SparkSession.active().range(_TIMED_ROWS, numPartitions=1)
    work = rows.select(F.max(_work(F.col("id"), blocks)))
    taken = []
    for _ in range(_ROUNDS):
        spent, began = processor_seconds(os.getpid()), time.perf_counter()
        work.collect()
        taken.append(time.perf_counter() - began)
        after = processor_seconds(os.getpid())
        if spent is not None and after is not None and after > spent:
            # Whoever else runs makes it take longer, and costs it nothing.
            taken.append(after - spent)
    return min(taken)
