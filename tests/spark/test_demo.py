"""The second act of the demo, small: what it says is what the run has counted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import lit

from evenflow.cli.demo.report import surge_report
from evenflow.cli.demo.script import Rates, Script
from evenflow.cli.demo.surge import Machine, play
from evenflow.cli.demo.text import counts_text, sentences
from evenflow.cli.flow_file import read_flow
from evenflow.control.journal import read_decisions
from evenflow.model.costs import Costs, QueryCost
from evenflow.spark.compile.delay import delayed
from evenflow.spark.control_socket import ask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.cli.demo.script import Moment
    from evenflow.flow import Flow

SCRIPT = Script(calm=10.0, surge=60.0, after=10.0)
"""Far longer than it takes, where the machine has other things to do."""
SHUT_SECONDS = 5.0
DELAYS = {"billing": 20, "outages": 20, "theft": 3000}
"""Microseconds. Three queries, because a session of tests interprets them, and one of them so dear
that few tuples are a surge."""
FLOW = """
evenflow: 1
flow: surge
sources:
  readings:
    format: meters
    options: {{meters: 20, disorder: 0, start: '2026-01-05 07:45:00', rate: {rate}, surge: {times},
              surge_after: 10 seconds, surge_for: 60 seconds, partitions: {cores},
              max_rows_per_batch: {most}}}
    watermark: 500ms
queries:
  billing: {{floor: 1, weight: 2, deadline: 5 seconds, sql: "{billing}"}}
  outages: {{weight: 5, deadline: 5 seconds, sql: "{outages}"}}
  theft: {{weight: 1, sql: "{theft}"}}
"""
SQL = (
    "SELECT district, window(ts, '1 second') AS w, count(*) AS n FROM readings "
    "WHERE delay(id + {number}, {delay}, 1) GROUP BY district, window(ts, '1 second')"
)


class Watching:
    """Remembers what it was shown, and ends the flow when gates have been shut for a while."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.moments: list[Moment] = []
        self.decisions: list[Mapping[str, Any]] = []

    def moment(self, moment: Moment) -> None:
        self.moments.append(moment)
        shut = [each for each in self.moments if each.keep["theft"] < 1]
        if shut and moment.seconds - shut[0].seconds > SHUT_SECONDS:
            ask(self._flow.name, self._flow.state, {"ask": "stop"})

    def decision(self, decision: Mapping[str, Any]) -> None:
        self.decisions.append(decision)


def test_what_the_surge_says_is_what_the_run_counted(spark: SparkSession, tmp_path: Path) -> None:
    cores = spark.sparkContext.defaultParallelism
    # Several times what fits. The limit makes batches short that come before the loop is warm.
    rates = Rates(usual=25 * cores, times=60)
    queries = {
        name: SQL.format(number=number, delay=delay)
        for number, (name, delay) in enumerate(DELAYS.items())
    }
    file = tmp_path / "surge.yaml"
    options = {"rate": rates.usual, "times": rates.times, "cores": cores, "most": 750 * cores}
    file.write_text(FLOW.format(**options, **queries))
    costs = Costs(
        reading={"readings": 20e-6},
        queries={
            name: QueryCost(own=delay * 1e-6, certainty=1.0) for name, delay in DELAYS.items()
        },
    )
    flow = read_flow(file)
    watching = Watching(flow)
    delayed(lit(1), 1.0, 1.0)  # is timed once in a process: not while the meters send
    machine = Machine(costs=costs, cores=float(cores))
    played = play(spark, flow, machine, SCRIPT, rates, watching)
    report = surge_report(played)

    numbers = [each["decision"] for each in read_decisions(flow.state)]
    assert numbers
    assert [each["decision"] for each in watching.decisions] == numbers[: len(watching.decisions)]
    assert played.ended_early

    counted = {name: query["counts"] for name, query in played.status["queries"].items()}
    assert report["accounted"]
    assert len({counts["in"] for counts in counted.values()}) == 1
    for name, counts in counted.items():
        assert report["queries"][name]["counts"] == counts
        shed = sum(counts["shed"].values())
        assert (report["queries"][name]["kept_in_surge"] < 1) == (shed > 0)
    assert sum(counted["billing"]["shed"].values()) == 0
    assert sum(counted["theft"]["shed"].values()) > 0
    assert played.status["control"]["gates"]["theft"] < 1
    assert report["gates_open_after_seconds"] is None

    text = "\n".join(sentences(report))
    assert re.search(r"what was kept: theft [\d.]+%", text)
    assert "billing lost nothing, and may not" in text
    shown = next(line for line in counts_text(report).splitlines() if line.startswith("theft"))
    assert shown.split()[1] == f"{counted['theft']['in']:,}"
