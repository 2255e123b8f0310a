"""`evenflow shed solve`, `evaluate`, `plan`, `select`. Planners are loaded when they are asked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.command import (
    AsFormat,
    AsJson,
    Format,
    Verbose,
    guarded,
    put,
    put_json,
    wants_json,
)
from evenflow.errors import NetworkError

if TYPE_CHECKING:
    from evenflow.shed.network import Network
    from evenflow.shed.plan import SheddingPlan

shed_app = typer.Typer(
    name="shed",
    help="Plan which tuples to drop when load does not fit: by network files, without Java.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

NetworkPath = Annotated[Path, typer.Argument(metavar="NETWORK", help="The network file.")]
Rates = Annotated[str, typer.Option(help="Tuples per second of all inputs, as in1=1,in2=0.5.")]


@shed_app.command()
@guarded
def solve(
    network: NetworkPath,
    rates: Rates,
    method: Annotated[str, typer.Option(help="lp, or uniform.")] = "lp",
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Find the gates that lose the least value at given rates."""
    from evenflow.cli.shed.assignment import assigned
    from evenflow.cli.shed.network_file import read_network
    from evenflow.shed.linear.lp import Lp

    file, given = read_network(network), assigned("rates", rates)
    if method not in ("lp", "uniform"):
        raise NetworkError(
            "method.unknown", f"method {method[:40]} is not known", (), "use lp or uniform"
        )
    with file.located():
        solver = Lp(file.network)
        plan = solver.plan(given) if method == "lp" else solver.uniform(given)
    _put_plan(file.network, plan, wants_json(as_json, format_), selected=False)


@shed_app.command()
@guarded
def evaluate(
    network: NetworkPath,
    rates: Rates,
    keep: Annotated[
        str, typer.Option(help="Fractions to keep, as in1=0.2,a1->b1=0.5; other gates are open.")
    ] = "",
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Say what given gates come to, also where a node stays overloaded."""
    from evenflow.cli.shed.assignment import assigned
    from evenflow.cli.shed.network_file import read_network
    from evenflow.cli.shed.text import outcome_text
    from evenflow.shed import evaluate as evaluation

    found = read_network(network).network
    outcome = evaluation.evaluate(found, assigned("rates", rates), assigned("keep", keep))
    report = _rounded(outcome.report())
    if wants_json(as_json, format_):
        put_json(report)
    else:
        put(outcome_text(found, report))


@shed_app.command()
@guarded
def plan(
    network: NetworkPath,
    max_: Annotated[str, typer.Option("--max", help="The greatest rates to plan for.")],
    out: Annotated[Path, typer.Option(help="Where the plans are written.")],
    epsilon: Annotated[float, typer.Option(help="Share of the value that may be missed.")] = 0.05,
    method: Annotated[str, typer.Option(help="exact, solver, solver-w, c-fit or d-fit.")] = "exact",
    plot: Annotated[
        Path | None, typer.Option(help="A picture of the plans, as .svg or .png; for two inputs.")
    ] = None,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Make plans ahead for all rates, and write them to a file."""
    from evenflow.cli.shed.assignment import assigned
    from evenflow.cli.shed.network_file import read_network
    from evenflow.cli.shed.output_file import check_apart, check_picture, replace_files
    from evenflow.cli.shed.plan_file import plans_text
    from evenflow.cli.shed.plot import check_inputs, picture_at
    from evenflow.cli.shed.text import index_text
    from evenflow.shed.plan_index import make_index

    check_apart(NETWORK=network, **{"--out": out, "--plot": plot})
    file, max_rates = read_network(network), assigned("max", max_)
    if plot is not None:
        check_inputs(file.network.inputs, max_rates)
        check_picture(plot)
    begun = time.perf_counter()
    with file.located():
        index = make_index(file.network, method, max_rates, epsilon, file.workload)
    seconds = time.perf_counter() - begun
    # Before a picture is drawn, which may meet plans that planning has not.
    told = index.report()
    with file.located():
        # Floors that cannot be met at the greatest rates are told now, not when those are there.
        index.select(index.max_rates)
    files = {out: plans_text(index)}
    if plot is not None:
        files[plot] = picture_at(plot, index)
    replace_files(files)
    report = {"method": method, "plans": told["plans"], "seconds": seconds, **told}
    if wants_json(as_json, format_):
        put_json(_rounded(report))
    else:
        put(index_text(index, report))
        put(f"written to {' and '.join(map(str, files))}")


@shed_app.command()
@guarded
def select(
    plans: Annotated[Path, typer.Argument(metavar="PLANS", help="A file of plans.")],
    rates: Rates,
    as_json: AsJson = False,
    format_: AsFormat = Format.TEXT,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Choose the plan for given rates from a file of plans."""
    from evenflow.cli.shed.assignment import assigned
    from evenflow.cli.shed.plan_file import read_plans

    index = read_plans(plans)
    chosen = index.select(assigned("rates", rates))
    _put_plan(index.network, chosen, wants_json(as_json, format_), selected=True)


def _put_plan(network: Network, plan: SheddingPlan, as_data: bool, *, selected: bool) -> None:
    from evenflow.cli.shed.text import plan_text
    from evenflow.shed.gate import network_gates

    report = _rounded(plan.report())
    windows = [gate.name for gate in network_gates(network) if gate.windows]
    if windows:
        report["windows"] = windows
    if selected:
        report["plan"] = plan.plan
    if as_data:
        put_json(report)
    else:
        put((f"{_chosen(plan)}\n\n" if selected else "") + plan_text(network, report))


def _chosen(plan: SheddingPlan) -> str:
    if plan.plan is not None:
        return f"plan {plan.plan}"
    needed = any(kept < 1 for kept in plan.keep.values())
    if not needed:
        return "no plan needed"
    made = plan.method == "exact"
    return "a plan that was made now: no basis that is kept serves" if made else "no entry needed"


def _rounded(value: Any) -> Any:
    """Return data without digits that are rounding."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return value
