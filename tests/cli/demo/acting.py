"""A surge as if it had been played: forty seconds of arithmetic."""

from __future__ import annotations

from typing import Any

from evenflow.cli.demo import surge
from evenflow.cli.demo.report import Played
from evenflow.cli.demo.script import Moment, Rates, Script
from evenflow.cli.flow_file import read_flow
from evenflow.model.costs import Costs, QueryCost

BEGAN = 1_794_956_400.0
SCRIPT = Script(calm=10.0, surge=20.0, after=10.0)
RATES = Rates(usual=1000, times=10)
OPENED = 33.0
SHED = {"research": 203_000, "theft": 150_000, "dashboard": 101_500}
"""Of 203,000 tuples that come from the beginning of the surge until gates are open."""
COSTS = Costs(
    reading={"readings": 2e-6},
    queries={
        "billing": QueryCost(own=4e-6),
        "outages": QueryCost(own=10e-6),
        "voltage": QueryCost(own=15e-6),
        "dashboard": QueryCost(own=50e-6),
        "forecast": QueryCost(own=60e-6),
        "theft": QueryCost(own=80e-6),
        "research": QueryCost(own=30e-6, row=10e-6),
    },
    measured_at=BEGAN,
)
QUERIES = read_flow(surge.FLOW).spec().queries
NAMES = [query.name for query in QUERIES]


def counts(shed: int) -> dict[str, Any]:
    return {
        "in": 230_000,
        "contributed": 230_000 - 20_500 - shed,
        "filtered": 20_000,
        "late": 0,
        "rejected": 0,
        "open": 500,
        "shed": {"gate": shed, "paused": 0, "cut": 0, "quarantined": 0},
    }


def decision(number: int, seconds: float, keep: dict[str, float], **changed: Any) -> dict[str, Any]:
    return {
        "decision": number,
        "at": BEGAN + seconds,
        "act": "open" if not keep else "shed" if number == 1 else "adjust",
        "keep": keep,
        "why": "10,000 rows/s arrive, 3.3 times what fits: research keeps 0%",
        "applied": True,
        **changed,
    }


SHUT = {"research": 0.0, "theft": 0.25, "dashboard": 0.5}
DECISIONS = [decision(1, 11.0, SHUT), decision(2, OPENED, {})]


def moment(seconds: float, **changed: Any) -> Moment:
    shut = 11.0 <= seconds < OPENED
    phase = SCRIPT.phase(seconds)
    rows = 10_000.0 if phase == "surge" else 1000.0
    age = 3.0 if phase == "surge" else 1.5
    given: dict[str, Any] = {
        "seconds": seconds,
        "phase": phase,
        "rows": rows,
        "fitting": 3000.0,
        "load": 0.9,
        "load_without_gates": rows / 3000.0,
        "keep": {name: SHUT.get(name, 1.0) if shut else 1.0 for name in NAMES},
        "ages": dict.fromkeys(NAMES, age),
        "answered": dict.fromkeys(NAMES, seconds - 0.5),
    }
    return Moment(**{**given, **changed})


def played(**changed: Any) -> Played:
    given: dict[str, Any] = {
        "queries": QUERIES,
        "costs": COSTS,
        "script": SCRIPT,
        "rates": RATES,
        "began": BEGAN,
        "moments": [moment(float(second)) for second in range(1, 41)],
        "decisions": DECISIONS,
        "status": {
            "queries": {name: {"counts": counts(SHED.get(name, 0))} for name in NAMES},
            "control": {"state": "open", "reason": None},
        },
    }
    return Played(**{**given, **changed})
