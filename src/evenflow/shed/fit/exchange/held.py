"""What a node of `d-fit` holds, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenflow.shed.fit.coarseness import Trial
    from evenflow.shed.fit.exchange.entries import Entries
    from evenflow.shed.fit.exchange.messages import Notice, Number, Revisions, SurveyNotice
    from evenflow.shed.fit.exchange.search import Search
    from evenflow.shed.fit.survey import Survey, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTable:
    """What a parent has of a child's table."""

    version: int
    dimensions: tuple[str, ...]
    number: Number
    under: int
    """Version of the terms notice, of this parent, under which it was made."""
    after: int
    """Version of the survey notice, of this child, that it goes with."""
    entries: Entries | None
    """None: it would be too large."""


@dataclass(frozen=True, slots=True)
class MadeFrom:
    """What a table was made from."""

    number: Number
    under: int
    """Version of the terms notice; 0 for those of a root."""
    after: int
    """Version of the survey notice that it goes with; 0 of a root."""
    below: tuple[int, ...]
    """Versions of the children's tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitNodeSnapshot:
    """Everything that decides future behaviour, except time. Hashable."""

    survey: Survey | None
    search: Search
    terms: Terms | None
    table: Entries | None
    too_large: bool
    below: tuple[object, ...]
    above: tuple[object, ...]
    waiting: tuple[Notice, ...]
    acknowledged: HeldTable | None
    posted: tuple[HeldTable, ...]
    made_from: MadeFrom | None
    revision: int
    revisions: Revisions
    sent_terms: tuple[object, ...]
    versions: tuple[tuple[tuple[str, str], int], ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Of a root: whose tables have been seen."""
        return self.search.trials


def revisions_of(node: str, revision: int, below: Iterable[SurveyNotice]) -> Revisions:
    """Return the revisions of a subtree, given that of its root and what the children have told."""
    found = {node: revision}
    for notice in below:
        for name, each in notice.revisions:
            found[name] = max(each, found.get(name, 0))
    return tuple(sorted(found.items()))
