"""Pictures of the figures of shed planning: the data of cases, drawn as the paper draws it.

matplotlib is loaded when a picture is asked for. The same cases give the same bytes.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.bench.shed_networks import SUBSTITUTES

if TYPE_CHECKING:
    from evenflow.bench.shed_case import Case


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What is drawn of the cases of a figure."""

    figure: str
    title: str
    x: str
    y: str = "seconds"
    field: str = "seconds"
    """Of a case: its height."""
    lines: tuple[str, ...] = ("method",)
    """Fields of a case that say which line it belongs to."""
    log_x: bool = False
    log_y: bool = True


PICTURES = (
    Picture(
        figure="10",
        title="Figure 10 (a): plan generation by load distribution, 5 %",
        x="network of figure 9",
    ),
    Picture(
        figure="10b",
        title="Figure 10 (b): plan generation of solver-w",
        x="network of figure 9",
    ),
    Picture(
        figure="11a",
        title="Figure 11 (a): solver-w by mean rate",
        x="mean rate, tuples/s",
        lines=("network",),
    ),
    Picture(
        figure="11c",
        title="Figure 11 (c): solver-w by cost, histogram for the trace",
        x="cost of the first query, ms",
    ),
    Picture(
        figure="13",
        title="Figure 13: plan generation by fan-out, 1 %",
        x="fan-out",
        log_x=True,
    ),
    Picture(
        figure="14a",
        title="Figure 14 (a): expected error of solver-w in time",
        x="seconds",
        y="expected error",
        field="error",
        lines=("network",),
        log_x=True,
    ),
    Picture(
        figure="14b",
        title="Figure 14 (b): plan generation of c-fit by epsilon",
        x="epsilon",
        lines=("network",),
    ),
    Picture(
        figure="15a",
        title="Figure 15 (a): entries by epsilon and query load",
        x="epsilon",
        y="entries",
        field="plans",
        lines=("network",),
    ),
    Picture(
        figure="15b",
        title="Figure 15 (b): entries sent after a changed selectivity",
        x="tolerance",
        y="share of entries sent",
        field="share",
        lines=("network",),
        log_y=False,
    ),
    Picture(
        figure="15c",
        title="Figure 15 (c): entries sent after load moved",
        x="tolerance",
        y="share of entries sent",
        field="share",
        lines=("network",),
        log_y=False,
    ),
    Picture(
        figure="table 3",
        title="Table 3: entries by inputs, 10 %",
        x="inputs",
        y="entries",
        field="plans",
        log_x=True,
    ),
)


def draw_all(cases: list[Case], form: str = "svg") -> dict[str, bytes]:
    """Return pictures of the figures that there are cases of, as files by name."""
    found = {}
    for picture in PICTURES:
        own = [case for case in cases if case["figure"] == picture.figure]
        if own:
            name = picture.figure.replace(" ", "-")
            name = name if name.startswith("table") else f"figure-{name}"
            found[f"{name}.{form}"] = _draw(picture, own, form)
    return found


def lines_of(picture: Picture, cases: list[Case]) -> dict[str, list[tuple[Any, float]]]:
    """Return the points of each line. What the paper prints is a line of its own."""
    lines: dict[str, list[tuple[Any, float]]] = {}
    for case in cases:
        name = ", ".join(str(case[field]) for field in picture.lines)
        across = case["seconds"] if picture.x == "seconds" else case["x"]
        lines.setdefault(name, []).append((across, case[picture.field]))
        printed = case.get("paper_entries")
        if printed is not None and (across, printed) not in lines.setdefault("paper", []):
            lines["paper"].append((across, printed))
    return lines


def _draw(picture: Picture, cases: list[Case], form: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "evenflow", "font.size": 9}):
        figure = Figure(figsize=(6.0, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for name, points in lines_of(picture, cases).items():
            style = "--" if name == "paper" else "-"
            axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, label=name)
        axes.set(title=picture.title, xlabel=picture.x, ylabel=picture.y)
        if picture.log_x:
            axes.set_xscale("log", base=10 if picture.x == "seconds" else 2)
        if picture.log_y:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        if note := SUBSTITUTES.get(picture.figure):
            figure.supxlabel(f"not printed in the paper: {note}", fontsize=7)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
        drawn = io.BytesIO()
        figure.savefig(
            drawn, format=form, dpi=80, metadata={"Date": None} if form == "svg" else None
        )
    return drawn.getvalue()
