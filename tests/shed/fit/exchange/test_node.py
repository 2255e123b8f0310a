"""Cores on a wire: what comes late, twice or not at all, and what a change sends."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from tests.shed.fit.exchange.wire import Wire, assert_tables_of_one_place
from tests.shed.fit.small_trees import can_be_cut, rates_around, small_tree
from tests.shed.fit.test_merge_inputs import chains
from tests.shed.networks import figure_1

from evenflow.errors import ConfigError, InternalError
from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.exchange.change import change_of
from evenflow.shed.fit.exchange.config import FitNodeConfig
from evenflow.shed.fit.exchange.distributed import nodes_for, settle
from evenflow.shed.fit.exchange.entries import Entries, entries_of
from evenflow.shed.fit.exchange.local_choice import LocalChoice
from evenflow.shed.fit.exchange.messages import (
    Message,
    Receipt,
    Send,
    SurveyNotice,
    TableNotice,
)
from evenflow.shed.fit.exchange.node import FitNode
from evenflow.shed.network import Network
from evenflow.shed.program import program_of

TREES = int(os.environ.get("EVENFLOW_WIRE_TREES", "200"))
EPSILON, MOST = 0.4, 300


def started(network: Network, tolerance: float = 0.0, epsilon: float = 0.1) -> dict[str, FitNode]:
    program = program_of(network)
    rates = np.full(len(program.inputs), 1000.0)
    nodes = nodes_for(program, rates, epsilon, most_entries=5000, tolerance=tolerance)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    return nodes


def survey_of_b(nodes: dict[str, FitNode]) -> SurveyNotice:
    part, survey = nodes["B"].part, nodes["B"].survey
    assert survey is not None
    return SurveyNotice(
        sender="B",
        receiver="A",
        version=1,
        dimensions=part.dimensions,
        survey=survey,
        revisions=(("B", 0),),
    )


def with_operator(network: Network, name: str, **changed: float) -> Network:
    operators = {**network.operators, name: replace(network.operators[name], **changed)}  # type: ignore[arg-type]
    return replace(network, operators=operators)


@pytest.mark.slow
def test_tables_are_those_of_one_place_whatever_becomes_of_messages() -> None:
    """200 random trees; parts change while messages of the first planning are still under way."""
    seeds = [seed for seed in range(2 * TREES) if can_be_cut(small_tree(seed))][:TREES]
    assert len(seeds) == TREES
    for seed in seeds:
        network = small_tree(seed)
        program = program_of(network)
        largest = rates_around(program, seed, 10).max(axis=0)
        nodes = nodes_for(program, largest, EPSILON, most_entries=MOST)
        wire = Wire(nodes, seed)
        wire.start()
        name = max(network.operators)
        changed = cut(program_of(with_operator(network, name, cost=1.25)))
        if seed % 2:
            wire.run()
        for node, part in changed.items():
            wire.put(nodes[node].change(part, wire.now))
        wire.run()
        assert_tables_of_one_place(nodes, EPSILON, MOST)


def test_a_receipt_ends_the_sending() -> None:
    nodes = started(figure_1())
    assert [node.next_deadline() for node in nodes.values()] == [None, None]
    assert all(node.handle_timer(99.0) == [] for node in nodes.values())


def test_a_notice_is_sent_again_until_it_is_answered() -> None:
    nodes = nodes_for(program_of(figure_1()), np.ones(2), 0.1)
    (first,) = nodes["B"].start(0.0)
    assert nodes["B"].handle_timer(0.5) == []
    assert nodes["B"].handle_timer(1.0) == [first]
    answer = nodes["A"].receive(first.message, 1.0)
    receipts = [effect for effect in answer if isinstance(effect.message, Receipt)]
    assert nodes["B"].receive(receipts[0].message, 1.0) == []
    assert nodes["B"].next_deadline() is None


def test_what_is_held_is_answered_and_changes_nothing() -> None:
    nodes = started(figure_1())
    before = nodes["A"].snapshot()
    late = survey_of_b(nodes)
    assert nodes["A"].receive(late, 1.0) == [
        Send(message=Receipt(sender="A", receiver="B", kind="survey", version=1))
    ]
    assert nodes["A"].snapshot() == before


def test_old_terms_and_tables_do_not_replace_new_ones() -> None:
    """They differ from what is held: a core that took them would plan for what no longer is."""
    nodes = nodes_for(program_of(figure_1()), np.ones(2), 0.1)
    seen: list[Message] = []
    wire = [effect for node in nodes.values() for effect in node.start(0.0)]
    while wire:
        message = wire.pop(0).message
        seen.append(message)
        wire += nodes[message.receiver].receive(message, 0.0)
    changed = cut(program_of(with_operator(figure_1(), "b1", cost=2.0)))
    settle(nodes, nodes["B"].change(changed["B"], 1.0))
    before = {name: node.snapshot() for name, node in nodes.items()}
    for message in seen:
        answered = nodes[message.receiver].receive(message, 2.0)
        assert all(isinstance(effect.message, Receipt) for effect in answered)
    assert {name: node.snapshot() for name, node in nodes.items()} == before


def test_messages_of_others_are_ignored() -> None:
    nodes = started(figure_1())
    stray = replace(survey_of_b(nodes), sender="C", version=9)
    assert nodes["A"].receive(stray, 1.0) == []
    assert nodes["A"].receive(replace(stray, sender="B", receiver="C"), 1.0) == []


def test_a_change_for_a_table_that_is_not_held_is_sent_whole() -> None:
    nodes = started(figure_1())
    part = cut(program_of(with_operator(figure_1(), "b1", cost=3.5)))["B"]
    effects = nodes["B"].change(part, 5.0)
    notices = [each.message for each in effects if isinstance(each.message, TableNotice)]
    assert notices[0].base > 0
    answer = Receipt(sender="A", receiver="B", kind="table", version=notices[0].base - 1)
    (again,) = nodes["B"].receive(answer, 5.0)
    assert isinstance(again.message, TableNotice)
    assert again.message.base == 0
    assert again.message.version > notices[0].version


def test_a_change_with_tolerance_sends_few_entries_and_keeps_its_promise() -> None:
    network = chains((0.064, 0.032), (0.032, 0.064))
    tolerance = 0.1
    nodes = started(network, tolerance)
    sent = nodes["B"].entries_sent
    changed = with_operator(network, "b1", cost=0.0345)
    settle(nodes, nodes["B"].change(cut(program_of(changed))["B"], 1.0))
    table, held = nodes["B"].table, nodes["A"].below["B"]
    assert table is not None
    assert held is not None
    assert nodes["B"].entries_sent - sent < 0.9 * len(table)
    for rates, score in zip(table.rates, table.scores, strict=True):
        below = np.all(held.rates <= rates * (1 + 1e-9), axis=1)
        assert held.scores[below].max() >= (1 - tolerance) * score
    settled, scores = nodes["B"].part.drops.settle(held.rates, nodes["B"].part.capacity)
    assert np.all(settled >= 0.0)
    assert np.all(np.abs(scores - held.scores) <= tolerance * scores + 1e-12)


def test_entries_that_are_sent_stand_for_others_that_are_missing() -> None:
    """Load moved, so that hardly an old entry fits: one of the new ones is enough for several."""
    network = chains((0.064, 0.032), (0.032, 0.064))
    moved = with_operator(with_operator(network, "a1", cost=0.040), "b1", cost=0.056)
    before, after = (started(each)["B"] for each in (network, moved))
    assert before.table is not None
    assert after.table is not None
    old, new = entries_of(before.table), entries_of(after.table)
    for tolerance, most in ((0.05, 0.6), (0.2, 0.15), (0.4, 0.08)):
        change = change_of(after.part, old, new, tolerance)
        assert len(change.sent) <= most * len(new)
        held = change.applied(old)
        for rates, score in zip(new.rates, new.scores, strict=True):
            below = np.all(held.rates <= rates * (1 + 1e-9), axis=1)
            assert held.scores[below].max() >= (1 - tolerance) * score
        # What is believed is what the child does with such rates, though its table has no entry.
        assert after.survey is not None
        choice = LocalChoice(after.part, after.survey, after.table)
        for rates, score in zip(change.sent.rates, change.sent.scores, strict=True):
            heads, _ = choice.choose(rates)
            assert heads == pytest.approx(rates)
            served, brought = after.part.drops.settle(heads[None], after.part.capacity)
            assert served[0] >= 0.0
            assert brought[0] == pytest.approx(score)


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@pytest.mark.parametrize("ceilings", [(None, 2.0), (2.0, None)])
def test_ceilings_come_and_go_with_a_change(
    tolerance: float, ceilings: tuple[float | None, float | None]
) -> None:
    """They do when other taps of the tree get a say, or lose it."""

    def entries(ceiling: float | None) -> Entries:
        above = None if ceiling is None else np.full((1, 1), ceiling)
        return Entries(np.ones((1, 1)), np.ones(1), above)

    part = started(chains((0.064, 0.032), (0.032, 0.064)))["B"].part
    before, after = map(entries, ceilings)
    assert change_of(part, before, after, tolerance).applied(before) == after


def test_a_node_with_children_sends_entries_of_its_table_only() -> None:
    """What it could do between them depends on its children, of whose entries they are made."""
    network = chains((0.064, 0.032), (0.032, 0.064))
    moved = with_operator(network, "a1", cost=0.040)
    before, after = (started(each)["A"] for each in (network, moved))
    assert before.table is not None
    assert after.table is not None
    old, new = entries_of(before.table), entries_of(after.table)
    for tolerance in (0.01, 0.03, 0.05, 0.2):
        change = change_of(after.part, old, new, tolerance)
        assert {row.tobytes() for row in change.sent.rates} <= {row.tobytes() for row in new.rates}
        held = change.applied(old)
        for rates, score in zip(new.rates, new.scores, strict=True):
            below = np.all(held.rates <= rates * (1 + 1e-9), axis=1)
            assert held.scores[below].max() >= (1 - tolerance) * score
    assert len(change.sent) < 0.6 * len(new)


def test_without_tolerance_a_change_ends_in_the_tables_of_one_place() -> None:
    nodes = started(figure_1())
    changed = cut(program_of(with_operator(figure_1(), "a1", selectivity=0.5)))
    settle(nodes, nodes["A"].change(changed["A"], 1.0))
    assert_tables_of_one_place(nodes, 0.1, 5000)


def test_a_moved_operator_changes_both_nodes() -> None:
    network = chains((0.064, 0.032), (0.032, 0.064))
    moved = with_operator(with_operator(network, "a1", cost=0.056), "b1", cost=0.040)
    nodes = started(network)
    parts = cut(program_of(moved))
    effects = [e for name, node in nodes.items() for e in node.change(parts[name], 1.0)]
    settle(nodes, effects)
    assert_tables_of_one_place(nodes, 0.1, 5000)


def test_a_part_of_another_node_is_refused() -> None:
    nodes = started(figure_1())
    with pytest.raises(InternalError):
        nodes["A"].change(nodes["B"].part, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 1.0},
        {"epsilon": -0.1},
        {"tolerance": 1.0},
        {"most_entries": 0},
        {"retry_after": 0},
    ],
)
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        FitNodeConfig(**{"epsilon": 0.1, **wrong})  # type: ignore[arg-type]
