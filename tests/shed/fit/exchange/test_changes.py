"""What becomes of plans when networks change: moved operators, and changes within a tolerance.

`make test` tries 40 random trees of each kind, and 400 of which operators move; `make shed-test`
1,000 and 10,000.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.shed.fit.exchange.wire import Wire, assert_tables_of_one_place
from tests.shed.fit.small_trees import (
    can_be_cut,
    changed_tree,
    optimum,
    rates_around,
    small_tree,
    value_of,
    with_lower_input,
    with_operators,
)
from tests.shed.fit.test_cut import network as network_of
from tests.shed.fit.test_merge_inputs import chains

from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.exchange.change import change_of
from evenflow.shed.fit.exchange.distributed import (
    DistributedIndex,
    d_fit,
    nodes_for,
    planned_trees,
    settle,
)
from evenflow.shed.fit.exchange.entries import Entries
from evenflow.shed.fit.exchange.messages import Receipt, TableNotice
from evenflow.shed.fit.tree import trees_of
from evenflow.shed.linear.exact import Exact
from evenflow.shed.network import Network, Node, Operator, Query
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from evenflow.shed.fit.exchange.node import FitNode
    from evenflow.shed.fit.part import Part
    from evenflow.shed.program import Numbers

TREES = int(os.environ.get("EVENFLOW_CHANGED_TREES", "40"))
EPSILON, MOST = 0.3, 400


class Changing:
    """Cores of a network that changes, with a wire that loses nothing, or one that does."""

    def __init__(self, network: Network, most: Numbers, tolerance: float, seed: int | None) -> None:
        self.network = network
        self._most = most
        self._tolerance = tolerance
        self.nodes = self._cores()
        self._idle: dict[str, FitNode] = {}
        self._wire = None if seed is None else Wire(self.nodes, seed)
        if self._wire:
            self._wire.start()
        else:
            settle(self.nodes, [e for node in self.nodes.values() for e in node.start(0.0)])

    def change(self, network: Network, order: random.Random) -> None:
        """Tell the nodes, one after another; those without operators are left alone."""
        self.network = network
        parts = cut(program_of(network), "d-fit")
        cores = self._cores() | self._idle
        for name in order.sample(sorted(parts), len(parts)):
            node = self.nodes.setdefault(name, cores[name])
            effects = node.change(parts[name], 0.0)
            if self._wire:
                self._wire.put(effects)
            else:
                settle(self.nodes, effects)
        for name in self.nodes.keys() - parts.keys():
            self._idle[name] = self.nodes.pop(name)

    def rest(self) -> None:
        if self._wire:
            self._wire.run()
        # What came before its receiver had heard of the change was not answered.
        while any(node.next_deadline() is not None for node in self.nodes.values()):
            for node in self.nodes.values():
                settle(self.nodes, node.handle_timer(node.next_deadline() or 0.0))

    def _cores(self) -> dict[str, FitNode]:
        return nodes_for(
            program_of(self.network),
            self._most,
            EPSILON,
            most_entries=MOST,
            tolerance=self._tolerance,
        )


def links_to_root(parts: dict[str, Part]) -> int:
    """Return the most links between a leaf and its root."""
    depth: dict[str, int] = {}
    for name, part in parts.items():
        depth[name] = 0 if part.parent is None else depth[part.parent] + 1
    return max(depth.values())


def assert_promise(changing: Changing, tolerance: float, rates: Numbers, told: object) -> None:
    """Assert that plans fit and lose no more than is said of a tolerance."""
    program, exact = program_of(changing.network), Exact(changing.network)
    index = DistributedIndex(program, changing._most, planned_trees(changing.nodes))
    links = links_to_root(index.parts)
    kept = index.kept * ((1 - tolerance) / (1 + tolerance)) ** links
    for rate in rates:
        value = value_of(program, index.select(rate), rate)
        wanted = optimum(exact, program, np.minimum(rate, changing._most))
        assert value >= kept * wanted * (1 - 1e-6) - 1e-9, (told, rate)


def trees(kind: int, number: int = TREES) -> list[int]:
    """Return seeds of trees of several nodes; every third has an input at a lower node too."""
    able = (seed for seed in count(10_000 * kind) if len(cut_nodes(seed)) > 1)
    return list(islice(able, number))


def tree(seed: int) -> Network:
    network = small_tree(seed)
    return with_lower_input(network) if seed % 3 == 0 else network


def cut_nodes(seed: int) -> set[str]:
    network = tree(seed)
    return {each.node for each in network.operators.values()} if can_be_cut(network) else set()


@pytest.mark.slow
@pytest.mark.parametrize("lossy", [False, True], ids=["in-process", "lossy"])
def test_plans_after_changes_keep_what_is_said_of_a_tolerance(lossy: bool) -> None:
    for seed in trees(1 + lossy):
        draw = random.Random(seed)
        tolerance = draw.choice([0.05, 0.1, 0.2])
        network = tree(seed)
        rates = rates_around(program_of(network), seed, 12)
        changing = Changing(network, rates.max(axis=0), tolerance, seed if lossy else None)
        changing.rest()
        for _ in range(draw.randint(1, 3)):
            changing.change(changed_tree(changing.network, draw), draw)
            if draw.random() < 0.5:
                changing.rest()
        changing.rest()
        assert_promise(changing, tolerance, rates, (seed, tolerance))


def moved_thrice(seed: int) -> int:
    """Move operators of a tree three times; return how many of these moved some."""
    moves = 0
    draw = random.Random(seed)
    network = tree(seed)
    most = rates_around(program_of(network), seed, 6).max(axis=0)
    changing = Changing(network, most, 0.0, seed)
    if seed % 2:
        changing.rest()
    for _ in range(3):
        following = changed_tree(changing.network, draw, moving=0.8)
        moves += any(
            each.node != changing.network.operators[name].node
            for name, each in following.operators.items()
        )
        changing.change(following, draw)
    changing.rest()
    assert_tables_of_one_place(changing.nodes, EPSILON, MOST)
    return moves


@pytest.mark.slow
def test_moved_operators_end_in_the_tables_of_one_place_whatever_becomes_of_messages() -> None:
    assert sum(map(moved_thrice, trees(3, 10 * TREES))) > TREES / 2


def test_what_was_too_large_before_a_change_is_tried_again_if_its_survey_is_the_same() -> None:
    assert moved_thrice(34617) > 0


def in_a_row(where: str) -> Network:
    return network_of("AB", {"q": "o3"}, o1=("A", "x"), o2=(where, "o1"), o3=("B", "o2"))


@pytest.mark.parametrize("order", ["AB", "BA"])
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_an_operator_moves_to_the_next_node_and_back(order: str, tolerance: float) -> None:
    program = program_of(in_a_row("A"))
    nodes = nodes_for(program, np.array([10.0]), 0.1, tolerance=tolerance)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    for where, named in (("B", "o1->o2"), ("A", "o2->o3")):
        parts = cut(program_of(in_a_row(where)))
        for name in order:
            settle(nodes, nodes[name].change(parts[name], 1.0))
            nodes[name].check_invariants()
        assert nodes["B"].part.dimensions == (named,)
        if tolerance == 0.0:
            assert_tables_of_one_place(nodes, 0.1, 100_000)
        index = DistributedIndex(
            program_of(in_a_row(where)), np.array([10.0]), planned_trees(nodes)
        )
        whole = d_fit(program_of(in_a_row(where)), np.array([10.0]), 0.1)
        for rate in (0.7, 1.3, 9.0):
            flow = index.select(np.array([rate]))
            assert flow >= 0.9 / 1.1 * whole.select(np.array([rate])) - 1e-12


def test_there_is_no_table_while_neighbours_speak_of_other_dimensions() -> None:
    nodes = nodes_for(program_of(in_a_row("A")), np.array([10.0]), 0.1)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    parts = cut(program_of(in_a_row("B")))
    settle(nodes, nodes["A"].change(parts["A"], 1.0))
    assert nodes["A"].table is None
    settle(nodes, nodes["B"].change(parts["B"], 1.0))
    assert nodes["A"].table is not None


def test_a_node_that_loses_all_operators_leaves_its_children_to_its_parent() -> None:
    def row(where: str) -> Network:
        return network_of("ABC", {"q": "o3"}, o1=("A", "x"), o2=(where, "o1"), o3=("C", "o2"))

    changing = Changing(row("B"), np.array([5.0]), 0.0, seed=1)
    changing.rest()
    changing.change(row("A"), random.Random(1))
    changing.rest()
    assert sorted(changing.nodes) == ["A", "C"]
    assert changing.nodes["C"].part.parent == "A"
    assert_tables_of_one_place(changing.nodes, EPSILON, MOST)


def test_another_node_can_become_the_root() -> None:
    def row(where: str) -> Network:
        return network_of("ABC", {"q": "o3"}, o1=(where, "x"), o2=("B", "o1"), o3=("C", "o2"))

    changing = Changing(row("A"), np.array([5.0]), 0.0, seed=1)
    changing.rest()
    changing.change(row("B"), random.Random(1))
    changing.rest()
    assert [names[0] for names in trees_of({n: e.part for n, e in changing.nodes.items()})] == ["B"]
    assert_tables_of_one_place(changing.nodes, EPSILON, MOST)


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_change_places(seed: int) -> None:
    """What a node still had to tell its parent it does not tell its child."""

    def row(upper: str, lower: str) -> Network:
        return network_of("AB", {"q": "o2"}, o1=(upper, "x"), o2=(lower, "o1"))

    changing = Changing(row("A", "B"), np.array([5.0]), 0.0, seed=seed)
    changing.rest()
    dearer = replace(changing.network.operators["o2"], cost=2.0)
    changing.change(with_operators(changing.network, {"o2": dearer}), random.Random(seed))
    changing.change(row("B", "A"), random.Random(seed))
    changing.rest()
    assert changing.nodes["A"].part.parent == "B"
    assert_tables_of_one_place(changing.nodes, EPSILON, MOST)


@pytest.mark.parametrize("seed", range(20))
def test_a_node_that_is_new_becomes_the_root_and_counts_from_one(seed: int) -> None:
    """Tables made under terms of the old root, which have the same number, are none of its."""

    def chains(where: str) -> Network:
        operators: dict[str, tuple[str, ...]] = {}
        for i in range(3):
            operators |= {f"a{i}": (where, f"x{i}"), f"b{i}": ("B", f"a{i}")}
            operators[f"c{i}"] = ("C", f"b{i}")
        network = network_of("ABCD", {f"q{i}": f"c{i}" for i in range(3)}, **operators)
        # The less alike inputs are, the more entries a table needs.
        dear = {"a0": replace(network.operators["a0"], cost=10.0)}
        return with_operators(network, dear) if where == "A" else network

    most = np.array([5.0, 4.0, 3.0])
    changing = Changing(chains("A"), most, 0.0, seed=seed)
    wire, below = changing._wire, changing.nodes["B"]
    assert wire
    # A table was too large, and terms that make it smaller have not come yet.
    wire.run_until(lambda: below.below == {"C": None})
    changing.change(chains("D"), random.Random(seed))
    changing.rest()
    assert len(changing.nodes["D"].snapshot().trials) == 1
    assert sorted(changing.nodes) == ["B", "C", "D"]
    assert_tables_of_one_place(changing.nodes, EPSILON, MOST)


def test_a_late_receipt_while_there_is_no_table_is_not_the_last_word() -> None:
    nodes = nodes_for(program_of(in_a_row("A")), np.array([10.0]), 0.1)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    a, b = nodes["A"], nodes["B"]
    leaf = b.part

    def posted(share: float) -> TableNotice:
        network = in_a_row("A")
        other = {"o3": replace(network.operators["o3"], cost=share)}
        part = cut(program_of(with_operators(network, other)))["B"]
        sent = [e.message for e in b.change(part, 1.0) if isinstance(e.message, TableNotice)]
        return sent[-1]

    def receipt_of(notice: TableNotice) -> Receipt:
        sent = [e.message for e in a.receive(notice, 1.0) if isinstance(e.message, Receipt)]
        return sent[-1]

    late = receipt_of(posted(1.1))
    b.receive(late, 1.0)
    b.receive(receipt_of(posted(1.2)), 1.0)
    waiting = posted(1.3)
    assert waiting.base not in (0, late.version)
    b.change(cut(program_of(in_a_row("B")))["B"], 1.0)
    assert b.table is None
    b.receive(late, 1.0)
    b.check_invariants()
    b.receive(receipt_of(waiting), 1.0)
    b.check_invariants()
    settle(nodes, a.change(cut(program_of(in_a_row("B")))["A"], 1.0))
    while any(node.next_deadline() is not None for node in nodes.values()):
        for node in nodes.values():
            settle(nodes, node.handle_timer(node.next_deadline() or 0.0))
    assert leaf != b.part
    assert_tables_of_one_place(nodes, 0.1, 100_000)


@pytest.mark.parametrize("tolerance", [0.1, 0.2])
def test_a_strain_that_grows_by_less_than_the_tolerance_leaves_no_rates_without_a_plan(
    tolerance: float,
) -> None:
    """With terms for the strain before, the leaf would exclude all entries but 0."""

    def row(cost: float) -> Network:
        return Network(
            nodes={"A": Node(capacity=1.0), "B": Node(capacity=1.0)},
            operators={
                "a": Operator(node="A", inputs=("x",), cost=0.5),
                "b": Operator(node="B", inputs=("a",), cost=cost),
            },
            queries={"q": Query(output="b")},
        )

    most = np.array([4.0])
    nodes = nodes_for(program_of(row(1.0)), most, 0.05, tolerance=tolerance)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    after = program_of(row(1.09))
    settle(nodes, nodes["B"].change(cut(after)["B"], 1.0))
    index = DistributedIndex(after, most, planned_trees(nodes))
    for rate in (0.92, 0.95, 1.0, 1.2, 4.0):
        flow = index.select(np.array([rate]))[0]
        assert flow >= 0.95 * (1 - tolerance) / (1 + tolerance) / 1.09


@pytest.mark.parametrize("most", [30, 100])
@pytest.mark.parametrize("tolerance", [0.05, 0.2])
def test_a_tolerance_does_not_make_the_first_tables_coarser(most: int, tolerance: float) -> None:
    """They are made of whole tables: what a parent had under finer terms is not in the way."""
    program, rates = program_of(chains((1, 2), (2, 3), (3, 4))), np.full(3, 2.0)
    nodes = nodes_for(program, rates, 0.05, most_entries=most, tolerance=tolerance)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    assert_tables_of_one_place(nodes, 0.05, most)


def test_what_parents_have_kept_does_not_make_tables_coarser_for_good() -> None:
    """Many changes within a tolerance: tables stay as fine as those of a new planning, or so."""
    network, draw = chains((1, 2), (2, 3)), random.Random(3)
    rates, most = np.full(2, 2.0), 60
    nodes = nodes_for(program_of(network), rates, 0.05, most_entries=most, tolerance=0.1)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    for step in range(30):
        name = draw.choice(sorted(network.operators))
        cost = network.operators[name].cost * draw.uniform(0.93, 1.07)
        changed = replace(network.operators[name], cost=cost)
        network = with_operators(network, {name: changed})
        parts = cut(program_of(network))
        for node in nodes:
            settle(nodes, nodes[node].change(parts[node], float(step)))
        assert len(planned_trees(nodes)) == 1
    fresh = d_fit(program_of(network), rates, 0.05, most_entries=most)
    kept = DistributedIndex(program_of(network), rates, planned_trees(nodes)).kept
    assert kept >= fresh.kept - 0.1


def test_a_change_beyond_the_tolerance_sends_part_of_a_table_too() -> None:
    """Figure 15 (b): new terms hold for all nodes, but entries that are still right stay."""
    network = chains((0.064, 0.032), (0.032, 0.064))
    rates = np.full(2, 1000.0)
    nodes = nodes_for(program_of(network), rates, 0.05, tolerance=0.2)
    settle(nodes, [effect for node in nodes.values() for effect in node.start(0.0)])
    before, terms = nodes["B"].entries_sent, nodes["B"].terms
    slower = replace(network.operators["b1"], cost=0.045)
    changed = program_of(with_operators(network, {"b1": slower}))
    settle(nodes, nodes["B"].change(cut(changed)["B"], 1.0))
    table = nodes["B"].table
    assert table is not None
    assert nodes["B"].terms != terms
    assert 0 < nodes["B"].entries_sent - before < 0.4 * len(table)


@pytest.mark.parametrize("cost", [0.9, 0.97, 1.05])
def test_a_leaf_with_an_input_of_its_own_is_not_overloaded_after_a_change(cost: float) -> None:
    """It scales its input down to an entry: a parent must not ask for rates that have none."""
    tolerance, most = 0.2, np.full(2, 4.0)

    def network(cost: float) -> Network:
        made = network_of("AB", {"q": "b", "r": "c"}, a=("A", "x"), b=("B", "a"), c=("B", "y"))
        made = replace(made, queries={**made.queries, "q": Query(output="b", weight=1.5)})
        return with_operators(made, {"b": replace(made.operators["b"], cost=cost)})

    changing = Changing(network(1.0), most, tolerance, None)
    changing.change(network(cost), random.Random(1))
    changing.rest()
    rates = np.array([[4.0, 4.0], [1.0, 4.0], [4.0, 0.3], [0.9, 0.8], [3.0, 0.7]])
    assert_promise(changing, tolerance, rates, cost)


def test_an_entry_with_lower_ceilings_does_not_stand_for_another() -> None:
    """The parent could exclude it, and rates that need the other would find nothing."""
    part = cut(program_of(chains((1, 2))))["B"]
    before = Entries(np.array([[0.3]]), np.array([0.3]), np.array([[0.4]]))
    after = Entries(np.array([[0.31]]), np.array([0.31]), np.array([[0.45]]))
    assert change_of(part, before, after, 0.2).sent == after
    higher = Entries(before.rates, before.scores, after.ceilings)
    assert len(change_of(part, higher, after, 0.2).sent) == 0
