"""Rows that come in bursts, with batches without rows in between."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.simulated import SIX_RATE, bursts, loop_for, six
from tests.control.test_demand import FLOW, MODEL, batch, unit

from evenflow.control.demand import arrival_rate, demand


def test_a_batch_without_rows_tells_no_rate() -> None:
    told = batch(1, 500, spacing=5.0), batch(2, 0), batch(6, 500, spacing=4.0)
    assert arrival_rate(unit(*told)) == 100.0
    assert arrival_rate(unit(*told, batch(7, 0))) == 100.0
    # One that has begun, and whose rows are not known, has those of the time since the last burst.
    begun = batch(11, None, seconds=None, spacing=4.0)
    assert demand(unit(*told, batch(7, 0), under_way=begun), FLOW, MODEL, {}, 11.2).rate == 100.0


def test_how_many_bursts_a_batch_meets_is_chance() -> None:
    told = batch(1, 500, spacing=5.0), batch(2, 0), batch(6, 500, spacing=4.0), batch(7, 0)
    assert arrival_rate(unit(*told, batch(11, 1000, spacing=4.0))) == pytest.approx(2000 / 15)


def test_a_rate_fades_while_no_batch_begins() -> None:
    told = batch(1, 100), batch(2, 100)
    assert demand(unit(*told), FLOW, MODEL, {}, 4.0).rate == 100.0
    assert demand(unit(*told), FLOW, MODEL, {}, 5.0).rate == 50.0
    # While a batch ran none could begin, and what came meanwhile is not known yet.
    surge = batch(1, 100), batch(2, 1000, seconds=10.0)
    assert demand(unit(*surge), FLOW, MODEL, {}, 12.0).rate == 1000.0
    assert demand(unit(*surge), FLOW, MODEL, {}, 14.0).rate == 500.0


@pytest.mark.parametrize("period", [2.0, 3.0, 5.0])
@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("told", [{"tells": False}, {}, {"counts": True}])
def test_bursts_that_can_be_worked_off_in_time_are_not_shed(
    period: float, closes: bool, told: dict[str, Any]
) -> None:
    flow = six(bursts(SIX_RATE, period), deadline=10.0, closes=closes, **told)
    flow.run(loop_for(), 90.0)
    assert flow.history == []
    assert len(flow.delays) > 15
    assert flow.worst_delay(0) < 10.0


def test_bursts_that_are_too_large_for_their_deadline_are_shed() -> None:
    flow = six(bursts(4 * SIX_RATE, 5.0), deadline=10.0, closes=True)
    flow.run(loop_for(), 90.0)
    assert flow.gates
    assert flow.worst_delay(45) < 10.0
