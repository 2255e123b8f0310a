"""The point quadtree against looking at all entries."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.shed.fit.quadtree import BUCKET, PointQuadtree


@pytest.mark.parametrize("dimensions", [1, 2, 4, 8])
def test_the_best_entry_below_is_found(dimensions: int) -> None:
    draw = np.random.default_rng(dimensions)
    points = draw.integers(0, 12, (6 * BUCKET, dimensions)) / 4.0
    scores = np.round(points.sum(axis=1) + draw.random(len(points)), 2)
    tree = PointQuadtree(points, scores)
    for rates in draw.random((200, dimensions)) * 3.2:
        below = np.flatnonzero(np.all(points <= rates, axis=1))
        row = tree.best_below(rates)
        if len(below) == 0:
            assert row is None
        else:
            assert row is not None
            assert np.all(points[row] <= rates)
            assert scores[row] == scores[below].max()


def test_entries_that_repeat_do_not_make_it_deep() -> None:
    points = np.ones((50 * BUCKET, 2))
    tree = PointQuadtree(points, np.arange(len(points), dtype=float))
    assert tree.best_below(np.ones(2)) == len(points) - 1


def test_without_entries_nothing_is_found() -> None:
    assert PointQuadtree(np.zeros((0, 2)), np.zeros(0)).best_below(np.ones(2)) is None
