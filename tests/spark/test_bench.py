"""The benchmarks at the smallest size, so that they cannot rot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evenflow.bench import change, gates, latency, soak
from evenflow.bench.surge.trial import Trial
from evenflow.bench.surge.trial import measure as measure_surge
from evenflow.model.costs import Costs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_changes_are_measured_and_answers_checked(spark: SparkSession) -> None:
    size = change.Size(
        rate=500, every=0.2, warm_seconds=0.2, steady_batches=2, rounds=1, quiet_seconds=0.1
    )
    case = change.measure(spark, 2, size)
    assert case["queries"] == 2
    # Five batches a second at most: nobody can see shorter gaps.
    assert 0.2 < case["gap_seconds_median"] <= case["gap_seconds_worst"]
    assert case["first_answer_seconds"] > 0
    assert case["steady_batch_seconds"] > 0


@pytest.mark.slow
def test_ages_are_measured_on_both_sides(spark: SparkSession) -> None:
    size = latency.Size(rate=500, every=0.2, warm_seconds=0.2, measured_seconds=1.5)
    (case,) = latency.measure(spark, "windowed", [2], size)
    assert (case["kind"], case["queries"]) == ("windowed", 2)
    assert 0 < case["p50"] <= case["p99"]
    assert 0 < case["plain_one_query_p50"] <= case["plain_one_query_p99"]


@pytest.mark.slow
def test_the_soak_changes_a_flow_and_looks_at_everything(spark: SparkSession) -> None:
    size = soak.Size(
        seconds=5.0, queries=7, rate=500, every=0.2, change_seconds=0.1, sample_seconds=0.5
    )
    samples: list[soak.Sample] = []
    soak.soak(spark, size, samples.append)
    last = samples[-1]
    assert last["changes"] >= 1
    assert last["driver_rss_mb"] > 50
    assert last["python_threads"] > 1
    assert last["state_files"] > 5


@pytest.mark.slow
def test_a_surge_is_shed_and_every_tuple_accounted_for(spark: SparkSession) -> None:
    trial = Trial(
        method="planned",
        times=10,
        capacity=400.0,
        optimum=5.0,
        lead_seconds=20.0,
        unloaded_seconds=2.0,
        surge_seconds=2.0,
        after_seconds=2.0,
        every=0.5,
        deadline=60.0,
    )
    case = measure_surge(spark, trial, Costs().as_json())
    assert (case["method"], case["surge"]) == ("planned", 10)
    assert case["counts_exact"]
    assert case["age_p50"] > 0
    assert 0 < case["value"] <= 15


@pytest.mark.slow
def test_what_open_gates_cost_is_measured(spark: SparkSession) -> None:
    size = gates.Size(rows=1_000, warm=1, measured=2, rounds=2)
    case = gates.measure(spark, "distinct-keys", 3, size)
    assert case["rounds"] == 1
    assert case["batch_seconds_with_gates"] > 0
    assert case["batch_seconds_without"] > 0
    assert -1 < case["overhead_least"] == case["overhead"] == case["overhead_most"]
