"""The benchmark: what is run in which process, and whether the bars are met."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from evenflow.bench.choice import Only
from evenflow.bench.own_process import results_of
from evenflow.bench.surge.capacity import Effort
from evenflow.bench.surge.figures import TrueCosts, optimum
from evenflow.bench.surge.flow import WEIGHTS
from evenflow.bench.surge.trial import METHODS, Trial
from evenflow.errors import UserError
from evenflow.spark.compile.delay import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

OPTIONS = ("case",)
_CHILD = "evenflow.bench.surge.child"
SURGES = (3, 10)
BAR_SURGE = 10
_REACTION_INTERVALS, _TIMES_UNLOADED, _OF_OPTIMUM, _OF_UNIFORM, _OPEN_INTERVALS = 5, 3, 0.9, 2, 5
FULL = Trial(method="none", times=10, capacity=1.0, optimum=0.0)
QUICK = replace(
    FULL, lead_seconds=13.0, unloaded_seconds=5.0, surge_seconds=12.0, after_seconds=5.0
)
FULL_EFFORT = Effort(batches=6, every=FULL.every)
QUICK_EFFORT = Effort(warm=3, batches=2, every=QUICK.every, rounds=1, both=False)


def run(*, quick: bool, on_step: Callable[[str], None], only: Only | None = None) -> dict[str, Any]:
    """Run all cases and return the report.

    Raises:
        UserError: There is no such case.
    """
    only = only or Only()
    methods = [each for each in METHODS if only.case in (None, each)]
    if not methods:
        raise UserError("there is no such case", f"cases: {', '.join(METHODS)}")
    on_step("surge: saturated, for the capacity and the true costs")
    cases, capacities = [], []
    for found in _quickly(methods) if quick else _one_by_one(methods, on_step):
        if "method" in found:
            on_step(f"surge: {_case_told(found)}")
            cases.append(found)
        else:
            costs = TrueCosts(**found["true"])
            on_step(f"surge: {_told(costs)}")
            capacities.append(round(costs.capacity, 1))
    cases.sort(key=lambda case: (case["surge"], METHODS.index(case["method"])))
    return {"bench": "surge", "capacities": capacities, "cases": cases}


def _one_by_one(methods: Sequence[str], on_step: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Yield true costs and the cases of trials, all in processes of their own.

    Costs are measured again at the end: a machine that is shared changes its speed.
    """
    (known,) = results_of(_CHILD, {"effort": asdict(FULL_EFFORT)})
    yield known
    costs, environment = TrueCosts(**known["true"]), {BLOCKS: repr(known["blocks"])}
    for times in SURGES:
        best = optimum(costs, WEIGHTS, times, FULL.every)
        for method in methods:
            on_step(f"surge: {method} at {times} times the capacity")
            trial = replace(FULL, method=method, times=times, capacity=costs.capacity, optimum=best)
            task = {"trial": asdict(trial), "costs": known["calibrated"]}
            yield from results_of(_CHILD, task, environment=environment)
    on_step("surge: saturated again, to see whether the machine has kept its speed")
    yield from results_of(_CHILD, {"effort": asdict(FULL_EFFORT)}, environment=environment)


def _quickly(methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield true costs and the cases of trials in one process.

    `none` is the last: its batches take too long to wait for.
    """
    trials = [asdict(replace(QUICK, method=method)) for method in reversed(methods)]
    return results_of(_CHILD, {"effort": asdict(QUICK_EFFORT), "trials": trials})


def _told(costs: TrueCosts) -> str:
    own = ", ".join(f"{name} {cost * 1e6:.1f}" for name, cost in costs.own.items())
    return (
        f"capacity {costs.capacity:,.0f} rows/s, {costs.fixed:.2f} s per batch, "
        f"{costs.reading * 1e6:.1f} us per tuple for reading; {own}"
    )


def _case_told(case: dict[str, Any]) -> str:
    return (
        f"{case['method']} at {case['surge']} times: value {case['value']} of {case['optimum']}, "
        f"age {case['age_p50']} s at p50, {case['age_p99_after_reaction']} s at p99 after "
        f"{case['reaction_seconds']} s"
    )


def verdict(report: dict[str, Any]) -> list[str]:
    """Return lines that say whether the bars are met."""
    cases = {(case["method"], case["surge"]): case for case in report["cases"]}
    planned, uniform = cases.get(("planned", BAR_SURGE)), cases.get(("uniform", BAR_SURGE))
    lines = [
        f"{method} at {times} times: counts are not exact"
        for (method, times), case in cases.items()
        if not case["counts_exact"]
    ]
    if len(report.get("capacities", ())) > 1:
        before, after = report["capacities"]
        change = f"{before:,.0f} rows/s before, {after:,.0f} after ({after / before - 1:+.0%})"
        lines.append(f"capacity {change}: the optimum is that of the costs before")
    return lines if planned is None else lines + _bars(planned, uniform)


def _bars(planned: dict[str, Any], uniform: dict[str, Any] | None) -> list[str]:
    unloaded = planned["age_p99_unloaded"] or 0.0
    lines = [
        _bar("reaction, seconds", planned["reaction_seconds"], most=_REACTION_INTERVALS),
        _bar(
            "age at p99 after it",
            planned["age_p99_after_reaction"],
            most=_TIMES_UNLOADED * unloaded,
        ),
        _bar("share of the optimum", planned["share_of_optimum"], least=_OF_OPTIMUM),
        _bar(
            "intervals until gates are open",
            planned["gates_open_after_intervals"],
            most=_OPEN_INTERVALS,
        ),
    ]
    if uniform is not None and uniform["value"]:
        times = planned["value"] / uniform["value"]
        lines.insert(3, _bar("value, for uniform", times, least=_OF_UNIFORM))
    return lines


def _bar(
    what: str, value: float | None, *, most: float | None = None, least: float | None = None
) -> str:
    met = (
        value is not None and (most is None or value <= most) and (least is None or value >= least)
    )
    bar = f"at most {most:.3g}" if most is not None else f"at least {least:.3g}"
    shown = "none" if value is None else f"{value:.3g}"
    return f"planned at {BAR_SURGE} times: {what} {shown}; bar {bar}: {'met' if met else 'missed'}"
