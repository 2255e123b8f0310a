"""The table of the loop's states as a whole."""

from __future__ import annotations

import pytest

from evenflow.control.state import CHANGING, TRANSITIONS, Input, State, next_state
from evenflow.errors import InternalError


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("input_", Input)
def test_every_pair_moves_or_is_refused(state: State, input_: Input) -> None:
    if (state, input_) in TRANSITIONS:
        assert next_state(state, input_) in State
    else:
        with pytest.raises(InternalError) as caught:
            next_state(state, input_, (("open", "drops-asked"),))
        assert caught.value.code == "internal"
        assert "open+drops-asked" in caught.value.message


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS.values()) == set(State)
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert {input_ for _, input_ in TRANSITIONS} == set(Input)


@pytest.mark.parametrize("state", [state for state in State if state in CHANGING])
def test_a_change_ends_by_being_set_or_refused(state: State) -> None:
    inputs = {input_ for before, input_ in TRANSITIONS if before is state}
    assert inputs == {Input.SET, Input.REFUSED}
    assert {next_state(state, input_) for input_ in inputs}.isdisjoint(CHANGING)
