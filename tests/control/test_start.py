"""A surge in the first batches: with what an earlier process learned, or with costs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.control.simulated import CORES, SIX_RATE, SimFlow, loop_for, six, six_costs, surge

from evenflow.control.config import LoopConfig
from evenflow.control.kept import Kept
from evenflow.control.loop import ControlLoop
from evenflow.control.stored import Survey, keep_corrections, read_corrections
from evenflow.model.costs import Costs, QueryCost

if TYPE_CHECKING:
    from pathlib import Path

WRONG = 3.0
"""By how much costs are too high as they were calibrated."""
KEPT = {"u1": Kept(queries=tuple("abcdef"), fixed=0.2, factor=0.4)}
SURVEY = Survey(costs=six_costs(), cores=2.0)


def started(begin: float, times: float = 10.0) -> SimFlow:
    """Return a flow that has only begun, with a surge."""
    flow = six(surge(SIX_RATE, times, begin, 60.0))
    flow.units[0].started = flow.now
    return flow


def loop_with(kept: dict[str, Kept] | None, costs: Costs) -> ControlLoop:
    return ControlLoop(LoopConfig(cores=CORES), costs, kept=kept)


def learned(wrong: float) -> dict[str, Kept]:
    loop = loop_for(six_costs(wrong))
    six(lambda _: SIX_RATE).run(loop, 20.0)
    return loop.kept()


def test_what_was_learned_outlives_the_process() -> None:
    kept = learned(WRONG)
    assert kept["u1"].factor == pytest.approx(1 / WRONG, rel=0.15)
    assert kept["u1"].queries == tuple("abcdef")
    flow = started(0.1)
    flow.run(loop_with(kept, six_costs(WRONG)), 30.0)
    # The second batch has all of it; the third has gates, which are those of a loop that knows.
    assert flow.history[0][0] <= 1.5
    assert 0.3 < flow.decisions[0].facts["factors"]["u1"] < 0.4
    calm = started(0.1, times=1.0)
    calm.run(loop_with(kept, six_costs(WRONG)), 30.0)
    assert calm.history == []


def test_what_was_learned_with_other_queries_does_not_hold() -> None:
    kept = {"u1": Kept(queries=tuple("abc"), fixed=0.15, factor=1.0)}
    flow = started(0.1)
    flow.run(loop_with(kept, six_costs()), 3.5)
    assert flow.history == []


def test_nothing_is_kept_of_a_unit_that_has_not_warmed_up() -> None:
    loop = loop_for()
    six(lambda _: SIX_RATE).run(loop, 1.5)
    assert loop.kept() == {}


def test_batches_that_are_far_too_long_are_acted_on_before_the_unit_is_warm() -> None:
    flow = started(0.1)
    flow.run(loop_with(None, six_costs()), 8.0)
    # The second batch begins after a second, and is too long three seconds later.
    assert 4.0 < flow.history[0][0] <= 4.5


def test_they_are_not_if_costs_were_only_guessed() -> None:
    """Guesses say that this does not fit, while the first batches are slow for being cold."""
    flow = started(0.1, times=1.0)
    (unit,) = flow.units
    unit.rate = lambda _: 100 * SIX_RATE
    unit.costs = {name: QueryCost(own=each.alone / 100) for name, each in unit.costs.items()}
    loop = loop_with(None, Costs())
    cold_between(flow, loop, 0.0, 2.0, reading=40e-6)
    flow.run(loop, 60.0)
    assert flow.worst_delay(0) > 4.0
    assert flow.history == []


@pytest.mark.parametrize(("begin", "end"), [(0.0, 2.0), (2.0, 3.0)])
@pytest.mark.parametrize("known", [True, False])
def test_a_cold_batch_is_no_surge_however_long_it_takes(
    begin: float, end: float, known: bool
) -> None:
    kept = {"u1": Kept(queries=tuple("abcdef"), fixed=0.15, factor=1.0)}
    flow = started(0.1, times=1.0)
    loop = loop_with(kept if known else None, six_costs())
    cold_between(flow, loop, begin, end, reading=4000e-6)
    flow.run(loop, 60.0)
    assert flow.worst_delay(0) > 4.0
    assert flow.history == []


def cold_between(
    flow: SimFlow, loop: ControlLoop, begin: float, end: float, *, reading: float
) -> None:
    """Run a flow to a time; batches that begin after another one are slow."""
    (unit,) = flow.units
    usual = unit.reading
    flow.run(loop, begin)
    unit.reading = reading
    flow.run(loop, end - begin)
    unit.reading = usual


def test_corrections_are_read_as_they_were_kept(tmp_path: Path) -> None:
    assert read_corrections(tmp_path, SURVEY) == {}
    keep_corrections(tmp_path, SURVEY, KEPT)
    assert read_corrections(tmp_path, SURVEY) == KEPT


def test_corrections_of_other_costs_or_another_machine_are_not_taken(tmp_path: Path) -> None:
    keep_corrections(tmp_path, SURVEY, KEPT)
    assert read_corrections(tmp_path, Survey(costs=six_costs(), cores=4.0)) == {}
    assert read_corrections(tmp_path, Survey(costs=Costs(), cores=2.0)) == {}


def test_corrections_that_cannot_be_read_are_learned_anew(tmp_path: Path) -> None:
    keep_corrections(tmp_path, SURVEY, KEPT)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-40])
    assert read_corrections(tmp_path, SURVEY) == {}
