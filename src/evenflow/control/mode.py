"""Whether the control loop of a flow may act. Light to import: the command line shows the names."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from evenflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenflow.model.query import Query


class Mode(enum.Enum):
    """What the loop may do."""

    ON = "on"
    OFF = "off"
    DRY_RUN = "dry-run"


def chosen_mode(asked: str | None, queries: Iterable[Query], *, available_now: bool) -> Mode:
    """Return what the loop of a run may do.

    Nothing is dropped that nobody waits for: without a deadline no answer is late, and a run that
    ends when all is read has all the time it takes.

    Args:
        asked: The value of a mode; None to go by the flow.
        queries: Of the flow.
        available_now: The run ends when all that is there has been read.

    Raises:
        ConfigError: There is no such mode.
    """
    if asked is None:
        wanted = not available_now and any(query.deadline is not None for query in queries)
        return Mode.ON if wanted else Mode.OFF
    try:
        return Mode(asked)
    except ValueError:
        names = ", ".join(mode.value for mode in Mode)
        raise ConfigError(f"shed: {asked!r} is not one of {names}") from None
