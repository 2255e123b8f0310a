"""What a start on a kept life means."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.sample import sample_graph

from evenflow.errors import ChangedQueryError
from evenflow.schedule.life import Life, QueryLife
from evenflow.schedule.request import Origin, QueryState, Subscribe, Unsubscribe
from evenflow.schedule.restart import requests_at_start

ONE, OTHER = "SELECT id FROM readings", "SELECT meter FROM readings"


def queries(**texts: str) -> list[Any]:
    return list(sample_graph().add_sql(texts).values())


def life(**known: tuple[str, Origin, QueryState]) -> Life:
    made = {
        name: QueryLife(
            operator=queries(q=sql)[0].operator.hash, numbers=(at,), state=state, origin=origin
        )
        for at, (name, (sql, origin, state)) in enumerate(known.items())
    }
    return Life(queries=made)


def asked(before: Life, *, replace: bool = False, **given: str) -> list[tuple[str, str]]:
    words = {Subscribe: "subscribe", Unsubscribe: "unsubscribe"}
    found = requests_at_start(before, queries(**given), replace=replace)
    return [(words[type(r)], r.name) for r in found]


def test_a_first_start_subscribes_all() -> None:
    assert asked(Life(), b=ONE, a=OTHER) == [("subscribe", "a"), ("subscribe", "b")]


def test_what_the_file_no_longer_has_leaves_and_what_came_at_run_time_stays() -> None:
    running = QueryState.RUNNING
    before = life(
        gone=(ONE, Origin.FILE, running),
        same=(ONE, Origin.FILE, running),
        added=(OTHER, Origin.RUN, running),
        paused=(OTHER, Origin.FILE, QueryState.PAUSED),
    )
    assert asked(before, same=ONE, new=ONE, paused=OTHER) == [
        ("unsubscribe", "gone"),
        ("subscribe", "new"),
    ]


def test_a_kept_query_stays_and_is_taken_over_by_the_same_name() -> None:
    before = life(kept=(ONE, Origin.FILE, QueryState.KEPT))
    assert asked(before) == []
    assert asked(before, kept=ONE) == [("subscribe", "kept")]


@pytest.mark.parametrize("origin", list(Origin))
def test_another_query_under_a_known_name_is_refused_or_replaces_it(origin: Origin) -> None:
    before = life(q=(ONE, origin, QueryState.RUNNING))
    with pytest.raises(ChangedQueryError, match="query q differs"):
        asked(before, q=OTHER)
    assert asked(before, replace=True, q=OTHER) == [("unsubscribe", "q"), ("subscribe", "q")]
