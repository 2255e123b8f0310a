"""Which costs of an earlier process hold, and what is measured. No flow runs here."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from evenflow.control import stored
from evenflow.control.stored import FILE, OLDEST_SECONDS, _find, surveyor
from evenflow.flow import Flow
from evenflow.model.costs import Costs, QueryCost
from evenflow.spark.state.sealed import write_sealed

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.model.flow import FlowSpec
    from evenflow.spark.run import Run

COST = QueryCost(own=3e-6, certainty=0.9)
A, B = "SELECT id FROM s", "SELECT id FROM s WHERE id > 3"


def spec(**queries: str) -> FlowSpec:
    flow = Flow("given")
    flow.source("s", data=[(1,)], schema="id BIGINT")
    for name, sql in queries.items():
        flow.sql(name, sql)
    return flow.spec()


def keep(state: Path, of: FlowSpec, *measured: str, age: float = 10.0) -> Costs:
    """Keep what a calibration would have found, which had no time for some queries."""
    costs = Costs(
        queries=dict.fromkeys(measured, COST),
        measured_at=time.time() - age,
        hashes={query.name: query.operator.hash for query in of.queries},
    )
    write_sealed(state / FILE, costs.as_json())
    return costs


def find(state: Path, of: FlowSpec) -> Costs:
    return _find(cast("Run", None), of, state, lambda _: None)


def test_costs_of_the_same_queries_hold_although_some_were_not_measured(tmp_path: Path) -> None:
    kept = keep(tmp_path, spec(a=A, b=B), "a")
    found = find(tmp_path, spec(a=A, b=B))
    assert found == kept
    assert found.of_query("b").certainty == 0.0
    assert find(tmp_path, spec(a=A)) == kept


def test_the_cost_of_a_query_that_has_changed_does_not_hold(tmp_path: Path) -> None:
    keep(tmp_path, spec(a=A, b=A), "a", "b")
    found = find(tmp_path, spec(a=A, b=B))
    assert found.queries == {"a": COST}
    assert found.of_query("b").certainty == 0.0


def test_old_costs_are_better_than_none_if_nothing_can_be_measured(tmp_path: Path) -> None:
    kept = keep(tmp_path, spec(a=A), "a", age=OLDEST_SECONDS + 60)
    assert find(tmp_path, spec(a=A)).queries == kept.queries
    assert find(tmp_path / "none", spec(a=A)) == Costs()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was measured, each time; nothing is, really."""
    asked: list[list[str]] = []

    def calibrated(_: object, of: FlowSpec, __: object) -> Costs:
        names = [query.name for query in of.queries]
        asked.append(names)
        return Costs(queries=dict.fromkeys(names, COST), measured_at=time.time())

    monkeypatch.setattr(stored, "_calibrated", calibrated)
    return asked


def generated() -> Flow:
    flow = Flow("made")
    flow.source("s", "constant", {"rate": 10})
    return flow


def run_of(**queries: Any) -> Run:
    context = SimpleNamespace(defaultParallelism=2)
    session = SimpleNamespace(sparkContext=context)
    return cast("Run", SimpleNamespace(session=session, queries=queries))


def test_queries_that_were_subscribed_at_run_time_are_measured_too(
    tmp_path: Path, measured: list[list[str]]
) -> None:
    flow = generated()
    query = flow.sql("b", A)
    survey = surveyor(flow.spec(), tmp_path, lambda _: None)
    assert survey(run_of(b=query)).costs.queries == {"b": COST}
    later = generated().sql("a", B)
    assert set(survey(run_of(b=query, a=later)).costs.queries) == {"a", "b"}
    # What is known already is not measured again: a restart must not take a minute.
    assert measured == [["b"], ["a"]]
    assert set(survey(run_of(b=query, a=later)).costs.queries) == {"a", "b"}
    changed = generated().sql("a", A)
    survey(run_of(b=query, a=changed))
    assert measured == [["b"], ["a"], ["a"]]


def test_what_is_measured_later_leaves_what_was_learned(
    tmp_path: Path, measured: list[list[str]]
) -> None:
    """Corrections of units are relative to the first costs."""
    flow = generated()
    query = flow.sql("b", A)
    survey = surveyor(flow.spec(), tmp_path, lambda _: None)
    first = survey(run_of(b=query)).costs
    second = survey(run_of(b=query, a=generated().sql("a", B))).costs
    assert second.measured_at == first.measured_at
    assert measured == [["b"], ["a"]]


def test_costs_that_are_too_old_are_all_measured_again(
    tmp_path: Path, measured: list[list[str]]
) -> None:
    flow = generated()
    for name, sql in (("a", A), ("b", B)):
        flow.sql(name, sql)
    keep(tmp_path, flow.spec(), "a", "b", age=OLDEST_SECONDS + 60)
    found = find(tmp_path, flow.spec())
    assert measured == [["a", "b"]]
    assert found.age(time.time()) == pytest.approx(0.0, abs=60)


def test_a_table_that_is_handed_in_does_not_stand_in_the_way(
    tmp_path: Path, measured: list[list[str]]
) -> None:
    flow = generated()
    flow.table("t", data=[(1,)], schema="id BIGINT")
    flow.sql("a", "SELECT s.id FROM s JOIN t ON s.id = t.id")
    # Nor does a source that nobody reads.
    flow.source("given", data=[(1,)], schema="id BIGINT")
    assert find(tmp_path, flow.spec()).queries == {"a": COST}
    assert measured == [["a"]]


def test_a_query_subscribed_at_run_time_may_read_what_is_handed_in(
    tmp_path: Path, measured: list[list[str]]
) -> None:
    flow = generated()
    query = flow.sql("b", A)
    flow.source("given", data=[(1,)], schema="id BIGINT")
    survey = surveyor(flow.spec(), tmp_path, lambda _: None)
    survey(run_of(b=query, a=flow.sql("a", "SELECT id FROM given")))
    assert measured == []


def test_costs_that_cannot_be_kept_stop_no_flow(tmp_path: Path, measured: list[list[str]]) -> None:
    flow = generated()
    flow.sql("a", A)
    (tmp_path / FILE).mkdir()  # as it is where it cannot be written
    assert find(tmp_path, flow.spec()).queries == {"a": COST}
    assert measured == [["a"]]


@pytest.mark.parametrize("asked", [True, False])
def test_measuring_ends_quietly_if_the_flow_is_asked_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    def interrupted(*_: object) -> Costs:
        raise KeyboardInterrupt

    monkeypatch.setattr(stored, "_calibrated", interrupted)
    flow, stop = generated(), threading.Event()
    flow.sql("a", A)
    run = cast("Run", SimpleNamespace(stop_asked=stop))
    if asked:
        stop.set()
        assert _find(run, flow.spec(), tmp_path, lambda _: None) == Costs()
        return
    with pytest.raises(KeyboardInterrupt):
        _find(run, flow.spec(), tmp_path, lambda _: None)


def test_a_query_that_joins_a_family_shares_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was measured alone, with the row in its own part."""
    counted = "SELECT id, count(*) AS c FROM s WHERE id > {} GROUP BY id, window(ts, '1 second')"
    costs = {"a": QueryCost(row=4e-6, own=1e-6), "b": QueryCost(own=6e-6)}

    def calibrated(_: object, of: FlowSpec, __: object) -> Costs:
        return Costs(queries={q.name: costs[q.name] for q in of.queries}, measured_at=time.time())

    monkeypatch.setattr(stored, "_calibrated", calibrated)
    flow = generated()
    flow.sql("a", counted.format(1))
    find(tmp_path, flow.spec())
    flow.sql("b", counted.format(2))
    found = find(tmp_path, flow.spec()).queries
    assert (found["a"].row, found["a"].own) == pytest.approx((4e-6, 1e-6))
    assert (found["b"].row, found["b"].own) == pytest.approx((4e-6, 2e-6))
