"""Kills of a flow that reads a topic: nothing is lost or repeated, every counter is exact."""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from evenflow.spark.unit.checkpoint import committed_offsets
from tests.kafka.topics import Record
from tests.spark.kill.case import ROWS, KilledSet
from tests.spark.kill.input import Input
from tests.spark.kill.plan import FIXED, files_for, live_at_random
from tests.spark.kill.process import Kill
from tests.spark.kill.test_kill import KILLS, SEED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kafka.topics import Topics
    from tests.spark.kill.report import Report

pytestmark = pytest.mark.timeout(1800)
_MICROS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


class TopicInput(Input):
    """The tuples of the files as records of a topic, in one partition; a batch has those of one."""

    def __init__(self, set_: KilledSet, topics: Topics, topic: str) -> None:
        self._set = set_
        self._topics = topics
        self._topic = topic

    def source(self) -> dict[str, Any]:
        """Return a source that reads the tuples of a file per batch."""
        size = {"maxOffsetsPerTrigger": ROWS, "minOffsetsPerTrigger": ROWS}
        return {"format": "kafka", "options": self._topics.source(self._topic, **size)}

    def lay(self, file: int) -> None:
        """Write the tuples of a file to the topic."""
        data = self._set.folder / "data" / f"{file:04d}.parquet"
        frame = self._set.session.read.parquet(str(data)).coalesce(1)
        texts = frame.select(F.to_json(F.struct("*"), _MICROS)).collect()
        assert len(texts) == ROWS
        self._topics.write(self._topic, [Record(text[0].encode()) for text in texts])

    def has_read(self, checkpoint: Path, file: int) -> bool:
        """Whether the offsets say so."""
        lines = committed_offsets(checkpoint)
        if not lines or lines[0] == "-":
            return False
        offsets = json.loads(lines[0])[self._topic]
        return bool(offsets["0"] == (file + 1) * ROWS)


def test_kills_with_kafka_as_the_source(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    kills = max(1, KILLS // 6)
    case = KilledSet(
        spark,
        rng,
        tmp_path,
        fixed=FIXED[0],
        files=4 if kills == 1 else 1 + files_for(kills),
        input_=lambda set_: TopicInput(set_, topics, topic),
    )
    # There is no topic before something is in it.
    case.input.lay(0)
    case.laid = 1
    try:
        report = _live(case) if kills == 1 else live_at_random(case, rng, kills)
    finally:
        case.process.end()
    sys.stdout.write(f"Kafka, seed {SEED}: {report}\n  {', '.join(report.kills)}\n")
    assert not report.details, "\n".join(report.details)
    assert len(report.kills) == kills
    assert report.expected > 0


def _live(case: KilledSet) -> Report:
    case.begin()
    case.read(2, Kill("after a write"))
    case.read(1)
    return case.judge(case.stop())
