"""Planning of shedding: how long plans take to make and to choose, next to what the paper measured.

Figures 10, 11, 13, 14 and 15 and table 3 of Staying FIT as data and pictures; and `exact` against a
cold `lp`: a new program and model from the network for each plan, ties and check
included. `solver_us` is the least that a solver can take: a new model of HiGHS, filled and run,
with nothing around it. The paper prints few times, of 1.8 GHz machines of 2007 with GLPK; only how
times grow can be compared. Its trace of TCP packets is replaced by a histogram that falls as its
plot does.
"""

from __future__ import annotations

import random
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from evenflow.bench.shed_case import Case, case_of
from evenflow.bench.shed_networks import (
    COSTS,
    SUBSTITUTES,
    by_inputs,
    fan_out,
    figure_9,
    highest_rates,
)
from evenflow.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evenflow.bench.choice import Only
    from evenflow.shed.linear.standard import StandardForm
    from evenflow.shed.network import Network
    from evenflow.shed.workload import Workload

OPTIONS = ("case",)
NEEDS_JAVA = False
CASES = (
    "select",
    "figure-10",
    "figure-11",
    "figure-13",
    "figure-14",
    "figure-15",
    "table-3",
)

MOST_MICROSECONDS = 100.0
LEAST_SPEEDUP = 50.0
MOST_SECONDS_4_INPUTS = 2.0
MOST_SECONDS_8_INPUTS = 10.0


def run(quick: bool, on_step: Callable[[str], None], only: Only) -> dict[str, Any]:
    """Measure, and return cases and the figures that bars are set for.

    Raises:
        UserError: There is no such case.
    """
    if only.case is not None and only.case not in CASES:
        raise UserError(f"case {only.case[:40]!r} is not known", f"use {', '.join(CASES)}")
    made = {
        "select": _selecting,
        "figure-10": _figure_10,
        "figure-11": _figure_11,
        "figure-13": _figure_13,
        "figure-14": _figure_14,
        "figure-15": _figure_15,
        "table-3": _table_3,
    }
    cases: list[Case] = []
    for name in CASES:
        if only.case in (None, name):
            on_step(name)
            cases += made[name](quick)
    shown = {case["figure"] for case in cases}
    stands_for = {figure: text for figure, text in SUBSTITUTES.items() if figure in shown}
    return {
        "bench": "shed-planning",
        "substitutes": stands_for,
        "cases": cases,
        **_summary(cases),
    }


def verdict(result: dict[str, Any]) -> list[str]:
    """Say whether the bars are met."""
    return [*_verdict_of_exact(result), *_verdict_of_tables(result)]


def pictures(result: dict[str, Any], form: str = "svg") -> dict[str, bytes]:
    """Return the figures that were measured, as files by name."""
    from evenflow.bench.shed_picture import draw_all

    return draw_all(result["cases"], form)


def _verdict_of_exact(result: dict[str, Any]) -> list[str]:
    median = result["exact_microseconds_median"]
    if median is None:
        return []
    speedup = result["exact_speedup_over_cold_lp"]
    bare = result["exact_speedup_over_bare_solver"]
    quick = "within" if median < MOST_MICROSECONDS else "above"
    fast = "at least" if speedup >= LEAST_SPEEDUP else "below"
    return [
        f"exact: {median:.0f} microseconds, {quick} the bar of {MOST_MICROSECONDS:.0f}",
        f"exact: {speedup:.0f} times faster than a cold lp, {fast} the bar of {LEAST_SPEEDUP:.0f}",
        f"exact: {bare:.0f} times faster than HiGHS alone, cold",
    ]


def _verdict_of_tables(result: dict[str, Any]) -> list[str]:
    told = []
    for inputs, most in ((4, MOST_SECONDS_4_INPUTS), (8, MOST_SECONDS_8_INPUTS)):
        seconds = result[f"cfit_{inputs}_inputs_seconds"]
        if seconds is None:
            continue
        bound, worst = (result[f"cfit_{inputs}_inputs_{key}"] for key in ("bound", "worst_error"))
        promise = "promising nothing" if bound >= 1 else f"promising to miss at most {bound:.2g}"
        kept = "" if worst <= bound else ", MORE than promised"
        told.append(
            f"c-fit, {inputs} inputs: {seconds:.2f} s, {'within' if seconds < most else 'above'} "
            f"the bar of {most:g}; {promise}, {worst:.3f} missed at worst{kept}"
        )
    return told


def _summary(cases: list[Case]) -> dict[str, Any]:
    """Return the worst network's figures, because a bar holds for all of them."""
    from evenflow.bench.shed_fit import summary as fit_summary

    chosen = [case for case in cases if case["figure"] == "select"]
    return {
        "exact_microseconds_median": max((c["exact_us"] for c in chosen), default=None),
        "lp_microseconds_median": max((c["lp_us"] for c in chosen), default=None),
        "exact_speedup_over_cold_lp": min((c["speedup"] for c in chosen), default=None),
        "exact_speedup_over_bare_solver": min(
            (c["solver_us"] / c["exact_us"] for c in chosen), default=None
        ),
        **fit_summary(cases),
    }


# --- choosing -------------------------------------------------------------------------------------


def _selecting(quick: bool) -> list[Case]:
    from evenflow.shed.linear.exact import Exact
    from evenflow.shed.linear.lp import Lp

    cases = []
    for name, network in _paper_networks():
        rates = list(_rates(network, 2_000 if quick else 20_000))
        planner, lp = Exact(network), Lp(network)
        for each in rates[:200]:
            planner.plan(each)
        exact = _median_us(planner.plan, rates)
        warm = _median_us(lp.plan, rates[:500])
        cold = _median_us(partial(_cold, network), rates[:300])
        cases.append(
            case_of(
                "select",
                name,
                method="exact",
                # A median says nothing of rates that no basis serves; this does.
                lp_calls=sum(each.misses for each in planner.fragments),
                exact_us=exact,
                lp_us=warm,
                cold_lp_us=cold,
                solver_us=_median_us(partial(_bare, lp.fragments[0].form), rates[:300]),
                speedup=cold / exact,
            )
        )
    return cases


def _cold(network: Network, rates: dict[str, float]) -> None:
    from evenflow.shed.linear.lp import Lp

    Lp(network).plan(rates)


def _bare(form: StandardForm, rates: dict[str, float]) -> None:
    """Fill a new model and run it, once, for the value alone."""
    from evenflow.shed.linear.highs import HighsSolver
    from evenflow.shed.linear.optimum import first_bounds

    solver = HighsSolver(form.matrix[:, : form.flows], 1.0)
    bounds = first_bounds(form, form.program.rate_vector(rates))
    solver.maximise(form.objectives[0][: form.flows], bounds)


def _paper_networks() -> Iterator[tuple[str, Network]]:
    for name in COSTS:
        yield f"figure 9 ({name})", figure_9(name)
    for inputs in (4, 8):
        yield f"{inputs} inputs", by_inputs(inputs)
    yield "fan-out 8", fan_out(8)


def _rates(network: Network, count: int) -> Iterator[dict[str, float]]:
    draw = random.Random(1)  # the same rates every time
    highest = highest_rates(network)
    for _ in range(count):
        yield {name: draw.random() * most for name, most in highest.items()}


def _median_us(plan: Callable[[dict[str, float]], object], rates: list[dict[str, float]]) -> float:
    times = []
    for each in rates:
        begun = time.perf_counter()
        plan(each)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


# --- planning ahead -------------------------------------------------------------------------------


def _planned(
    network: Network, method: str, epsilon: float, workload: Workload | None = None
) -> Case:
    from evenflow.shed.plan_index import EVERYWHERE, make_index

    highest = highest_rates(network, 1.5)
    begun = time.perf_counter()
    index = make_index(network, method, highest, epsilon, workload or EVERYWHERE)
    seconds = time.perf_counter() - begun
    told = index.report()
    return {
        "method": method,
        "seconds": seconds,
        "plans": told["plans"],
        "lp_calls": told["lp_calls"],
        "error": told.get("expected_error", told.get("error")),
    }


def _exponential(network: Network, mean: float) -> Workload:
    from evenflow.shed.workload import Exponential, Workload

    return Workload({name: Exponential(mean) for name in network.inputs})


def _figure_10(quick: bool) -> list[Case]:  # noqa: ARG001  # takes seconds
    """Plan generation by load distribution: (a) solver and c-fit at 5 %, (b) solver-w."""
    from evenflow.bench.shed_fit import figure_10a

    cases = []
    for name in COSTS:
        network = figure_9(name)
        cases.append(case_of("10", name, x=name, **_planned(network, "solver", 0.05)))
        weighted = _planned(network, "solver-w", 0.0144, _exponential(network, 5.0))
        cases.append(
            case_of("10b", name, x=name, paper="expected error 0.0144 on average", **weighted)
        )
    return cases + figure_10a()


def _figure_11(quick: bool) -> list[Case]:
    """`solver-w` by provision: (a) means of rates, (c) costs under one workload."""
    from evenflow.shed.workload import Histogram, Workload

    cases = []
    for name in ("b",) if quick else tuple(COSTS):
        network = figure_9(name)
        for mean in (1.0, 3.0, 5.0, 7.0):
            made = _planned(network, "solver-w", 0.0144, _exponential(network, mean))
            cases.append(case_of("11a", name, x=mean, **made))
    trace = Histogram(tuple((2.0 * i, 0.6**i) for i in range(12)))
    for factor in (1.0, 0.875, 0.75, 0.625, 0.5):
        network = figure_9("b", factor)
        workload = Workload(dict.fromkeys(network.inputs, trace))
        made = _planned(network, "solver-w", 0.0144, workload)
        cases.append(case_of("11c", "b", x=64 * factor, **made))
    return cases


def _figure_13(quick: bool) -> list[Case]:
    """Plan generation by fan-out, at 1 %."""
    from evenflow.bench.shed_fit import figure_13

    solved = [
        case_of("13", f"fan-out {1 << k}", x=1 << k, **_planned(fan_out(1 << k), "solver", 0.01))
        for k in range(1, 5 if quick else 7)
    ]
    return solved + figure_13(quick)


def _figure_14(quick: bool) -> list[Case]:
    """By inputs: (a) how the expected error falls with the regions made, (b) c-fit by epsilon."""
    from evenflow.bench.shed_fit import figure_14b
    from evenflow.shed.region.region_index import WeightedSolverMethod

    cases = []
    sizes = (256, 1_024, 4_096) if quick else (256, 1_024, 4_096, 16_384, 65_536)
    for inputs in (2, 4, 8):
        network = by_inputs(inputs)
        for size in sizes:
            begun = time.perf_counter()
            index = WeightedSolverMethod().plan(
                network, highest_rates(network, 1.5), 1e-4, _exponential(network, 3.0), size
            )
            seconds, told = time.perf_counter() - begun, index.report()
            figures = {"plans": told["plans"], "lp_calls": told["lp_calls"]}
            error = told["expected_error"]
            cases.append(
                case_of(
                    "14a",
                    f"{inputs} inputs",
                    method="solver-w",
                    x=size,
                    seconds=seconds,
                    error=error,
                    **figures,
                )
            )
    return cases + figure_14b(quick)


def _figure_15(quick: bool) -> list[Case]:  # noqa: ARG001  # takes seconds
    from evenflow.bench.shed_fit import figure_15

    return figure_15()


def _table_3(quick: bool) -> list[Case]:
    from evenflow.bench.shed_fit import table_3

    return table_3(quick)
