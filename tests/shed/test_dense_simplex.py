"""The second solver, on programs whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.shed.dense_simplex import NotProvedError, greatest

NONE = np.zeros((0, 2))


def test_an_optimum_at_a_corner() -> None:
    most = np.array([[1.0, 2.0], [3.0, 1.0]])
    assert greatest(np.ones(2), most, np.ones(2), NONE, np.zeros(0)) == pytest.approx(0.6)


def test_equations_and_least_values_are_kept() -> None:
    most, equal = np.array([[-1.0, 0.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])
    value = np.array([0.0, 1.0])
    found = greatest(value, most, np.array([-0.25]), equal, np.array([1.0, 2.0]))
    assert found == pytest.approx(0.75)
    assert greatest(value, most, np.array([-2.0]), equal, np.array([1.0, 2.0])) is None


def test_a_value_without_bound_is_no_answer() -> None:
    with pytest.raises(NotProvedError):
        greatest(np.ones(2), np.array([[1.0, -1.0]]), np.ones(1), NONE, np.zeros(0))


def test_bland_s_rule_ends_where_the_steepest_column_goes_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beale's example; with and without steps by the steepest column first."""
    rows = np.array([[0.25, -60, -1 / 25, 9], [0.5, -90, -1 / 50, 3], [0, 0, 1.0, 0]])
    value = np.array([0.75, -150, 1 / 50, -6])
    for steep in (0, 300):
        monkeypatch.setattr("tests.shed.dense_simplex.STEEP", steep)
        found = greatest(value, rows, np.array([0, 0, 1.0]), np.zeros((0, 4)), np.zeros(0))
        assert found == pytest.approx(0.05)
