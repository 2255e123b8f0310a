"""The search for the least loss at which tables fit."""

from __future__ import annotations

import pytest

from evenflow.errors import NetworkError
from evenflow.shed.fit.coarseness import Trial, next_trial


def search(epsilon: float, fits_from: float) -> tuple[float, list[Trial]]:
    trials: list[Trial] = []
    while (loss := next_trial(epsilon, tuple(trials))) not in {t.loss for t in trials if t.fits}:
        trials.append(Trial(loss=loss, fits=loss >= fits_from))
        assert len(trials) < 40
    return loss, trials


def test_what_fits_at_once_is_taken() -> None:
    assert search(0.1, 0.05) == (0.1, [Trial(loss=0.1, fits=True)])


@pytest.mark.parametrize("fits_from", [0.11, 0.3, 0.9, 3.0, 20.0])
def test_the_loss_found_is_close_to_the_least(fits_from: float) -> None:
    loss, trials = search(0.1, fits_from)
    assert fits_from <= loss <= 1.08 * fits_from
    assert len(trials) < 20


def test_without_any_loss_a_little_is_taken() -> None:
    assert 0.0 < next_trial(0.0, ()) < 0.001


def test_a_search_without_end_is_refused() -> None:
    with pytest.raises(NetworkError) as caught:
        search(0.1, 1e9)
    assert caught.value.code == "method.unsupported"
