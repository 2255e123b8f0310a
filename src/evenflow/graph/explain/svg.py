"""A report as a picture: sources at the left, queries at the right, units below."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from evenflow.graph.explain.layout import Box, place
from evenflow.graph.explain.text import counted, headline, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenflow.graph.explain.layout import Layout, Place
    from evenflow.graph.explain.report import OperatorReport, QueryReport, Report, UnitReport

MARGIN = 24.0
BOX_HEIGHT = 38.0
PADDING = 10.0
LINE = 16.0
FONT = 11
CHARACTER = 6.7
"""Width of a character of a monospaced font of that size, a little generous."""
_FONT = (
    """font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" """
    f'font-size="{FONT}"'
)
MOST_CHARACTERS = 34
TITLE_HEIGHT = 78.0

# fill, border, text
_SOURCE = ("#1e293b", "#1e293b", "#ffffff")
_SHARED = ("#0f766e", "#0f766e", "#ffffff")
_SINGLE = ("#f1f5f9", "#94a3b8", "#0f172a")
_QUERY = ("#ffffff", "#0f172a", "#0f172a")
_LEGEND = (
    ("source or table", _SOURCE),
    ("operator of several queries (×n)", _SHARED),  # noqa: RUF001  # times
    ("operator of one query", _SINGLE),
    ("query", _QUERY),
)
_LOOKS = {"source": _SOURCE, "table": _SOURCE}

Look = tuple[str, str, str]


def svg_text(report: Report) -> str:
    """Return an SVG document that needs nothing but a monospaced font."""
    layout = _layout(report)
    lines = list(_unit_lines(report))
    texts = [headline(report), _reads(report), *lines]
    wide = max([layout.width, _legend_width(), *(len(text) * CHARACTER for text in texts)])
    width = wide + 2 * MARGIN
    graph_top = MARGIN + TITLE_HEIGHT
    panel_top = graph_top + layout.height + 2 * LINE
    height = panel_top + len(lines) * LINE + MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}"'
    box = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {_FONT} {size} {box}>',
        f"<title>{escape(report.flow)}</title>",
        f'<rect {size} fill="#ffffff"/>',
        *_title(report),
        f'<g transform="translate({MARGIN:.1f} {graph_top:.1f})">',
        *_arrows(report, layout),
        *_boxes(report, layout),
        "</g>",
        *(
            _text(MARGIN, panel_top + i * LINE, line, "#0f172a", bold=not line.startswith(" "))
            for i, line in enumerate(lines)
        ),
        "</svg>",
    ]
    return "\n".join(parts)


# --- what lies where ------------------------------------------------------------------------------


def _layout(report: Report) -> Layout:
    boxes = [
        Box(f"o{each.id}", _width(_operator_lines(each)), BOX_HEIGHT) for each in report.operators
    ]
    boxes += [
        Box(f"q{query.name}", _width(_query_lines(query)), BOX_HEIGHT, column=-1)
        for query in report.queries
    ]
    arrows = [(f"o{source}", f"o{each.id}") for each in report.operators for source in each.inputs]
    # A query that reads another may end at the same operator, so queries get a column after all.
    arrows += [(f"o{query.operator}", f"q{query.name}") for query in report.queries]
    return place(boxes, arrows)


def _operator_lines(each: OperatorReport) -> tuple[str, str]:
    uses = f" ×{len(each.queries)}" if each.shared else ""  # noqa: RUF001  # times
    return f"{each.kind}{uses}", shorten(each.text, MOST_CHARACTERS)


def _query_lines(query: QueryReport) -> tuple[str, str]:
    formats = [sink.split(" ", 1)[0] for sink in query.sinks]
    where = ", ".join((*query.units, *formats))
    return shorten(query.name, MOST_CHARACTERS), shorten(where, MOST_CHARACTERS)


def _width(lines: Sequence[str]) -> float:
    return max(len(line) for line in lines) * CHARACTER + 2 * PADDING


# --- drawing --------------------------------------------------------------------------------------


def _title(report: Report) -> Iterator[str]:
    yield _text(MARGIN, MARGIN + 6, headline(report), "#0f172a", bold=True)
    yield _text(MARGIN, MARGIN + 6 + LINE, _reads(report), "#475569")
    x, y = MARGIN, MARGIN + 6 + 2 * LINE + 4
    for name, look in _LEGEND:
        yield _rectangle(x, y - 9, 14, 12, look, radius=3)
        yield _text(x + 20, y + 1, name, "#475569")
        x += 20 + len(name) * CHARACTER + 24


def _legend_width() -> float:
    return sum(44 + len(name) * CHARACTER for name, _ in _LEGEND)


def _reads(report: Report) -> str:
    texts = []
    for source in report.sources:
        read = f"read {source.reads}x, " if source.reads is not None else ""
        texts.append(f"{source.name}: {read}{source.reads_alone}x if every query ran alone")
    return "; ".join(texts)


def _boxes(report: Report, layout: Layout) -> Iterator[str]:
    for each in report.operators:
        look = _LOOKS.get(each.kind, _SHARED if each.shared else _SINGLE)
        note = f"{each.kind} {each.text}\nqueries: {', '.join(each.queries)}"
        yield from _box(layout.places[f"o{each.id}"], _operator_lines(each), look, note, radius=4)
    for query in report.queries:
        note = f"{query.name} to {', '.join(query.sinks) or 'no sink'}\n{query.sql or ''}"
        at = layout.places[f"q{query.name}"]
        yield from _box(at, _query_lines(query), _QUERY, note, radius=BOX_HEIGHT / 2)


def _box(at: Place, lines: tuple[str, str], look: Look, note: str, radius: float) -> Iterator[str]:
    top = at.y - BOX_HEIGHT / 2
    yield f"<g><title>{escape(note)}</title>"
    yield _rectangle(at.x, top, _width(lines), BOX_HEIGHT, look, radius)
    inset = PADDING if radius < PADDING else PADDING + 2
    yield _text(at.x + inset, top + 15, lines[0], look[2], bold=True)
    yield _text(at.x + inset, top + 30, lines[1], look[2])
    yield "</g>"


def _arrows(report: Report, layout: Layout) -> Iterator[str]:
    widths = {f"o{each.id}": _width(_operator_lines(each)) for each in report.operators}
    shared = {f"o{each.id}" for each in report.operators if each.shared}
    for (source, target), passed in layout.arrows.items():
        start, end = layout.places[source], layout.places[target]
        points = [(start.x + widths[source], start.y), (start.right, start.y)]
        for left, right, y in passed:
            points += [(left, y), (right, y)]
        points.append((end.x, end.y))
        colour = "#0f766e" if target in shared else "#94a3b8"
        yield f'<path d={quoteattr(_curve(points))} fill="none" stroke="{colour}"/>'


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a line that leaves and enters boxes level."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x1, y1), (x2, y2) in pairwise(points):
        if abs(y1 - y2) < 0.5:
            path.append(f"L{x2:.1f} {y2:.1f}")
        else:
            middle = (x1 + x2) / 2
            path.append(f"C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}")
    return " ".join(path)


def _rectangle(x: float, y: float, width: float, height: float, look: Look, radius: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{radius:.1f}" fill="{look[0]}" stroke="{look[1]}"/>'
    )


def _text(x: float, y: float, text: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{weight} xml:space="preserve">'
        f"{escape(text)}</text>"
    )


# --- units ----------------------------------------------------------------------------------------


def _unit_lines(report: Report) -> Iterator[str]:
    for unit in report.units or ():
        yield from _unit(unit)


def _unit(unit: UnitReport) -> Iterator[str]:
    spare = f", {len(unit.spare_slots)} spare" if unit.spare_slots else ""
    slots = f", {len(unit.slots)} slots{spare}" if unit.slots else ""
    yield (
        f"unit {unit.id}: {unit.kind}, reads {', '.join(unit.sources)}, every "
        f"{unit.every_seconds:g} s, {counted(len(unit.queries), 'query', 'queries')}{slots}"
    )
    if unit.branches:
        yield f"  {_wrapped([branch.query for branch in unit.branches])}"
    for family in unit.families:
        keys = ", ".join(family.keys.values()) or "nothing"
        text = f"  family {family.number}: by {keys}, window {family.window}: "
        yield shorten(text + ", ".join(family.queries), 140)


def _wrapped(names: Sequence[str]) -> str:
    return shorten(", ".join(dict.fromkeys(names)), 140)
