"""`d-fit`: one node's side of planning by tables. Does no I/O and reads no clock.

Drive it like this::

    effects = core.start(now)             # then receive(message, now), change(part, now)
    perform(effects)                      # put the messages on the wire
    wake_me_at(core.next_deadline())      # then call handle_timer
"""
# Theory of operation
# ===================
# Three things travel: surveys from children to parents, terms from parents to children, tables
# from children to parents. Each is a value that replaces the one before it, with a version, sent
# again until a receipt has come. A node has no states: what it does follows from what it holds.
#
#   surveys of all children       -> its own survey, to the parent
#   root: survey                  -> terms; tables too large -> coarser terms, the next number
#   terms                         -> terms of each child
#   terms, and the table of every
#   child under the same number   -> its own table, to the parent
#
# A message that comes late or twice has a version that is held already: it is answered and changes
# nothing. A change for a table that is not held is answered with what is held, and the child sends
# the table whole. What is lost is sent again.
#
# When a node's part changes, its survey and table do. The table goes up at once, as a change,
# under the terms that hold; if the root finds that these are no longer right, new ones come down.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import ConfigError, InternalError
from evenflow.shed.fit.coarseness import Trial, next_trial
from evenflow.shed.fit.exchange.change import Change, change_of
from evenflow.shed.fit.exchange.entries import Entries, entries_of
from evenflow.shed.fit.exchange.messages import (
    KINDS,
    Message,
    Notice,
    Receipt,
    Send,
    SurveyNotice,
    TableNotice,
    TermsNotice,
)
from evenflow.shed.fit.exchange.outbox import Outbox
from evenflow.shed.fit.make_table import make_table
from evenflow.shed.fit.survey import (
    Survey,
    Terms,
    least_score,
    survey_of,
    terms_of_child,
    terms_of_root,
)
from evenflow.shed.fit.tree import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.fit.part import Part
    from evenflow.shed.fit.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class FitNodeConfig:
    """Settings of one node. Valid once constructed."""

    epsilon: float
    """Share of the optimum that may be lost. Only the root's counts."""
    max_rates: Mapping[str, float] = field(default_factory=dict)
    """By dimension; of the root alone."""
    most_entries: int = MOST_ENTRIES
    """Of a table; beyond it, the root chooses coarser terms."""
    retry_after: float = 1.0
    """Seconds before a notice without a receipt is sent again. Choose above the usual round trip,
    or every notice is sent twice; far above it, a lost one holds up the whole tree."""
    tolerance: float = 0.0
    """Share of a score by which a parent may be wrong after a change. 0 sends every entry that
    differs; more sends fewer, and plans lose up to three times as much."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon < 1.0:
            raise ConfigError(f"epsilon must be 0 or more and below 1, not {self.epsilon}")
        if not 0.0 <= self.tolerance < 1.0:
            raise ConfigError(f"tolerance must be 0 or more and below 1, not {self.tolerance}")
        if self.most_entries < 1:
            raise ConfigError(f"most_entries must be 1 or more, not {self.most_entries}")
        if not self.retry_after > 0.0:
            raise ConfigError(f"retry_after must be above 0, not {self.retry_after}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A child's table."""

    version: int
    number: int
    entries: Entries | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitNodeSnapshot:
    """Everything that decides future behaviour, except time. Hashable."""

    survey: Survey | None
    number: int
    terms: Terms | None
    table: Entries | None
    too_large: bool
    trials: tuple[Trial, ...]
    below: tuple[object, ...]
    waiting: tuple[Notice, ...]
    acknowledged: tuple[int, Entries] | None
    posted: tuple[int, Entries] | None
    made_from: tuple[object, ...] | None
    loss: float
    from_parent: int
    versions: tuple[tuple[tuple[str, str], int], ...]


class FitNode:
    """Makes the table of one node from what its neighbours say.

    Guarantee: once no message is under way and nothing waits for a receipt, every node has the
    table that `plan_tree` makes for it, if the tolerance is 0.
    """

    def __init__(self, part: Part, config: FitNodeConfig) -> None:
        self.part = part
        self._config = config
        self._outbox = Outbox(config.retry_after)
        self._versions: dict[tuple[str, str], int] = {}
        """By neighbour and kind: the newest that was sent."""
        self._surveys: dict[str, SurveyNotice] = {}
        self._tables: dict[str, _Held] = {}
        self._survey: Survey | None = None
        self._terms: Terms | None = None
        self._number = 0
        """Of `_terms`; 0 if and only if there are none."""
        self._from_parent = 0
        """Version of the last terms notice."""
        self._sent_terms: dict[str, tuple[int, Terms]] = {}
        self._table: Table | None = None
        """Made from exactly what `_made_from` names. None if that is None or it is too large."""
        self._made_from: tuple[object, ...] | None = None
        self._acknowledged: tuple[int, Entries] | None = None
        """What the parent has for certain."""
        self._posted: tuple[int, Entries] | None = None
        """What the parent has once the notice that waits has come to it."""
        self._basis: Survey | None = None
        """Of the root: the survey that its terms are made for."""
        self._trials: tuple[Trial, ...] = ()
        self._loss = 0.0
        self._changes = 0
        self.entries_sent = 0
        """Entries in table notices, those sent again not counted: the cost of figure 15."""

    @property
    def table(self) -> Table | None:
        """The newest table, to select from."""
        return self._table

    @property
    def survey(self) -> Survey | None:
        """What the subtree brings and strains, as far as it is known."""
        return self._survey

    @property
    def terms(self) -> Terms | None:
        """What holds."""
        return self._terms

    @property
    def max_rates(self) -> Mapping[str, float]:
        """By dimension, of a root."""
        return self._config.max_rates

    @property
    def below(self) -> dict[str, Entries | None]:
        """What is held of the tables of the children."""
        return {child: held.entries for child, held in self._tables.items()}

    def next_deadline(self) -> float | None:
        """When `handle_timer` should next be called, if ever."""
        return self._outbox.deadline

    def snapshot(self) -> FitNodeSnapshot:
        """Return an immutable copy of the deciding state."""
        return FitNodeSnapshot(
            survey=self._survey,
            number=self._number,
            terms=self._terms,
            table=None if self._table is None else entries_of(self._table),
            too_large=self._made_from is not None and self._table is None,
            trials=self._trials,
            below=(
                *sorted(self._surveys.items()),
                *sorted((c, h.version, h.number, h.entries) for c, h in self._tables.items()),
            ),
            waiting=tuple(notice for _, notice in self._outbox.items()),
            acknowledged=self._acknowledged,
            posted=self._posted,
            made_from=self._made_from,
            loss=self._loss,
            from_parent=self._from_parent,
            versions=tuple(sorted(self._versions.items())),
        )

    def check_invariants(self) -> None:
        """Assert what the attribute docstrings promise. Called by tests after every step."""
        assert (self._number == 0) == (self._terms is None)
        assert self._table is None or self._made_from is not None
        assert self._made_from is None or self._terms is not None
        assert (
            self._terms is None
            or self._table is None
            or len(self._table) <= (self._terms.most_entries)
        )
        waiting = [notice for _, notice in self._outbox.items()]
        assert (self.next_deadline() is not None) == bool(waiting)
        for notice in waiting:
            assert notice.version == self._versions[notice.receiver, KINDS[type(notice)]]
        if self._acknowledged and self._posted:
            assert self._acknowledged[0] <= self._posted[0]

    def start(self, now: float) -> list[Send]:
        """Begin. A leaf can say at once what it is like; the others wait for their children."""
        return self._think(now)

    def change(self, part: Part, now: float) -> list[Send]:
        """Take note that costs, selectivities or operators of this node are others now.

        Raises:
            InternalError: It has other neighbours or dimensions: that is another node.
        """
        if (part.node, part.parent, part.dimensions) != (
            self.part.node,
            self.part.parent,
            self.part.dimensions,
        ) or [link.child for link in part.links] != [link.child for link in self.part.links]:
            raise InternalError(f"node {part.node} has other neighbours than before")
        self.part = part
        self._changes += 1
        return self._think(now)

    def receive(self, message: Message, now: float) -> list[Send]:
        """Take a message from a neighbour. Others, and what is held already, change nothing."""
        neighbours = {self.part.parent, *(link.child for link in self.part.links)}
        if message.receiver != self.part.node or message.sender not in neighbours:
            return []
        if isinstance(message, Receipt):
            return self._receive_receipt(message, now)
        if isinstance(message, SurveyNotice):
            held = self._receive_survey(message)
        elif isinstance(message, TermsNotice):
            held = self._receive_terms(message)
        else:
            held = self._receive_table(message)
        receipt = Receipt(
            sender=self.part.node,
            receiver=message.sender,
            kind=KINDS[type(message)],
            version=held,
        )
        return [Send(message=receipt), *self._think(now)]

    def handle_timer(self, now: float) -> list[Send]:
        """Send again what has no receipt, if the deadline has passed."""
        return self._outbox.repeat(now)

    # What comes in. Each returns the version that is held afterwards.

    def _receive_survey(self, notice: SurveyNotice) -> int:
        held = self._surveys.get(notice.sender)
        if held is None or notice.version > held.version:
            self._surveys[notice.sender] = held = notice
        return held.version

    def _receive_terms(self, notice: TermsNotice) -> int:
        if notice.version > self._from_parent:
            self._from_parent = notice.version
            self._number, self._terms = notice.number, notice.terms
        return self._from_parent

    def _receive_table(self, notice: TableNotice) -> int:
        held = self._tables.get(notice.sender)
        version = held.version if held else 0
        if notice.version <= version:
            return version
        entries = None
        if notice.change is not None:
            if notice.base == 0:
                entries = notice.change.sent
            elif held is not None and held.entries is not None and notice.base == version:
                entries = notice.change.applied(held.entries)
            else:
                return version
        self._tables[notice.sender] = _Held(
            version=notice.version, number=notice.number, entries=entries
        )
        return notice.version

    def _receive_receipt(self, receipt: Receipt, now: float) -> list[Send]:
        waiting = self._outbox.waiting(receipt.sender, receipt.kind)
        if self._outbox.settle(receipt):
            if receipt.kind == "table":
                self._acknowledged = self._posted
            return []
        if isinstance(waiting, TableNotice) and waiting.base not in (0, receipt.version):
            # The parent does not have what the change is for. A late receipt looks the same; the
            # whole table is right in both cases.
            self._acknowledged = None
            return self._post_table(now)
        return []

    # What follows from what is held.

    def _think(self, now: float) -> list[Send]:
        effects = self._tell_survey(now)
        while True:
            effects += self._tell_terms(now)
            made = self._make_table()
            if made and self.part.parent is not None:
                effects += self._post_table(now)
            if not made or self.part.parent is not None or not self._judge():
                return effects

    def _tell_survey(self, now: float) -> list[Send]:
        children = [link.child for link in self.part.links]
        if any(child not in self._surveys for child in children):
            return []
        survey = survey_of(self.part, {child: self._surveys[child].survey for child in children})
        if survey == self._survey:
            return []
        self._survey = survey
        if self.part.parent is None:
            if self._basis is None or not self._stands_for(self._basis, survey):
                self._basis, self._trials = survey, ()
                self._issue(next_trial(self._config.epsilon, ()))
            return []
        version = self._next_version(self.part.parent, "survey")
        notice = SurveyNotice(
            sender=self.part.node, receiver=self.part.parent, version=version, survey=survey
        )
        return [self._outbox.put(notice, now)]

    def _stands_for(self, basis: Survey, survey: Survey) -> bool:
        """Whether terms made for one survey will do for another, within the tolerance."""
        slack = self._config.tolerance
        if basis == survey:
            return True
        if slack == 0.0 or (basis.taps, basis.merges) != (survey.taps, survey.merges):
            return False
        tighter = np.array(survey.strains) > np.array(basis.strains) * (1.0 + slack)
        worse = least_score(survey) < least_score(basis) * (1.0 - slack)
        return not (np.any(tighter) or worse)

    def _judge(self) -> bool:
        """Of the root: look at the table that was made; return whether other terms hold now."""
        fits = self._table is not None
        tried = {trial.loss: trial.fits for trial in self._trials}
        if tried.get(self._loss) != fits:
            # A change can make tables too large that were not: what was tried before says nothing.
            before = () if self._loss in tried else self._trials
            self._trials = (*before, Trial(loss=self._loss, fits=fits))
        loss = next_trial(self._config.epsilon, self._trials)
        if loss == self._loss and fits:
            return False
        self._issue(loss)
        return True

    def _issue(self, loss: float) -> None:
        assert self._basis is not None
        self._loss = loss
        self._number += 1
        most = np.array([self._config.max_rates[name] for name in self.part.dimensions])
        self._terms = terms_of_root(self._basis, most, loss, self._config.most_entries)

    def _tell_terms(self, now: float) -> list[Send]:
        if self._terms is None:
            return []
        effects = []
        for link in self.part.links:
            terms = terms_of_child(self.part, self._terms, link)
            if self._sent_terms.get(link.child) == (self._number, terms):
                continue
            self._sent_terms[link.child] = (self._number, terms)
            notice = TermsNotice(
                sender=self.part.node,
                receiver=link.child,
                version=self._next_version(link.child, "terms"),
                number=self._number,
                terms=terms,
            )
            effects.append(self._outbox.put(notice, now))
        return effects

    def _make_table(self) -> bool:
        """Make the table anew if what it is made from has changed; return whether it was made."""
        children = [link.child for link in self.part.links]
        held = [self._tables[child] for child in children if child in self._tables]
        if self._terms is None or len(held) < len(children):
            return False
        if any(each.number != self._number for each in held):
            return False
        made_from = (
            self._number,
            self._from_parent,
            self._changes,
            *(each.version for each in held),
        )
        if made_from == self._made_from:
            return False
        self._made_from = made_from
        self._table = None
        below = {}
        for child, each in zip(children, held, strict=True):
            if each.entries is None:
                return True
            below[child] = each.entries.table()
        self._table = make_table(self.part, self._terms, below)
        return True

    def _post_table(self, now: float) -> list[Send]:
        parent = self.part.parent
        assert parent is not None
        version = self._next_version(parent, "table")
        base, change = 0, None
        self._posted = None
        if self._table is not None:
            after = entries_of(self._table)
            change, view = Change(stay=(), sent=after), after
            if self._acknowledged is not None:
                base, before = self._acknowledged
                change = change_of(self.part, before, after, self._config.tolerance)
                view = change.applied(before)
            self._posted = (version, view)
            self.entries_sent += len(change.sent)
        notice = TableNotice(
            sender=self.part.node,
            receiver=parent,
            version=version,
            number=self._number,
            base=base,
            change=change,
        )
        return [self._outbox.put(notice, now)]

    def _next_version(self, receiver: str, kind: str) -> int:
        version = self._versions.get((receiver, kind), 0) + 1
        self._versions[receiver, kind] = version
        return version
