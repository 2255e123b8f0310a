"""A gate in a plain streaming query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import evenflow
from evenflow.errors import ConfigError
from tests.spark.flows import lay, row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


class Plain:
    """A streaming query over numbered files that notes which ids it saw, batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.seen: dict[int, list[set[int]]] = {}
        self.fails = False
        self.laid = 0
        (folder / "s").mkdir()
        source = spark.readStream.schema("id BIGINT, n INT").option("maxFilesPerTrigger", 1)
        self.frame = source.parquet(str(folder / "s"))

    def read(self) -> None:
        """Lay a file of a thousand ids and read it."""
        lay(self.folder / "s", *(row(1000 * self.laid + i, 0, n=i % 7) for i in range(1000)))
        self.laid += 1
        self.go_on()

    def go_on(self) -> None:
        gated = self.frame.transform(evenflow.gate, self.folder / "gate.txt", by=["id"])
        writer = gated.writeStream.foreachBatch(self._note)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def _note(self, batch: DataFrame, number: int) -> None:
        self.seen.setdefault(number, []).append({each["id"] for each in batch.collect()})
        if self.fails:
            raise RuntimeError("planted")


def test_a_fraction_changes_while_a_query_runs_and_holds_when_a_batch_is_done_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    plain = Plain(spark, tmp_path)
    plain.read()
    assert len(plain.seen[0][0]) == 1000
    evenflow.set_gate(tmp_path / "gate.txt", 0.3)
    time.sleep(0.3)
    plain.fails = True
    with pytest.raises(Exception, match="planted"):
        plain.read()
    evenflow.set_gate(tmp_path / "gate.txt", 0.0)
    time.sleep(0.3)
    plain.fails = False
    plain.go_on()
    first, again = plain.seen[1]
    assert first == again
    assert 230 < len(first) < 370
    plain.read()
    assert plain.seen[2] == [set()]


def test_a_lower_fraction_keeps_a_subset(spark: SparkSession, tmp_path: Path) -> None:
    kept = []
    for number, fraction in enumerate((0.6, 0.2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        plain = Plain(spark, folder)
        evenflow.gate(plain.frame, folder / "gate.txt")
        evenflow.set_gate(folder / "gate.txt", fraction)
        time.sleep(0.3)
        plain.read()
        kept.append(plain.seen[0][0])
    assert kept[1] < kept[0]


@pytest.mark.parametrize("keep", [-0.1, 1.1, float("nan")])
def test_fractions_that_cannot_be_are_refused(tmp_path: Path, keep: float) -> None:
    with pytest.raises(ConfigError):
        evenflow.set_gate(tmp_path / "gate.txt", keep)


def test_a_gate_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        evenflow.set_gate(tmp_path / "gate.txt", 0.5)
