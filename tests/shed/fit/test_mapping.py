"""Reverse mapping: demands of splits and merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.shed.fit.test_cut import network

from evenflow.shed.fit.cut import cut
from evenflow.shed.fit.mapping import (
    Key,
    count_share_vectors,
    head_flows,
    merge_tails,
    share_vectors,
)
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from evenflow.shed.program import Numbers


@pytest.mark.parametrize(("shares", "heads"), [(1, 2), (5, 2), (9, 2), (4, 3), (3, 4)])
def test_shares_meet_any_division_to_their_factor(shares: int, heads: int) -> None:
    vectors = share_vectors(shares, heads)
    assert len(vectors) == count_share_vectors(shares, heads)
    assert np.allclose(vectors.sum(axis=1), 1.0)
    draw = np.random.default_rng(heads)
    wanted = draw.dirichlet(np.full(heads, 0.5), 2000)
    wanted[:heads] = np.eye(heads)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = np.where(vectors[None] > 0.0, wanted[:, None] / vectors[None], np.inf)
    best = scales.min(axis=2).max(axis=1)
    assert best.min() >= shares / (shares + 1) - 1e-12


def test_a_split_takes_the_largest_demand() -> None:
    split = network("AB", {"q": "b", "r": "c"}, a=("A", "in"), b=("B", "a"), c=("B", "a"))
    part = cut(program_of(split))["A"]
    flows = head_flows(part, 2, {"B": np.array([[1.0, 3.0], [2.0, 0.5]])})
    assert flows.tolist() == [[6.0, 1.0, 3.0], [4.0, 2.0, 0.5]]


def test_a_union_divides_a_demand_by_shares() -> None:
    union = network("AB", {"q": "c"}, a=("A", "in1"), u=("A", "a", "in2"), c=("B", "u"))
    part = cut(program_of(union))["A"]
    (tail,) = merge_tails(part)
    chosen: dict[Key, Numbers] = {"B": np.array([[4.0]]), tail: np.array([[0.25, 0.75]])}
    gain = part.links[0].gain[0]
    flows = head_flows(part, 1, chosen)[0]
    assert sorted((flows * gain).tolist()) == [1.0, 3.0]
    assert flows @ gain == 4.0


def test_a_demand_that_nothing_feeds_cannot_be_met() -> None:
    union = network("AB", {"q": "c"}, a=("A", "in1"), c=("B", "a"))
    part = cut(program_of(union))["A"]
    part.links[0].gain[:] = 0.0
    assert head_flows(part, 2, {"B": np.array([[0.0], [1.0]])}).tolist() == [[0.0], [np.inf]]
