"""Everything that can happen to the messages of the smallest trees, until nothing new can.

Two nodes: every order of delivery, loss, repetition and late arrival; with one change of a part,
every order and loss. A parent with two children: every order and loss, and repetition to a bound,
as beside a change. Worlds of equal shape are visited once.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.explorer import Step, visit_all
from tests.shed.fit.exchange.wire import assert_tables_of_one_place
from tests.shed.fit.test_merge_inputs import chains

from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.exchange.distributed import nodes_for
from evenflow.shed.fit.exchange.node import FitNode
from evenflow.shed.fit.exchange.outbox import Outbox
from evenflow.shed.network import Network, Node, Operator, Query
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from evenflow.shed.fit.exchange.messages import Message, Receipt, Send
    from evenflow.shed.fit.part import Part

EPSILON, MOST = 0.6, 5000
WORLDS = int(os.environ.get("EVENFLOW_WORLDS", "1500"))
"""Of the searches that do not close; `make shed-test` has more."""
CHAIN = chains((1.0, 2.0))
CHANGED = chains((1.0, 3.0))
FORK = Network(
    nodes={name: Node(capacity=1.0) for name in "ABC"},
    operators={
        "a": Operator(node="A", inputs=("in",), cost=1.0),
        "b": Operator(node="B", inputs=("a",), cost=2.0),
        "c": Operator(node="C", inputs=("a",), cost=3.0),
    },
    queries={"q": Query(output="b"), "r": Query(output="c")},
)


@dataclass(frozen=True)
class World:
    """Cores and the messages under way."""

    nodes: dict[str, FitNode]
    wire: frozenset[Message]
    changes: int
    """Of parts, that may still happen."""

    def after(
        self, node: str, act: Callable[[FitNode], list[Send]], wire: frozenset[Message]
    ) -> World:
        nodes = dict(self.nodes)
        nodes[node] = copy.copy(nodes[node])
        # Everything that a core changes in place is copied; what it holds is immutable.
        for name, held in vars(nodes[node]).items():
            if isinstance(held, dict):
                setattr(nodes[node], name, dict(held))
        outbox = nodes[node]._outbox = copy.copy(nodes[node]._outbox)
        outbox._waiting = dict(outbox._waiting)
        sent = {effect.message for effect in act(nodes[node])}
        made = World(nodes, wire | sent, self.changes)
        nodes[node].check_invariants()
        return made


def shape(world: World) -> Hashable:
    return (
        tuple((name, node.snapshot()) for name, node in sorted(world.nodes.items())),
        world.wire,
        world.changes,
    )


def steps_of(world: World, *, repeated: bool) -> Iterator[tuple[str, Step[World]]]:
    for message in sorted(world.wire, key=_name):
        kind = _name(message)
        yield f"{kind} comes", _delivery(message, world.wire - {message})
        if repeated:
            yield f"{kind} comes, and again later", _delivery(message, world.wire)
        yield f"{kind} is lost", _loss(message)
    if not world.wire:
        for name, node in world.nodes.items():
            if node.next_deadline() is not None:
                yield f"{name} sends again", _timer(name)
    if world.changes:
        yield "B changes", _change


def _name(message: Message) -> str:
    about = getattr(message, "kind", "")
    return f"{type(message).__name__} {about} {message.version} to {message.receiver}"


def _delivery(message: Message, wire: frozenset[Message]) -> Step[World]:
    return lambda w: w.after(message.receiver, lambda n: n.receive(message, 0.0), wire)


def _loss(message: Message) -> Step[World]:
    return lambda w: World(w.nodes, w.wire - {message}, w.changes)


def _timer(name: str) -> Step[World]:
    def act(node: FitNode) -> list[Send]:
        deadline = node.next_deadline()
        assert deadline is not None
        sent = node.handle_timer(deadline)
        node._outbox.deadline = 1.0
        return sent

    return lambda w: w.after(name, act, w.wire)


def _change(world: World) -> World:
    made = world.after("B", lambda n: n.change(changed_part(), 0.0), world.wire)
    return World(made.nodes, made.wire, world.changes - 1)


@cache
def changed_part() -> Part:
    return cut(program_of(CHANGED))["B"]


def explore(network: Network, changes: int, most: int, *, repeated: bool) -> tuple[int, bool]:
    program = program_of(network)
    nodes = nodes_for(program, np.array([10.0]), EPSILON, most_entries=MOST)
    sent = frozenset(e.message for node in nodes.values() for e in node.start(0.0))
    finals = set()

    def steps(world: World) -> Iterator[tuple[str, Step[World]]]:
        found = list(steps_of(world, repeated=repeated))
        if not found:
            finals.add(world.changes)
            assert_tables_of_one_place(world.nodes, EPSILON, MOST)
        yield from found

    visited = visit_all(World(nodes, sent, changes), steps, shape, most)
    if visited[1]:
        assert 0 in finals
    return visited


@pytest.mark.slow
def test_two_nodes_end_in_the_tables_of_one_place() -> None:
    count, closed = explore(CHAIN, 0, 20_000, repeated=True)
    assert closed
    assert count > 50


@pytest.mark.slow
def test_two_nodes_one_of_which_changes_end_in_the_tables_of_one_place() -> None:
    count, closed = explore(CHAIN, 1, 20_000, repeated=False)
    assert closed
    assert count > 10_000


@pytest.mark.slow
def test_a_fork_ends_in_the_tables_of_one_place() -> None:
    count, closed = explore(FORK, 0, 20_000, repeated=False)
    assert closed
    assert count > 100


@pytest.mark.slow
@pytest.mark.parametrize(("network", "changes"), [(CHAIN, 1), (FORK, 0)], ids=["chain", "fork"])
def test_no_repetition_leads_elsewhere(network: Network, changes: int) -> None:
    count, closed = explore(network, changes, WORLDS, repeated=True)
    assert closed or count >= WORLDS


@pytest.mark.slow
def test_the_search_finds_a_core_that_takes_any_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search is worth: a late receipt must not end the sending of a newer notice."""

    def careless(self: Outbox, receipt: Receipt) -> bool:
        notice = self.waiting(receipt.sender, receipt.kind)
        return settle(self, receipt if notice is None else replace(receipt, version=notice.version))

    settle = Outbox.settle
    monkeypatch.setattr(Outbox, "settle", careless)
    with pytest.raises(AssertionError):
        explore(CHAIN, 1, 20_000, repeated=False)
