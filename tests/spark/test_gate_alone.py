"""A gate in a plain streaming query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import evenflow
from evenflow.errors import ConfigError
from tests.spark.flows import lay, row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


class Plain:
    """A streaming query over numbered files that notes which ids it saw, batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path, by: str = "id") -> None:
        self.folder = folder
        self.by = by
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
        gated = self.frame.transform(evenflow.gate, self.folder / "gate.txt", by=[self.by])
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
    for change in range(40):
        evenflow.set_gate(tmp_path / "gate.txt", 0.9 - change / 50)
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


def test_a_gate_whose_file_was_emptied_is_open(spark: SparkSession, tmp_path: Path) -> None:
    gated = spark.range(50).transform(evenflow.gate, tmp_path / "gate.txt", by=["id"])
    evenflow.set_gate(tmp_path / "gate.txt", 0.0)
    time.sleep(0.3)
    assert gated.count() == 0
    (tmp_path / "gate.txt").write_text("")
    assert gated.count() == 50


@pytest.mark.parametrize("name", ["_gate.txt", ".gate"])
def test_files_that_spark_passes_over_are_refused(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigError):
        evenflow.gate(spark.range(3), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


TYPES = (
    "id BIGINT, n BIGINT, `a.b` STRING, s STRUCT<id: BIGINT, m: MAP<STRING, INT>>, "
    "m MAP<STRING, BIGINT>, deep MAP<STRING, MAP<STRING, INT>>"
)


def share_kept(spark: SparkSession, folder: Path, by: list[str] | None, without: str) -> set[int]:
    """Return which of 400 tuples with few ids, half of them NULL, a gate of 0.5 keeps, by n."""
    rows = [
        (
            id_ := None if i % 2 else i // 2,
            i,
            str(i),
            (id_, {"x": i}),
            {"b": i, "a": 1} if i % 4 else {"a": 1, "b": i},
            {"x": {"y": 1}},
        )
        for i in range(400)
    ]
    frame = spark.createDataFrame(rows, TYPES).drop(*without.split())
    gated = frame.transform(evenflow.gate, folder / "gate.txt", by=by)
    evenflow.set_gate(folder / "gate.txt", 0.5)
    time.sleep(0.3)
    return {each["n"] for each in gated.select("n").collect()}


@pytest.mark.parametrize(
    ("by", "without"),
    [
        (["id"], ""),
        (["s.id"], ""),
        (["a.b"], ""),
        (["m"], ""),
        (None, "s deep"),
    ],
)
def test_columns_that_may_be_null_fields_and_maps_tell_what_is_kept(
    spark: SparkSession, tmp_path: Path, by: list[str] | None, without: str
) -> None:
    kept = share_kept(spark, tmp_path, by, without)
    for odd in (0, 1):
        assert 60 < sum(n % 2 == odd for n in kept) < 140
    assert share_kept(spark, tmp_path, by, without) == kept


@pytest.mark.parametrize("by", [["nothing"], ["s.nothing"], ["id.x"], ["s"], ["deep"], None])
def test_columns_that_cannot_tell_are_refused(
    spark: SparkSession, tmp_path: Path, by: list[str] | None
) -> None:
    with pytest.raises(ConfigError):
        share_kept(spark, tmp_path, by, "")


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_gate_before_an_aggregate(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """What a key's answer holds is all of it, or nothing, as long as the fraction is the same."""
    plain = Plain(spark, tmp_path, by="n")
    answers: dict[int, int] = {}

    def note(batch: DataFrame, _: int) -> None:
        answers.update({each["n"]: each["count"] for each in batch.collect()})

    evenflow.gate(plain.frame, tmp_path / "gate.txt")
    evenflow.set_gate(tmp_path / "gate.txt", 0.5)
    time.sleep(0.3)
    for _ in range(2):
        lay(tmp_path / "s", *(row(i, 0, n=i % 40) for i in range(400)))
        gated = plain.frame.transform(evenflow.gate, tmp_path / "gate.txt", by=["n"])
        writer = gated.groupBy("n").count().writeStream.outputMode(mode).foreachBatch(note)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert set(answers.values()) == {20}
    assert 8 < len(answers) < 32


@pytest.mark.parametrize("keep", [-0.1, 1.1, float("nan"), None, "half"])
def test_fractions_that_cannot_be_are_refused(tmp_path: Path, keep: Any) -> None:
    with pytest.raises(ConfigError):
        evenflow.set_gate(tmp_path / "gate.txt", keep)


def test_a_gate_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        evenflow.set_gate(tmp_path / "gate.txt", 0.5)
