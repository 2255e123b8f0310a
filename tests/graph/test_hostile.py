"""Texts made to break something: refused, or bound to nothing but the catalogue; always quickly.

EVENFLOW_HOSTILE is how many are tried.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.graph.hostile import Hostile
from tests.graph.sample import READINGS, sample_graph

from evenflow.errors import ConfigError, QueryError
from evenflow.graph.builder import Stream
from evenflow.model.expression import Call, Expression, walk
from evenflow.model.functions import AGGREGATES, FUNCTIONS
from evenflow.model.operator import Aggregate, Join, Operator, Select, Where, upstream

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.graph.graph import Graph

COUNT = int(os.environ.get("EVENFLOW_HOSTILE", "2000"))
SLOWEST_S = 0.050 if sys.gettrace() is None else 0.250
"""Under coverage every line costs more than what it does."""
SECRET = "canary-4f1c9b7e-do-not-tell"


def attempt(graph: Graph, name: str, text: str, *, as_condition: bool) -> Operator | str:
    """Build a text; return the operator, or everything an error says about it."""
    try:
        if as_condition:
            return Stream.of(graph, READINGS).where(text).operator
        return graph.add_sql(name, text)[name].operator
    except (QueryError, ConfigError) as exc:
        place = exc.caret() if isinstance(exc, QueryError) else None
        return f"{exc} {exc.hint} {place}"


def expressions(operator: Operator) -> list[Expression]:
    match operator:
        case Where(predicate=predicate):
            return [predicate]
        case Select(columns=columns):
            return [value for _, value in columns]
        case Join(keys=keys):
            return [value for value, _ in keys]
        case Aggregate(keys=keys, aggregates=aggregates):
            assert {call.function for _, call in aggregates} <= AGGREGATES.keys()
            inner = [part for _, call in aggregates for part in (call.argument, call.condition)]
            return [value for _, value in keys] + [part for part in inner if part is not None]
    return []


def check(outcome: Operator | str) -> None:
    """Fail if anything outside the catalogue was bound, or a secret is told."""
    assert SECRET not in (outcome if isinstance(outcome, str) else repr(outcome))
    if isinstance(outcome, str):
        return
    for each in upstream(outcome):
        for part in expressions(each):
            used = {e.function for e in walk(part) if isinstance(e, Call)}
            assert used <= FUNCTIONS.keys()


def seconds(name: str, text: str, *, as_condition: bool) -> float:
    """Return the least time of a few attempts: others use this machine, too."""
    best = float("inf")
    for _ in range(3):
        graph = sample_graph()
        start = time.perf_counter()
        outcome = attempt(graph, name, text, as_condition=as_condition)
        best = min(best, time.perf_counter() - start)
        if best < SLOWEST_S:
            check(outcome)
            return best
    return best


@pytest.mark.timeout(600)
def test_no_text_breaks_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text(SECRET)
    monkeypatch.setenv("EVENFLOW_CANARY", SECRET)
    hostile = Hostile(20260501, str(canary))
    for i in range(COUNT):
        name, text = hostile.name(), hostile.text()
        spent = seconds(name, text, as_condition=i % 10 == 0)
        assert spent < SLOWEST_S, f"{spent:.3f} s for {text[:200]!r}"


def test_the_generator_repeats_itself() -> None:
    first, second = Hostile(1, "/x"), Hostile(1, "/x")
    assert [first.text() for _ in range(50)] == [second.text() for _ in range(50)]


def test_some_texts_get_through() -> None:
    hostile, graph = Hostile(7, "/x"), sample_graph()
    texts = [hostile.text() for _ in range(300)]
    made = [attempt(graph, f"q{i}", t, as_condition=False) for i, t in enumerate(texts)]
    assert sum(not isinstance(each, str) for each in made) > 10
