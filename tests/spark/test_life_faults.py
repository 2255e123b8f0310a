"""Faults planted in how a query follows another: what judges random lives notices each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.model.query import Sink
from evenflow.schedule import place
from evenflow.schedule.family import lay_out_family
from evenflow.schedule.place import Numbers
from evenflow.schedule.request import Subscribe, Unsubscribe
from evenflow.spark import units
from tests.spark import random_set as rs
from tests.spark.lives import LivingSet
from tests.spark.test_lives import faults

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.model.query import Query
    from evenflow.model.unit import Unit
    from evenflow.schedule.layout import UnitLayout
    from evenflow.schedule.request import Request

SQL = "SELECT window.start AS w0, {} AS v FROM s WHERE {} GROUP BY window(ts, '20 seconds')"


def query(name: str, value: str, where: str) -> rs.RandomQuery:
    return rs.RandomQuery(name, SQL.format(value, where), where, 20, 20, joins=False)


class Succession(LivingSet):
    """Before the fourth file one query leaves with a window open, and its twin comes."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        super().__init__(session, random.Random(7), folder, queries=3, files=7)
        self.restarts = 0.0
        self.life.requests = self._requests  # type: ignore[method-assign]

    def _make_queries(self, count: int) -> list[rs.RandomQuery]:
        assert count == 3
        return [
            query("stays", "count(*)", "n >= 0"),
            query("leaves", "count(*)", "n > 1"),
            query("comes", "count(*)", "n < 5"),
        ]

    def _sink(self, name: str) -> Sink:
        return Sink("parquet", str(self.folder / "out" / name))

    def _requests(self, file: int, queries: dict[str, Query]) -> list[Request]:
        if file == 1:
            self.life.begin("comes", file)
            return [Subscribe(query=queries["comes"])]
        if file == 3:
            self.life.move("comes", None, file)
            self.life.begin("twin", file)
            return [Unsubscribe(name="comes"), Subscribe(query=queries["twin"])]
        return []


def test_without_a_fault_nothing_is_found(spark: SparkSession, tmp_path: Path) -> None:
    assert faults(Succession(spark, tmp_path)) == []


def test_a_slot_handed_over_with_old_state_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last family's number, and so its groups in the state, go to the next one."""

    def again(number: int, *arguments: Any) -> Any:
        return lay_out_family(max(1, number - 1) if number > 1 else number, *arguments)

    monkeypatch.setattr(place, "lay_out_family", again)
    assert faults(Succession(spark, tmp_path))


def test_a_window_answered_that_was_not_seen_whole_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Families that begin take every window for their own."""
    from dataclasses import replace

    def from_the_beginning(unit: Unit, _: UnitLayout) -> Unit:
        families = tuple(replace(family, since_us=None) for family in unit.families)
        return replace(unit, families=families)

    monkeypatch.setattr(units, "_beginning", from_the_beginning)
    assert faults(Succession(spark, tmp_path))


def test_a_number_used_twice_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query that comes gets the number of the one that left, and with it its counts."""

    def once_more(self: Numbers, count: int) -> tuple[tuple[int, ...], Numbers]:
        first = max(1, self.part - 1) if self.part > 3 else self.part
        return tuple(range(first, first + count)), Numbers(
            max(self.part, first + count), self.family, self.unit
        )

    monkeypatch.setattr(Numbers, "parts", once_more)
    assert faults(Succession(spark, tmp_path))
