"""Which costs of an earlier process hold. No flow runs here: data is handed in, so none is read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from evenflow.control.stored import FILE, OLDEST_SECONDS, _find
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
