"""A picture of plans for two inputs: which rates fit, and which plan is for which of the others."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from evenflow.errors import NetworkError
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.shed.plan_index import PlanIndex

STEPS = 120
"""Rates tried in each direction."""
POINTS = 400
"""Of a line."""
COLOURS = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#d0e0e3", "#fce5cd", "#ead1dc")
OPEN, NONE = "#ffffff", "#b7b7b7"
"""Where nothing is dropped, and where no plan fits."""


def check_inputs(inputs: tuple[str, ...]) -> None:
    """Refuse a picture of anything but two inputs.

    Raises:
        NetworkError: There are fewer or more.
    """
    if len(inputs) != 2:
        raise NetworkError(
            "plot.inputs",
            f"a picture has two inputs, the network {len(inputs)}",
            ("plot",),
        )


def draw(index: PlanIndex, form: str = "svg") -> bytes:
    """Return the picture, as SVG or PNG. The same index gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "evenflow", "font.size": 9}):
        figure = Figure(figsize=(6.4, 5.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _regions(axes, index)
        _boundary(axes, index)
        across, up = index.network.inputs
        axes.set_xlabel(f"{across}, tuples/s")
        axes.set_ylabel(f"{up}, tuples/s")
        axes.set_xlim(0, index.max_rates[across])
        axes.set_ylim(0, index.max_rates[up])
        told = index.report()
        missed = (
            f"missing at most {told['error']:.3g} of the value" if told.get("error") else "optimal"
        )
        axes.set_title(f"{index.method}: {told['plans']} plans, {missed}")
        axes.legend(loc="upper right", framealpha=0.9)
        drawn = io.BytesIO()
        figure.savefig(drawn, format=form, dpi=110, metadata=_no_date(form))
    return drawn.getvalue()


def _no_date(form: str) -> dict[str, Any]:
    return {"Date": None} if form == "svg" else {}


def _regions(axes: Any, index: PlanIndex) -> None:
    """Colour each rate by its plan; white where nothing is dropped, grey where nothing fits."""
    from matplotlib.colors import ListedColormap

    across, up = index.network.inputs
    wide, high = index.max_rates[across], index.max_rates[up]
    seen: dict[object, int] = {}
    cells = []
    for row in range(STEPS):
        rates = [
            {across: (column + 0.5) * wide / STEPS, up: (row + 0.5) * high / STEPS}
            for column in range(STEPS)
        ]
        cells.append([_colour(index, each, seen) for each in rates])
    if any(len(COLOURS) + 1 in row for row in cells):
        axes.plot([], [], "s", color=NONE, label="floors do not fit")
    axes.imshow(
        cells,
        origin="lower",
        extent=(0, wide, 0, high),
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap([OPEN, *COLOURS, NONE]),
        vmin=-0.5,
        vmax=len(COLOURS) + 1.5,
    )


def _colour(index: PlanIndex, rates: dict[str, float], seen: dict[object, int]) -> int:
    """Return the number of a colour; plans get theirs in the order in which they are seen."""
    try:
        plan = index.select(rates)
    except NetworkError:
        return len(COLOURS) + 1
    if all(kept >= 1 for kept in plan.keep.values()):
        return 0
    return 1 + seen.setdefault(plan.plan, len(seen)) % len(COLOURS)


def _boundary(axes: Any, index: PlanIndex) -> None:
    """Draw where each node is full, and in bold where the first of them is."""
    program = program_of(index.network)
    across, up = index.network.inputs
    wide, high = index.max_rates[across], index.max_rates[up]
    xs = [wide * step / POINTS for step in range(POINTS + 1)]
    lowest = [high] * len(xs)
    loads, capacities = program.unit_load.tolist(), program.capacity.tolist()
    for name, (by_x, by_y), capacity in zip(program.nodes, loads, capacities, strict=True):
        style = {"linewidth": 1, "linestyle": "--", "label": f"{name} is full"}
        if by_y > 0:
            ys = [(capacity - by_x * x) / by_y for x in xs]
            axes.plot(xs, ys, **style)
            lowest = [min(pair) for pair in zip(lowest, ys, strict=True)]
        elif by_x > 0:
            axes.axvline(capacity / by_x, **style)
            lowest = [y if by_x * x <= capacity else 0.0 for x, y in zip(xs, lowest, strict=True)]
    line = [max(y, 0.0) for y in lowest]
    axes.plot(xs, line, color="black", linewidth=2, label="feasibility boundary")


def write_picture(path: Path, index: PlanIndex) -> None:
    """Write the picture, there whole or not at all."""
    from evenflow.cli.shed.plan_file import replace_file

    form = "png" if path.suffix.lower() == ".png" else "svg"
    drawn = draw(index, form)
    replace_file(path, lambda beside: beside.write_bytes(drawn))
