"""The figures of feasible input tables, on small networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.shed.fit.exchange.test_node import with_operator
from tests.shed.fit.test_merge_inputs import chains

from evenflow.bench.shed_tables import (
    entries_after_change,
    planning,
    table_sizes,
    worst_error,
)
from evenflow.errors import InternalError
from evenflow.shed.fit.central import Chosen

NETWORK = chains((0.064, 0.032), (0.032, 0.064))


def test_planning_tells_its_bound_and_keeps_it() -> None:
    case, index = planning(NETWORK, 0.1)
    assert case["entries"] < 60
    assert case["paper_entries"] == 46
    seen = worst_error(index, 50)
    assert -1e-9 <= seen["worst_error"] <= case["bound"]


def test_plans_that_do_not_fit_are_not_counted_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    _, index = planning(NETWORK, 0.1)
    right = index.select

    def too_much(rates: np.ndarray) -> Chosen:
        chosen = right(rates)
        return replace(chosen, flows=1.05 * chosen.flows)

    monkeypatch.setattr(index, "select", too_much)
    with pytest.raises(InternalError):
        worst_error(index, 50)


def test_tables_shrink_with_epsilon() -> None:
    """Figure 15 (a). A lighter load makes tables larger only where largest rates are fixed."""
    sizes = [case["entries"] for case in table_sizes({"b": NETWORK}, (0.02, 0.05, 0.1))]
    assert sizes == sorted(sizes, reverse=True)


def test_a_larger_change_needs_more_entries_and_a_larger_tolerance_fewer() -> None:
    """Figure 15 (b): the selectivity of an operator of the child's parent stays, its own falls."""
    small = with_operator(NETWORK, "b1", cost=0.0315)
    large = with_operator(NETWORK, "b1", cost=0.02)
    few, many = (
        [case["share"] for case in entries_after_change(NETWORK, changed, "B", (0.01, 0.1, 0.3))]
        for changed in (small, large)
    )
    assert few == sorted(few, reverse=True)
    assert many == sorted(many, reverse=True)
    assert all(a <= b for a, b in zip(few, many, strict=True))


def test_nothing_is_sent_when_nothing_changes() -> None:
    same = replace(NETWORK)
    assert [c["sent"] for c in entries_after_change(NETWORK, same, "B", (0.0, 0.1))] == [0, 0]
