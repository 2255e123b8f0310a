"""States of the loop, and every legal move between them.

Rule: whatever decides a move lives in this file. The core asks `next_state` and keeps no names of
states of its own.
"""
# Theory of operation
# ===================
# The loop asks the shell for one change of gates at a time, and goes on when it hears what became
# of it:
#
#   OPEN ── drops asked ──> CLOSING ── set ──> SHEDDING ── open asked ──> OPENING ── set ──> OPEN
#     ^                        │                │  ^  │                      │
#     └────── refused ─────────┘     drops asked│  │  └<───── refused ───────┘
#                                               v  │ set, refused
#                                            ADJUSTING
#
# A change of which nothing is heard for too long counts as refused: the facts of the next look say
# which gates are in force, and the loop believes them. They may also differ because somebody else
# set gates, or because a process before this one did: `found shut`, `found open`.
#
# Incomplete facts move nothing. There is no state for them: the loop stays where it is.

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from evenflow.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(enum.Enum):
    """Where the loop stands."""

    OPEN = "open"
    """No gate drops anything."""
    CLOSING = "closing"
    """The first drops were asked for."""
    SHEDDING = "shedding"
    ADJUSTING = "adjusting"
    """Other drops were asked for."""
    OPENING = "opening"
    """It was asked that nothing be dropped any more."""


class Input(enum.Enum):
    """What can move it."""

    DROPS_ASKED = "drops-asked"
    OPEN_ASKED = "open-asked"
    SET = "set"
    REFUSED = "refused"
    FOUND_SHUT = "found-shut"
    FOUND_OPEN = "found-open"


CHANGING: Final = frozenset({State.CLOSING, State.ADJUSTING, State.OPENING})
"""A change was asked for, and its outcome is not known."""

TRANSITIONS: Final[Mapping[tuple[State, Input], State]] = {
    (State.OPEN, Input.DROPS_ASKED): State.CLOSING,
    (State.OPEN, Input.FOUND_SHUT): State.SHEDDING,
    (State.CLOSING, Input.SET): State.SHEDDING,
    (State.CLOSING, Input.REFUSED): State.OPEN,
    (State.SHEDDING, Input.DROPS_ASKED): State.ADJUSTING,
    (State.SHEDDING, Input.OPEN_ASKED): State.OPENING,
    (State.SHEDDING, Input.FOUND_OPEN): State.OPEN,
    (State.ADJUSTING, Input.SET): State.SHEDDING,
    (State.ADJUSTING, Input.REFUSED): State.SHEDDING,
    (State.OPENING, Input.SET): State.OPEN,
    (State.OPENING, Input.REFUSED): State.SHEDDING,
}


def next_state(state: State, input_: Input, story: tuple[tuple[str, str], ...] = ()) -> State:
    """Return the state after an input.

    Raises:
        InternalError: The table has no such row.
    """
    try:
        return TRANSITIONS[state, input_]
    except KeyError:
        past = ", ".join(f"{before}+{what}" for before, what in story) or "nothing"
        raise InternalError(
            f"the control loop cannot take {input_.value} when {state.value}; before it: {past}"
        ) from None
