"""A wire between cores that loses, repeats and reorders, from a seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from evenflow.shed.fit.tree import plan_tree, trees_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenflow.shed.fit.exchange.messages import Message, Send
    from evenflow.shed.fit.exchange.node import FitNode

LOST, REPEATED = 0.2, 0.2
STEPS = 20_000


class Wire:
    """Delivers in any order; what is lost is sent again when time has passed."""

    def __init__(self, nodes: Mapping[str, FitNode], seed: int) -> None:
        self.nodes = nodes
        self.now = 0.0
        self._draw = random.Random(seed)
        self._waiting: list[Message] = []

    def put(self, effects: list[Send]) -> None:
        self._waiting += [effect.message for effect in effects]

    def start(self) -> None:
        for node in self.nodes.values():
            self.put(node.start(self.now))

    def run(self) -> None:
        """Deliver until nothing is under way and nothing waits for a receipt."""
        for _ in range(STEPS):
            if self._waiting:
                self._deliver()
                continue
            deadlines = [node.next_deadline() for node in self.nodes.values()]
            due = [each for each in deadlines if each is not None]
            if not due:
                return
            self.now = min(due)
            for node in self.nodes.values():
                self.put(node.handle_timer(self.now))
        raise AssertionError("the nodes do not come to rest")

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Deliver until something holds, or nothing is under way."""
        while self._waiting and not reached():
            self._deliver()

    def _deliver(self) -> None:
        message = self._waiting.pop(self._draw.randrange(len(self._waiting)))
        fate = self._draw.random()
        if fate < LOST:
            return
        if fate < LOST + REPEATED:
            self._waiting.append(message)
        node = self.nodes.get(message.receiver)
        if node is None:
            # It has no operators any more.
            return
        self.put(node.receive(message, self.now))
        node.check_invariants()


def assert_tables_of_one_place(
    nodes: Mapping[str, FitNode], epsilon: float, most_entries: int
) -> None:
    """Assert that cores have the tables that one place makes from the same parts."""
    parts = {name: node.part for name, node in nodes.items()}
    for names in trees_of(parts):
        root = nodes[names[0]]
        rates = dict(root.max_rates)
        made = plan_tree(parts, names, rates, epsilon, most_entries)
        assert root.snapshot().trials == made.trials
        for name in names:
            table, wanted = nodes[name].table, made.tables[name]
            assert table is not None
            assert nodes[name].terms == made.terms[name]
            assert np.array_equal(table.rates, wanted.rates)
            assert np.array_equal(table.scores, wanted.scores)
            assert np.array_equal(table.flows, wanted.flows)
            assert np.array_equal(table.choices, wanted.choices)
