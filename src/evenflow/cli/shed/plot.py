"""A picture of plans for two inputs: which rates fit, and which plan is for which of the others."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from evenflow.errors import NetworkError
from evenflow.shed.program import program_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from evenflow.shed.plan_index import PlanIndex
    from evenflow.shed.program import Program

STEPS = 120
"""Rates tried in each direction."""
POINTS = 400
"""Of a line."""
COLOURS = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#a2c4c9", "#f9cb9c", "#ead1dc")
"""Of plans, in turn: what differs side by side are two plans."""
OPEN, NONE = "#ffffff", "#b7b7b7"
"""Where nothing is dropped, and where no plan fits."""


def check_inputs(inputs: tuple[str, ...], max_rates: Mapping[str, float]) -> None:
    """Refuse a picture of anything but two inputs that may bring something.

    Raises:
        NetworkError: There are fewer or more, or one brings nothing.
    """
    if len(inputs) != 2:
        raise NetworkError(
            "plot.inputs",
            f"a picture has two inputs, the network {len(inputs)}",
            ("plot",),
        )
    for name in inputs:
        if max_rates.get(name) == 0:
            raise NetworkError("plot.inputs", f"a picture has no room where {name} is 0", ("max",))


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
        _lines(axes, index)
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
    if any(0 in row for row in cells):
        axes.plot([], [], "s", color=OPEN, markeredgecolor=NONE, label="nothing is dropped")
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


def _lines(axes: Any, index: PlanIndex) -> None:
    """Draw where each node is full, and in bold where the first of them is."""
    program = program_of(index.network)
    across, up = index.network.inputs
    wide, high = index.max_rates[across], index.max_rates[up]
    nodes = zip(program.nodes, program.unit_load.tolist(), program.capacity.tolist(), strict=True)
    for number, (name, (by_x, by_y), capacity) in enumerate(nodes):
        style = {"color": f"C{number}", "linewidth": 1, "linestyle": "--"}
        style["label"] = f"{name} is full"
        if by_y > 0 and capacity - by_x * wide < by_y * high:
            axes.plot([0, wide], [capacity / by_y, (capacity - by_x * wide) / by_y], **style)
        elif by_y == 0 and by_x * wide > capacity:
            axes.axvline(capacity / by_x, **style)
    line = boundary(program, wide, high)
    axes.plot(*zip(*line, strict=True), color="black", linewidth=2, label="feasibility boundary")


def boundary(program: Program, wide: float, high: float) -> list[tuple[float, float]]:
    """Return the highest rates of one input that fit beside those of the other, as a line.

    It ends where a node is full of the other alone.
    """
    nodes = list(zip(program.unit_load.tolist(), program.capacity.tolist(), strict=True))
    ends = min([wide, *(capacity / by_x for (by_x, _), capacity in nodes if by_x > 0)])
    line = []
    for step in range(POINTS + 1):
        x = ends * step / POINTS
        most = [(capacity - by_x * x) / by_y for (by_x, by_y), capacity in nodes if by_y > 0]
        line.append((x, max(0.0, min([high, *most]))))
    return line if ends == wide else [*line, (ends, 0.0)]


def picture_at(path: Path, index: PlanIndex) -> bytes:
    """Return the picture in the form that a file's name asks for."""
    return draw(index, "png" if path.suffix.lower() == ".png" else "svg")
