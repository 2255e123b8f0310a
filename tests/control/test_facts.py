"""Facts say themselves what is missing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from evenflow.control.facts import STANDS, Batch, FlowFacts, QueryFacts, UnitFacts

BATCH = Batch(number=3, began=10.0, seconds=0.5, spacing=1.0, rows=100)
UNIT = UnitFacts(
    id="u1", sources=("s",), every=1.0, families=(("a", "b"), ("a",)), active=True, batches=(BATCH,)
)
FACTS = FlowFacts(at=11.0, units=(UNIT,), queries={"a": QueryFacts(), "b": QueryFacts()})


def with_batch(**changed: object) -> FlowFacts:
    batch = replace(BATCH, **changed)  # type: ignore[arg-type]
    return replace(FACTS, units=(replace(UNIT, batches=(batch,)),))


def test_whole_facts_have_no_gaps() -> None:
    assert FACTS.gaps() == ()
    assert UNIT.queries == ("a", "b")


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, units=()),
        replace(FACTS, units=(replace(UNIT, active=False),)),
        replace(FACTS, units=(replace(UNIT, batches=()),)),
        replace(FACTS, queries={"a": QueryFacts()}),
        replace(FACTS, queries={"a": QueryFacts(weight=math.nan), "b": QueryFacts()}),
        replace(FACTS, queries={"a": QueryFacts(delay=-1.0), "b": QueryFacts()}),
        replace(FACTS, gates={"a": 1.5}),
        replace(FACTS, gates={"a": math.nan}),
        with_batch(rows=None),
        with_batch(rows=-1),
        with_batch(seconds=math.inf),
        with_batch(spacing=math.nan),
        with_batch(behind=-4),
        with_batch(share=0.0),
    ],
)
def test_each_gap_is_told(facts: FlowFacts) -> None:
    assert len(facts.gaps()) == 1


def test_a_unit_that_gets_nothing_is_no_gap_beside_one_that_runs() -> None:
    other = replace(UNIT, id="u2")
    assert replace(FACTS, units=(UNIT, replace(other, batches=(), idle=True))).gaps() == ()
    held = replace(other, active=False)
    assert len(replace(FACTS, units=(UNIT, held)).gaps()) == 1
    assert replace(FACTS, at=10.5 + STANDS, units=(UNIT, held)).gaps() == ()
    cold = replace(held, batches=(), started=11.0)
    assert len(replace(FACTS, at=12.0, units=(UNIT, cold)).gaps()) == 1
    under_way = replace(held, under_way=replace(BATCH, number=4, seconds=None))
    assert len(replace(FACTS, at=99.0, units=(UNIT, under_way)).gaps()) == 1


def test_rows_of_a_batch_that_is_under_way_may_be_unknown() -> None:
    under_way = replace(BATCH, number=4, seconds=None, rows=None)
    unit = replace(UNIT, under_way=under_way)
    assert replace(FACTS, units=(unit,)).gaps() == ()
    assert unit.newest == BATCH
    known = replace(unit, under_way=replace(under_way, rows=7))
    assert known.newest == known.under_way


def test_a_query_that_does_not_run_is_not_shed() -> None:
    assert QueryFacts().sheddable
    assert not QueryFacts(running=False).sheddable
    assert not QueryFacts(contract="never").sheddable
