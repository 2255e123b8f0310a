"""What can be asked of a query, and every move between its states.

Rule: whatever decides which request is legal in which state is the table below.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.model.query import Query


class QueryState(enum.Enum):
    """What a query does."""

    RUNNING = "running"
    PAUSED = "paused"
    QUARANTINED = "quarantined"
    KEPT = "kept"
    """Unsubscribed, but its operators go on, without sinks."""


class Origin(enum.Enum):
    """Where a query comes from."""

    FILE = "file"
    """The flow as it was started; it leaves when a later start does not have it."""
    RUN = "run"
    """Subscribed at run time; it stays until it is unsubscribed."""


# Requests.


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Begin to answer a query."""

    query: Query
    origin: Origin = Origin.RUN

    @property
    def name(self) -> str:
        """The query's name."""
        return self.query.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """Forget a query."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Stop delivering a query's answers, but go on computing them for an equal one to come."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Discard a query's input until it resumes."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Answer a paused or quarantined query again."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Take a query out of service because it fails."""

    name: str
    reason: str


Request = Subscribe | Unsubscribe | Keep | Pause | Resume | Quarantine

TRANSITIONS: Final[Mapping[tuple[QueryState | None, type[Request]], QueryState | None]] = {
    (None, Subscribe): QueryState.RUNNING,
    (QueryState.RUNNING, Unsubscribe): None,
    (QueryState.PAUSED, Unsubscribe): None,
    (QueryState.QUARANTINED, Unsubscribe): None,
    (QueryState.KEPT, Unsubscribe): None,
    (QueryState.RUNNING, Keep): QueryState.KEPT,
    (QueryState.KEPT, Keep): QueryState.KEPT,
    (QueryState.KEPT, Subscribe): QueryState.RUNNING,
    (QueryState.RUNNING, Pause): QueryState.PAUSED,
    (QueryState.PAUSED, Pause): QueryState.PAUSED,
    (QueryState.RUNNING, Resume): QueryState.RUNNING,
    (QueryState.PAUSED, Resume): QueryState.RUNNING,
    (QueryState.QUARANTINED, Resume): QueryState.RUNNING,
    (QueryState.RUNNING, Quarantine): QueryState.QUARANTINED,
    (QueryState.KEPT, Quarantine): QueryState.QUARANTINED,
    # It fails no more than it runs: what failed was the batch before.
    (QueryState.PAUSED, Quarantine): QueryState.PAUSED,
    (QueryState.QUARANTINED, Quarantine): QueryState.QUARANTINED,
}
"""What a request makes of a query in a state; None is no query. Absent means refused."""
