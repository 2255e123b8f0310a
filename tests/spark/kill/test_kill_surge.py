"""Kills in a surge: what is shed is shed again, answers stay exact, every tuple has its count."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING

import pytest

from evenflow.control.journal import read_decisions
from tests.spark.kill.points import BATCH, RECOVERY
from tests.spark.kill.process import Kill, at_random
from tests.spark.kill.surge import SurgeCase

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KILLS = int(os.environ.get("EVENFLOW_KILLS", "3"))
SEED = int(os.environ.get("EVENFLOW_SEED", "20261118"))
_PER_CASE = 8
_MANIFEST = ("before the manifest", "half a manifest", "after the manifest")
_SECONDS = 6.0
"""Within which a flow is killed at random moments: a few batches."""
pytestmark = pytest.mark.timeout(1800)


def kill_somehow(case: SurgeCase, rng: random.Random) -> int:
    """Kill a flow that sheds, perhaps while it changes or starts; return how often."""
    case.until_dropping()
    kind = rng.choice(("moment", "batch", "change", "change", "recovery"))
    if kind == "moment":
        case.until_killed(at_random(rng, _SECONDS))
    elif kind == "change":
        kill = at_random(rng, 2.0) if rng.random() < 0.3 else Kill(rng.choice(_MANIFEST))
        case.until_killed(kill, case.change)
        case.see_change()
    else:
        case.until_killed(Kill(rng.choice(tuple(BATCH))))
    if kind == "recovery":
        case.start_again(Kill(rng.choice(tuple(RECOVERY))))
        return 2
    case.start_again()
    return 1


def live(case: SurgeCase, rng: random.Random, kills: int) -> list[str]:
    """Kill a flow in a surge and let it go on; return what is wrong in the end."""
    case.begin()
    # The batch that is done again had all gates open, and the next one has not.
    case.until_killed(Kill("gates changed, no commit"))
    case.start_again()
    case.until_dropping()
    case.until_killed(Kill("counts, no commit"))
    case.start_again()
    left = kills - 3
    while left > 0:
        left -= kill_somehow(case, rng)
    case.until_dropping()
    case.until_killed(Kill("after the manifest"), case.change)
    case.see_change()
    case.end_surge()
    case.start_again()
    case.until_open()
    status = case.stop()
    wrong = case.judge(status)
    acts = [each["act"] for each in read_decisions(case.state) if each["applied"]]
    dropped = {name: q["counts"]["shed"]["gate"] for name, q in status["queries"].items()}
    given = {name: query["answers"] for name, query in status["queries"].items()}
    again = case.attempts.repeated
    sys.stdout.write(
        f"surge: kills {len(case.kills)}, batches done again while gates dropped {len(again)}, "
        f"answers {given}, dropped {dropped}, decisions {', '.join(acts)}\n"
        f"  {', '.join(case.kills)}\n"
    )
    # Or it would show nothing.
    assert "shed" in acts
    assert "open" in acts
    assert again
    assert all(dropped[name] and given[name] for name in ("dear", "plain"))
    return wrong


@pytest.mark.parametrize("number", range(-(-KILLS // _PER_CASE)))
def test_kills_in_a_surge(spark: SparkSession, tmp_path: Path, number: int) -> None:
    kills = min(_PER_CASE, max(3, KILLS - _PER_CASE * number))
    case = SurgeCase(spark, tmp_path)
    try:
        wrong = live(case, random.Random(SEED + number), kills)
    finally:
        case.process.end()
    assert len(case.kills) >= kills
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_other_gates_of_a_batch_that_is_done_again_are_noticed(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = SurgeCase(spark, tmp_path, faults=("newest gates",))
    try:
        case.begin()
        case.until_killed(Kill("gates changed, no commit"))
        case.start_again()
        case.until_dropping()
        wrong = case.judge(case.stop())
    finally:
        case.process.end()
    assert any("was told" in each or "dropped" in each for each in wrong)
