"""What neighbours in a tree of nodes say to each other. No behaviour, no addresses, no bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenflow.shed.fit.exchange.change import Change
    from evenflow.shed.fit.survey import Survey, Terms

Number = tuple[int, int]
"""Of terms: which search of the root for terms, and which trial of it. All nodes of a tree use the
number of the root; of one root a later one is larger."""

Revisions = tuple[tuple[str, int], ...]
"""How often the part of each node of a subtree has changed, by node. Not all of it shows in a
survey. Two that take each other for a child, because one has not heard of a change yet, come to an
end with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyNotice:
    """From a child: what its subtree brings and strains."""

    sender: str
    receiver: str
    version: int
    """Increases with every notice of this kind from this sender. Of two, the larger holds."""
    dimensions: tuple[str, ...]
    """Of the child. Who knows the child by others waits: an operator has moved between them, and
    one of the two has not heard of it yet."""
    survey: Survey
    revisions: Revisions


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsNotice:
    """From the parent: what tables have to hold to."""

    sender: str
    receiver: str
    version: int
    dimensions: tuple[str, ...]
    number: Number
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotice:
    """From a child: its table, or what has changed in it."""

    sender: str
    receiver: str
    version: int
    dimensions: tuple[str, ...]
    number: Number
    """Of the terms under which it was made."""
    under: int
    """Version of the notice of these terms. Roots that follow one another may give a number twice;
    a parent does not."""
    after: int
    """Version of the survey notice that tells of what it was made from."""
    base: int
    """Version that `change` is for; 0 for a table without entries, so that it is sent whole."""
    change: Change | None
    """None: a table within these terms would be too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The answer to every notice, also to one that came late or twice."""

    sender: str
    receiver: str
    kind: str
    """`survey`, `terms` or `table`."""
    version: int
    """Which version the sender of this receipt holds, 0 for none."""


Notice = SurveyNotice | TermsNotice | TableNotice
Message = Notice | Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """The one effect: put a message on the wire. It may be lost, late or doubled."""

    message: Message


KINDS: dict[type[Notice], str] = {
    SurveyNotice: "survey",
    TermsNotice: "terms",
    TableNotice: "table",
}
