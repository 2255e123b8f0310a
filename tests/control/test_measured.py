"""A measured flow as a network file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.control.test_demand import FLOW, MODEL

from evenflow.control.measured import RateTrace, measured_network
from evenflow.control.model import FamilyModel, FlowModel, Part, UnitModel
from evenflow.control.plans import Plans
from evenflow.control.view import View
from evenflow.shed.network_data import network_from_data

if TYPE_CHECKING:
    from collections.abc import Mapping


def part(query: str, own: float, weight: float = 1.0) -> Part:
    return Part(query=query, own=own, weight=weight, floor=0.0, never=False)


def family(*parts: Part, row: float = 0.0) -> FamilyModel:
    return FamilyModel(row=row, parts=parts, name=parts[0].query)


def unit_of(*families: FamilyModel, name: str = "u1", source: str = "s") -> UnitModel:
    return replace(MODEL, id=name, sources=(source,), reading=1e-6, families=families)


def view_of(model: FlowModel, rates: Mapping[str, float]) -> View:
    return View(
        at=0.0,
        model=model,
        rates=rates,
        pressure=rates,
        spans=dict.fromkeys(rates, 1.0),
        capacity=1.2,
        unsqueezed=1.8,
        gates={},
    )


def test_inputs_that_are_silent_now_are_in_it_with_the_rates_they_had() -> None:
    model = FlowModel(
        units=(
            unit_of(family(part("a", 1e-5))),
            unit_of(family(part("b", 1e-5)), name="u2", source="t"),
        ),
        cores=2.0,
    )
    trace = RateTrace()
    trace.see(view_of(model, {"u1": 100.0, "u2": 50.0}))
    made = measured_network(view_of(model, {"u1": 100.0, "u2": 0.0}), trace, {})
    assert made is not None
    assert set(network_from_data(made).inputs) == set(made["rates"]) == {"s", "t"}
    # Not what was left of it while answers were late.
    assert made["nodes"]["process"]["capacity"] == 1.8


def test_inputs_that_never_brought_anything_are_not_in_it() -> None:
    model = replace(FLOW, units=(MODEL, unit_of(family(part("b", 1e-5)), name="u2", source="t")))
    trace = RateTrace()
    trace.see(view_of(model, {"u1": 100.0, "u2": 0.0}))
    made = measured_network(view_of(model, {"u1": 100.0, "u2": 0.0}), trace, {})
    assert made is not None
    assert set(network_from_data(made).inputs) == set(made["rates"]) == {"s"}


def test_a_query_of_several_parts_weighs_what_it_weighs_once() -> None:
    """Part a of a UNION ALL costs as much as b, in two parts, and brings less."""
    model = FlowModel(
        units=(
            unit_of(
                family(part("a", 1e-5)),
                family(part("a", 1e-5)),
                family(part("b", 2e-5, weight=1.5)),
            ),
        ),
        cores=2.0,
    )
    choice = Plans().choose(model, {"u1": 1e5}, 2.1)
    assert choice.keep == pytest.approx({"a": 0.0, "b": 1.0}, abs=0.01)


def test_parts_of_a_query_share_their_fraction_in_plans() -> None:
    """With a gate for each of them the cheap one would be open, and the query keep nothing."""
    model = FlowModel(
        units=(
            unit_of(
                family(part("a", 1e-6, weight=3.0), row=1e-6),
                family(part("a", 3e-5, weight=3.0), part("c", 1e-6, weight=0.1), row=1e-6),
                family(part("b", 3.1e-5)),
            ),
        ),
        cores=2.0,
    )
    choice = Plans().choose(model, {"u1": 1e5}, 2.0)
    assert model.load({"u1": 1e5}, choice.keep) <= 2.0
    assert choice.keep["a"] > 0.5
    assert choice.keep["b"] == pytest.approx(0.0, abs=0.01)
