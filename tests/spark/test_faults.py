"""The random suite can fail: the stack is broken on purpose, and the suite must notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

import tests.spark
from evenflow.spark.compile.answers import AnswerPlan, Copy, WindowPart
from evenflow.spark.compile.entries import EntryBuilder
from evenflow.spark.sink import demux
from tests.spark.test_random import SEED, RandomSet, differences

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from evenflow.spark.compile.entries import Entry


# Executors of a cluster do not have the tests.
cloudpickle.register_pickle_by_value(tests.spark)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def plain_set(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RandomSet, dict[str, Any]]:
    """One set and what plain Spark says of it."""
    set_ = RandomSet(spark, SEED + 1000, tmp_path_factory.mktemp("faults"))
    return set_, set_.plain()


def found(plain_set: tuple[RandomSet, dict[str, Any]], state: str) -> list[str]:
    set_, plain = plain_set
    shared, _ = set_.shared(state)
    return differences(set_, shared, plain)


def test_the_unbroken_stack_is_equal(plain_set: tuple[RandomSet, dict[str, Any]]) -> None:
    assert not found(plain_set, "unbroken")


def test_a_slot_mix_up_is_found(
    plain_set: tuple[RandomSet, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two slots of one type change places between the state and the answers."""
    original = demux.answers

    def mixed(table: pa.Table | None, plan: AnswerPlan) -> tuple[pa.Table | None, pa.Table | None]:
        slots = [
            p.column for _, p in plan.outputs if isinstance(p, Copy) and "_bigint_" in p.column
        ]
        if not slots:
            return original(table, plan)
        other = "count_bigint_0" if slots[0] != "count_bigint_0" else "count_bigint_1"
        if table is None or other not in table.column_names:
            return original(table, plan)
        outputs = tuple(
            (n, Copy(other, p.type) if isinstance(p, Copy) and p.column == slots[0] else p)
            for n, p in plan.outputs
        )
        return original(table, _with_outputs(plan, outputs))

    monkeypatch.setattr(demux, "answers", mixed)
    assert found(plain_set, "slots")


def test_a_window_off_by_one_is_found(
    plain_set: tuple[RandomSet, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tumbling windows end one slide too late."""
    original = EntryBuilder.entries

    def shifted(self: EntryBuilder) -> Iterator[Entry]:
        for entry in original(self):
            if entry.of is not None and entry.slide is not None:
                object.__setattr__(entry, "offset", entry.offset + entry.slide)
            yield entry

    monkeypatch.setattr(EntryBuilder, "entries", shifted)
    assert found(plain_set, "windows")


def test_a_lost_null_key_is_found(
    plain_set: tuple[RandomSet, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of which a key is NULL are not answered."""
    original = demux.answers

    def without(rows: demux.Rows, plan: AnswerPlan) -> tuple[pa.Table | None, pa.Table | None]:
        table, rejected = original(rows, plan)
        keys = [n for n, p in plan.outputs if isinstance(p, Copy) and p.column.startswith("key_")]
        if table is not None:
            for name in keys:
                table = table.filter(table.column(name).is_valid())
        return table, rejected

    monkeypatch.setattr(demux, "answers", without)
    assert found(plain_set, "null-keys")


def _with_outputs(plan: AnswerPlan, outputs: tuple[tuple[str, Any], ...]) -> AnswerPlan:
    from dataclasses import replace

    assert not any(isinstance(p, WindowPart) and p.part == "none" for _, p in outputs)
    return replace(plan, outputs=outputs)
