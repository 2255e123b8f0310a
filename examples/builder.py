"""Queries written with the builder, run on the files in data/ and printed.

From the top of the checkout: .venv/bin/python examples/builder.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from evenflow import Flow, Sink, avg, col, count, sum_, when

DATA = Path(__file__).parent / "data"


def build(state: str) -> Flow:
    flow = Flow("builder", state=state)
    readings = flow.source(
        "readings",
        "json",
        {"path": str(DATA / "readings")},
        schema="id BIGINT, meter STRING, district STRING, ts TIMESTAMP, kwh DOUBLE",
        event_time="ts",
        watermark="10 minutes",
        id="id",
    )
    flow.table(
        "sites", "json", DATA / "sites", schema="meter STRING, kind STRING, limit_kwh DOUBLE"
    )

    hourly = readings.window("1 hour").by("district").agg(kwh=sum_("kwh"), readings=count("kwh"))
    hourly.query("hourly", sink=Sink("memory"))
    hourly.where(col("kwh") > 5).query("busy", sink=Sink("memory"), weight=3)

    size = when(col("kwh") < 0.5, "low").otherwise("high")
    classes = readings.select("ts", "kwh", size=size).window("1 hour").by("size")
    classes.agg(count(), mean_kwh=avg("kwh")).query("classes", sink=Sink("memory"))

    joined = readings.join("sites", on="meter")
    over = joined.where("kwh > limit_kwh / 4").select("meter", "kind", "ts", "kwh")
    over.query("over_limit", sink=Sink("memory"))
    return flow


def main() -> None:
    with tempfile.TemporaryDirectory() as state:
        flow = build(state)
        print(flow.explain())
        with flow.start(available_now=True) as run:
            run.wait()
            run.drain()
            for name in flow.graph.queries:
                print(f"\n{name}")
                for answer in run.answers(name).to_pylist():
                    print(f"  {answer}")


if __name__ == "__main__":
    main()
