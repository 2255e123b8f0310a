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
#                                    (`search`)
#   terms                         -> terms of each child
#   terms, and the table of every
#   child under what it was told  -> its own table, to the parent
#
# A message that comes late or twice has a version that is held already: it is answered and changes
# nothing. A change for a table that is not held is answered with what is held, and the child sends
# the table whole. What is lost is sent again.
#
# When a node's part changes, its survey and table do. The table goes up at once, as a change,
# under the terms that hold; if the root finds that these are no longer right, new ones come down.
# The survey goes up even if it is as before, and a table names the survey that it goes with: the
# root must know which tables are those of what is now, because a search that has found some too
# large begins anew with every change.
#
# An operator that moves changes two nodes, which hear of it at different times. Whatever is said
# along a link names the dimensions of the child: until both ends know it by the same ones, what is
# held of the other end waits, and there is no table. A node can get other neighbours too. What is
# held of former ones stays, because they may come back and think that it is known; what waits for
# their receipts does not.

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from evenflow.errors import InternalError
from evenflow.shed.fit.exchange.change import Change, change_of
from evenflow.shed.fit.exchange.entries import Entries, entries_of
from evenflow.shed.fit.exchange.held import FitNodeSnapshot, HeldTable, MadeFrom, revisions_of
from evenflow.shed.fit.exchange.messages import (
    KINDS,
    Message,
    Number,
    Receipt,
    Revisions,
    Send,
    SurveyNotice,
    TableNotice,
    TermsNotice,
)
from evenflow.shed.fit.exchange.outbox import Outbox
from evenflow.shed.fit.exchange.search import NONE, Search
from evenflow.shed.fit.make_table import make_table
from evenflow.shed.fit.survey import (
    Survey,
    Terms,
    survey_of,
    terms_of_child,
    terms_of_root,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.shed.fit.exchange.config import FitNodeConfig
    from evenflow.shed.fit.part import Part
    from evenflow.shed.fit.table import Table

_MOST_BETWEEN = 2
"""Notices before the newest whose tables are remembered, should the parent have come to them."""

N = TypeVar("N", SurveyNotice, TermsNotice)


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
        """By child, also former ones; so are tables. Used if dimensions are those of the link."""
        self._tables: dict[str, HeldTable] = {}
        self._told: dict[str, TermsNotice] = {}
        """By parent, also former ones: the newest terms. Used if dimensions are those of the
        part."""
        self._survey: Survey | None = None
        """As it was told last."""
        self._revision = 0
        """How often the part has changed."""
        self._revisions: Revisions = ()
        """Those of the subtree, as they were told last."""
        self._search = Search()
        """Of a root."""
        self._issued: Terms | None = None
        """Of a root: the terms that the search is at."""
        self._sent_terms: dict[str, tuple[Number, tuple[str, ...], Terms]] = {}
        """By child."""
        self._table: Table | None = None
        """Made from exactly what `_made_from` names. None if that is None or it is too large."""
        self._made_from: MadeFrom | None = None
        self._acknowledged: HeldTable | None = None
        """What the parent has for certain."""
        self._posted: tuple[HeldTable, ...] = ()
        """What the parent may have by now: as of the last notices, the newest of which waits."""
        self.entries_sent = 0
        """Entries in table notices, those sent again not counted: the cost of figure 15."""

    @property
    def table(self) -> Table | None:
        """The newest table, to select from. None while neighbours speak of other dimensions."""
        return self._table

    @property
    def survey(self) -> Survey | None:
        """What the subtree brings and strains, as far as it is known."""
        return self._survey

    @property
    def terms(self) -> Terms | None:
        """What holds."""
        return self._held_terms()[1]

    @property
    def max_rates(self) -> Mapping[str, float]:
        """By gate on an input arc."""
        return self._config.max_rates

    @property
    def below(self) -> dict[str, Entries | None]:
        """What is held of the tables of the children."""
        children = (link.child for link in self.part.links if link.child in self._tables)
        return {child: self._tables[child].entries for child in children}

    def next_deadline(self) -> float | None:
        """When `handle_timer` should next be called, if ever."""
        return self._outbox.deadline

    def snapshot(self) -> FitNodeSnapshot:
        """Return an immutable copy of the deciding state."""
        return FitNodeSnapshot(
            survey=self._survey,
            search=self._search,
            terms=self.terms,
            table=None if self._table is None else entries_of(self._table),
            too_large=self._made_from is not None and self._table is None,
            below=(*sorted(self._surveys.items()), *sorted(self._tables.items())),
            above=tuple(sorted(self._told.items())),
            waiting=tuple(notice for _, notice in self._outbox.items()),
            acknowledged=self._acknowledged,
            posted=self._posted,
            made_from=self._made_from,
            revision=self._revision,
            revisions=self._revisions,
            sent_terms=tuple(sorted(self._sent_terms.items())),
            versions=tuple(sorted(self._versions.items())),
        )

    def check_invariants(self) -> None:
        """Assert what the attribute docstrings promise. Called by tests after every step."""
        terms, children = self.terms, {link.child for link in self.part.links}
        assert self._table is None or self._made_from is not None
        assert self._made_from is None or terms is not None
        assert dict(self._revisions).get(self.part.node, 0) <= self._revision
        assert terms is None or self._table is None or len(self._table) <= terms.most_entries
        assert self._sent_terms.keys() <= children
        waiting = [notice for _, notice in self._outbox.items()]
        assert (self.next_deadline() is not None) == bool(waiting)
        for notice in waiting:
            down = isinstance(notice, TermsNotice)
            assert notice.receiver in (children if down else {self.part.parent})
            assert notice.version == self._versions[notice.receiver, KINDS[type(notice)]]
            if isinstance(notice, TableNotice):
                assert self._posted[-1].version == notice.version
        held = [each.version for each in (self._acknowledged, *self._posted) if each]
        assert held == sorted(set(held))

    def start(self, now: float) -> list[Send]:
        """Begin. A leaf can say at once what it is like; the others wait for their children."""
        return self._think(now)

    def change(self, part: Part, now: float) -> list[Send]:
        """Take note that costs, selectivities, operators or neighbours of this node are others now.

        A node that has no operators any more keeps its core, for when it gets some again: its
        neighbours would not listen to one that counts its notices from 1.

        Raises:
            InternalError: It is the part of another node.
        """
        before, self.part = self.part, part
        if part.node != before.node:
            raise InternalError(f"node {part.node} is not {before.node}")
        self._revision += 1
        self._table = self._made_from = None
        if part.parent != before.parent:
            self._acknowledged, self._posted = None, ()
        if (part.parent, part.dimensions) != (before.parent, before.dimensions):
            # What was said about other dimensions, or to another parent, says nothing now.
            self._survey = None
            self._go_on_with(Search(number=(self._search.number[0], 0)))
        children = {link.child for link in part.links}
        self._sent_terms = {k: each for k, each in self._sent_terms.items() if k in children}
        above = () if part.parent is None else ("survey", "table")
        self._outbox.keep_only(
            {(child, "terms") for child in children} | {(part.parent, kind) for kind in above}
        )
        return self._think(now)

    def receive(self, message: Message, now: float) -> list[Send]:
        """Take a message from a neighbour. Others, and what is held already, change nothing."""
        neighbours = {self.part.parent, *(link.child for link in self.part.links)}
        if message.receiver != self.part.node or message.sender not in neighbours:
            return []
        if isinstance(message, Receipt):
            return self._receive_receipt(message, now)
        if isinstance(message, SurveyNotice):
            held = _newer(self._surveys, message)
        elif isinstance(message, TermsNotice):
            held = _newer(self._told, message)
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

    # What comes in.

    def _receive_table(self, notice: TableNotice) -> int:
        """Return the version that is held afterwards."""
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
        self._tables[notice.sender] = HeldTable(
            version=notice.version,
            dimensions=notice.dimensions,
            number=notice.number,
            under=notice.under,
            after=notice.after,
            entries=entries,
        )
        return notice.version

    def _receive_receipt(self, receipt: Receipt, now: float) -> list[Send]:
        waiting = self._outbox.waiting(receipt.sender, receipt.kind)
        if self._outbox.settle(receipt):
            if receipt.kind == "table":
                self._acknowledged, self._posted = self._posted[-1], ()
            return []
        if (
            self._made_from is not None
            and isinstance(waiting, TableNotice)
            and waiting.base not in (0, receipt.version)
        ):
            # The parent does not have what the change is for, but perhaps a notice between. A late
            # receipt looks the same; what is sent then is right in both cases. While there is no
            # table there is nothing to send: what waits is answered again.
            between = [each for each in self._posted if each.version == receipt.version]
            self._acknowledged, self._posted = next(iter(between), None), ()
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

    def _held_terms(self) -> tuple[Number, Terms | None, int]:
        """Return the terms that hold, with their number and the version of their notice."""
        parent = self.part.parent
        if parent is not None:
            told = self._told.get(parent)
            if told is None or told.dimensions != self.part.dimensions:
                return NONE, None, 0
            return told.number, told.terms, told.version
        return self._search.number, self._issued, 0

    def _go_on_with(self, search: Search) -> None:
        self._search, self._issued = search, None
        if search.basis is not None:
            most = np.array([self._config.max_rates[name] for name in self.part.dimensions])
            limit = self._config.most_entries
            self._issued = terms_of_root(search.basis, most, search.loss, limit)

    def _tell_survey(self, now: float) -> list[Send]:
        notices = self._surveys_below()
        if notices is None:
            return []
        survey = survey_of(self.part, {child: each.survey for child, each in notices.items()})
        revisions = revisions_of(self.part.node, self._revision, notices.values())
        if (survey, revisions) == (self._survey, self._revisions):
            return []
        self._survey, self._revisions = survey, revisions
        if self.part.parent is None:
            exact = self._config.tolerance == 0.0
            holds = self._search.stands_for(survey, self._config.tolerance)
            if not holds or (exact and self._search.has_failed):
                seen = max((told.number[0] for told in self._told.values()), default=0)
                self._go_on_with(self._search.begun(survey, self._config.epsilon, seen=seen))
            return []
        notice = SurveyNotice(
            sender=self.part.node,
            receiver=self.part.parent,
            version=self._next_version(self.part.parent, "survey"),
            dimensions=self.part.dimensions,
            survey=survey,
            revisions=revisions,
        )
        return [self._outbox.put(notice, now)]

    def _surveys_below(self) -> dict[str, SurveyNotice] | None:
        """Return what the children have told; None while some know themselves by others."""
        held = [(link, self._surveys.get(link.child)) for link in self.part.links]
        fitting = {
            link.child: notice
            for link, notice in held
            if notice is not None and notice.dimensions == link.dimensions
        }
        return fitting if len(fitting) == len(held) else None

    def _judge(self) -> bool:
        """Of the root: look at the table that was made; return whether other terms hold now."""
        assert self._survey is not None
        before = self._search
        judged = before.judged(
            self._survey,
            self._config.epsilon,
            fits=self._table is not None,
            exact=self._config.tolerance == 0.0,
        )
        self._go_on_with(judged)
        return judged.number != before.number

    def _tell_terms(self, now: float) -> list[Send]:
        number, terms, _ = self._held_terms()
        if terms is None:
            return []
        effects = []
        for link in self.part.links:
            sent = (number, link.dimensions, terms_of_child(self.part, terms, link))
            if self._sent_terms.get(link.child) == sent:
                continue
            self._sent_terms[link.child] = sent
            notice = TermsNotice(
                sender=self.part.node,
                receiver=link.child,
                version=self._next_version(link.child, "terms"),
                dimensions=link.dimensions,
                number=number,
                terms=sent[2],
            )
            effects.append(self._outbox.put(notice, now))
        return effects

    def _make_table(self) -> bool:
        """Make the table anew if what it is made from has changed; return whether it was made."""
        number, terms, version = self._held_terms()
        links, tables = self.part.links, self._tables
        held = [tables[link.child] for link in links if link.child in tables]
        if terms is None or len(held) < len(links):
            self._table = self._made_from = None
            return False
        if any(each.dimensions != link.dimensions for each, link in zip(held, links, strict=True)):
            self._table = self._made_from = None
            return False
        sent = [self._versions[link.child, "terms"] for link in links]
        if any(each.under != version for each, version in zip(held, sent, strict=True)):
            return False
        notices = self._surveys_below()
        if notices is None:
            return False
        if any(
            each.after != notices[link.child].version
            for link, each in zip(links, held, strict=True)
        ):
            return False
        after = self._versions.get((self.part.parent or "", "survey"), 0)
        made_from = MadeFrom(number, version, after, tuple(each.version for each in held))
        if made_from == self._made_from:
            return False
        self._made_from = made_from
        self._table = None
        below = {}
        for link, each in zip(links, held, strict=True):
            if each.entries is None:
                return True
            below[link.child] = each.entries.table()
        self._table = make_table(self.part, terms, below)
        return True

    def _post_table(self, now: float) -> list[Send]:
        parent = self.part.parent
        made = self._made_from
        assert parent is not None
        assert made is not None
        base, change, view = 0, None, None
        if self._table is not None:
            after = entries_of(self._table)
            base, change = self._change_to(after, made.number)
            before = self._acknowledged.entries if self._acknowledged else None
            view = after if base == 0 or before is None else change.applied(before)
            self.entries_sent += len(change.sent)
        notice = TableNotice(
            sender=self.part.node,
            receiver=parent,
            version=self._next_version(parent, "table"),
            dimensions=self.part.dimensions,
            number=made.number,
            under=made.under,
            after=made.after,
            base=base,
            change=change,
        )
        posted = HeldTable(
            version=notice.version,
            dimensions=notice.dimensions,
            number=made.number,
            under=made.under,
            after=made.after,
            entries=view,
        )
        self._posted = (*self._posted[-_MOST_BETWEEN:], posted)
        return [self._outbox.put(notice, now)]

    def _change_to(self, after: Entries, number: Number) -> tuple[int, Change]:
        """Return what is sent of a table, and the version that it is a change of; 0 for the whole.

        What the parent may keep, within the tolerance, adds to what it has. It must not be in the
        way of a search for terms under which tables fit, whose trials are of whole tables.
        """
        held, whole = self._acknowledged, (0, Change(stay=(), sent=after))
        if held is None or held.entries is None:
            return whole
        if held.entries.rates.shape[1] != after.rates.shape[1]:
            return whole
        tolerance = self._config.tolerance
        if tolerance > 0.0 and number != held.number and number[1] > 1:
            return whole
        change = change_of(self.part, held.entries, after, tolerance)
        most = max(self._config.most_entries, len(after))
        fits = len(change.stay) + len(change.sent) <= most
        return (held.version, change) if fits else whole

    def _next_version(self, receiver: str, kind: str) -> int:
        version = self._versions.get((receiver, kind), 0) + 1
        self._versions[receiver, kind] = version
        return version


def _newer(held: dict[str, N], notice: N) -> int:
    """Keep a notice if it is newer than what is held; return the version that is held then."""
    known = held.get(notice.sender)
    if known is None or notice.version > known.version:
        held[notice.sender] = known = notice
    return known.version
