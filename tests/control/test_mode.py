"""When the loop may act if nobody says."""

from __future__ import annotations

import pytest

from evenflow.control.mode import Mode, chosen_mode
from evenflow.errors import ConfigError
from evenflow.flow import Flow
from evenflow.model.query import Query


def queries(deadline: float | None) -> tuple[Query, ...]:
    flow = Flow("test")
    flow.source("s", "json", {"path": "in"}, "id BIGINT")
    flow.sql("plain", "SELECT id FROM s")
    if deadline is not None:
        flow.sql("due", "SELECT id AS i FROM s", deadline=deadline)
    return flow.spec().queries


@pytest.mark.parametrize(
    ("deadline", "available_now", "mode"),
    [
        (5.0, False, Mode.ON),
        (5.0, True, Mode.OFF),
        (None, False, Mode.OFF),
        (None, True, Mode.OFF),
    ],
)
def test_by_default_a_deadline_that_can_be_missed_decides(
    deadline: float | None, available_now: bool, mode: Mode
) -> None:
    assert chosen_mode(None, queries(deadline), available_now=available_now) is mode


@pytest.mark.parametrize("mode", Mode)
def test_what_is_asked_for_holds_whatever_the_flow_is(mode: Mode) -> None:
    for deadline in (None, 5.0):
        for available_now in (False, True):
            asked = chosen_mode(mode.value, queries(deadline), available_now=available_now)
            assert asked is mode


def test_another_word_is_refused_before_anything_starts() -> None:
    flow = Flow("test")
    flow.source("s", "json", {"path": "in"}, "id BIGINT")
    flow.sql("plain", "SELECT id FROM s")
    with pytest.raises(ConfigError):
        flow.start(shed="dry_run")
