"""A picture of the surge: rows against what fits, ages against deadlines, shares kept, over time.

matplotlib is loaded when a picture is asked for. The same report gives the same bytes.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.cli.demo.text import Report

_BAND = "#f4cccc"
_DECISION = "#999999"
_THINNEST, _STEP = 1.2, 1.0
"""Widths of lines."""


def draw(report: Report, form: str = "svg") -> bytes:
    """Return the picture, as SVG or PNG."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "evenflow", "font.size": 9}):
        figure = Figure(figsize=(9.6, 7.6), layout="constrained")
        FigureCanvasAgg(figure)
        rows, ages, shares = figure.subplots(3, 1, sharex=True, height_ratios=(2, 2, 3))
        _rows(rows, report)
        _ages(ages, report)
        _shares(shares, report)
        begin = report["surge_began_seconds"]
        for axes in (rows, ages, shares):
            axes.axvspan(begin, begin + report["surge_seconds"], color=_BAND, alpha=0.5, lw=0)
            axes.grid(visible=True, alpha=0.3)
            axes.margins(x=0)
        shares.set_xlabel("seconds; lines are decisions, the band is the surge")
        drawn = io.BytesIO()
        figure.savefig(
            drawn, format=form, dpi=90, metadata={"Date": None} if form == "svg" else None
        )
    return drawn.getvalue()


def _rows(axes: Any, report: Report) -> None:
    axes.plot(*_line(report, "rows"), color="C0", label="rows/s that arrive")
    axes.plot(*_line(report, "fitting"), color="black", ls="--", label="fit with all gates open")
    axes.set(ylabel="rows/s", title=_title(report))
    axes.set_ylim(bottom=0)
    _legend(axes)


def _title(report: Report) -> str:
    times = report["times_capacity"]
    told = "a surge" if times is None else f"a surge to {times:.1f} times what fits"
    opened = report["gates_open_after_seconds"]
    return told if opened is None else f"{told}; all gates open {opened:.1f} s after it"


def _ages(axes: Any, report: Report) -> None:
    deadlines = {
        name: query["deadline_seconds"]
        for name, query in report["queries"].items()
        if query["deadline_seconds"] is not None
    }
    points = sorted(
        {
            (moment["answered"][name], moment["ages"][name])
            for moment in report["moments"]
            for name in deadlines
            if name in moment["ages"]
        }
    )
    if points:
        axes.plot(*zip(*points, strict=True), ".", color="C0", label="answers")
    for deadline in sorted(set(deadlines.values())):
        axes.axhline(deadline, color="C3", ls="--", label=f"deadline, {deadline:g} s")
    axes.set(ylabel="age when visible, s")
    axes.set_ylim(bottom=0)
    _legend(axes)


def _shares(axes: Any, report: Report) -> None:
    for decision in report["decisions"]:
        axes.axvline(decision["seconds"], color=_DECISION, lw=0.6)
    times = [moment["seconds"] for moment in report["moments"]]
    count = len(report["queries"])
    for number, (name, query) in enumerate(report["queries"].items()):
        kept = [100 * moment["keep"][name] for moment in report["moments"]]
        # Equal lines would hide each other: each is narrower than those below it.
        width = _THINNEST + _STEP * (count - 1 - number)
        label = f"{name}, weight {query['weight']:g}"
        axes.step(times, kept, where="post", linewidth=width, label=label)
    axes.set(ylabel="share kept, %")
    axes.set_ylim(-4, 104)
    _legend(axes)


def _legend(axes: Any) -> None:
    """Name the lines beside them, where they hide nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _line(report: Report, field: str) -> tuple[list[float], list[float]]:
    known = [(m["seconds"], m[field]) for m in report["moments"] if m[field] is not None]
    return [at for at, _ in known], [value for _, value in known]


def write_picture(path: Path, report: Report) -> None:
    """Write the picture, there whole or not at all."""
    from evenflow.cli.shed.output_file import replace_files

    drawn = draw(report, "png" if path.suffix.lower() == ".png" else "svg")
    replace_files({path: drawn})
