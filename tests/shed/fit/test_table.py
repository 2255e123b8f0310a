"""Pruning against plain comparison."""

from __future__ import annotations

import numpy as np

from evenflow.shed.fit.table import Table, inside_triangle, without_useless


def table(rates: np.ndarray, scores: np.ndarray) -> Table:
    return Table(
        rates=rates,
        scores=scores,
        ceilings=None,
        flows=rates,
        choices=np.zeros((len(rates), 0), dtype=np.int64),
    )


def test_only_useless_entries_go() -> None:
    draw = np.random.default_rng(3)
    rates = draw.integers(0, 5, (900, 3)).astype(float)
    scores = draw.integers(0, 9, 900).astype(float)
    loads = draw.random(900)
    left = without_useless(table(rates, scores), loads)
    for point, score in zip(rates, scores, strict=True):
        below = np.all(left.rates <= point, axis=1)
        assert left.scores[below].max(initial=-1.0) >= score
    for row in range(len(left)):
        below = np.all(left.rates <= left.rates[row], axis=1) & (left.scores >= left.scores[row])
        assert np.flatnonzero(below).tolist() == [row]


def test_of_equal_entries_the_one_with_the_smallest_load_stays() -> None:
    made = Table(
        rates=np.ones((3, 1)),
        scores=np.array([2.0, 2.0, 1.0]),
        ceilings=None,
        flows=np.array([[1.0], [2.0], [3.0]]),
        choices=np.zeros((3, 0), dtype=np.int64),
    )
    assert without_useless(made, np.array([5.0, 4.0, 0.0])).flows.tolist() == [[2.0]]


def test_inside_is_where_no_node_is_strained_beyond_its_capacity() -> None:
    corners = np.array([[0.4, 0.4], [0.9, 0.0], [0.0, 0.9], [0.6, 0.6], [1.0, 0.0]])
    strains = np.array([[1.0, 1.0], [0.0, 2.0]])
    assert inside_triangle(corners, strains).tolist() == [True, True, False, False, False]
