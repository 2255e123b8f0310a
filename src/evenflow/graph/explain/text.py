"""A report as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenflow.graph.explain.report import FamilyReport, Report, UnitReport

WIDTH = 100
SHARED = "*"
MOST_NAMED = 4


def plain_text(report: Report) -> str:
    """Return the report: the graph, then units with families and slots, then the sources."""
    parts = [headline(report), "", *_operators(report), "", *_queries(report)]
    if report.units is not None:
        parts += ["", "units"]
        for unit in report.units:
            parts += _unit(unit)
    return "\n".join([*parts, "", *_sources(report)])


def headline(report: Report) -> str:
    """Return one line about the whole."""
    return (
        f"{report.flow}: {counted(len(report.queries), 'query', 'queries')}, "
        f"{report.operators_alone} operators alone, {report.operators_shared} shared"
    )


def _operators(report: Report) -> Iterator[str]:
    yield f"operators ({SHARED} needed by several queries)"
    for each in report.operators:
        mark = SHARED if each.shared else " "
        above = f" <- {', '.join(each.inputs)}" if each.inputs else ""
        line = f"{mark}{each.id:>4}  {each.kind} {each.text}"
        yield f"{shorten(line, WIDTH - 24 - len(above))}{above}  [{_named(each.queries)}]"


def _queries(report: Report) -> Iterator[str]:
    yield "queries"
    width = max((len(query.name) for query in report.queries), default=0)
    for query in report.queries:
        units = f"  unit {', '.join(query.units)}" if query.units else ""
        sinks = f"  to {', '.join(query.sinks)}" if query.sinks else "  without sink"
        yield f"  {query.name.ljust(width)}  <- {query.operator:>3}{units}{sinks}"


def _unit(unit: UnitReport) -> Iterator[str]:
    yield (
        f"  {unit.id}: {unit.kind}, reads {', '.join(unit.sources)}, "
        f"every {unit.every_seconds:g} s, {counted(len(unit.queries), 'query', 'queries')} "
        f"on operator {unit.trunk}"
    )
    for branch in unit.branches:
        where = f" where {branch.condition.where}" if branch.condition.where else ""
        yield shorten(f"      {branch.query}{where}: {', '.join(branch.columns)}", WIDTH)
    for family in unit.families:
        yield from _family(family)
    if unit.slots:
        spare = f", {len(unit.spare_slots)} spare" if unit.spare_slots else ""
        yield f"      slots: {len(unit.key_slots)} for keys, {len(unit.slots)} for values{spare}"


def _family(family: FamilyReport) -> Iterator[str]:
    keys = ", ".join(f"{text} in {slot}" for slot, text in family.keys.items()) or "none"
    yield shorten(
        f"      family {family.number}: keys {keys}; window {family.window}; "
        f"{counted(len(family.members), 'member', 'members')}",
        WIDTH,
    )
    for member in family.members:
        where = f" where {member.condition.where}" if member.condition.where else ""
        having = f" having {member.having}" if member.having else ""
        slots = "; ".join(
            f"{text} in {' and '.join(names)}" for text, names in member.slots.items()
        )
        yield shorten(f"        {member.query}{where}{having}: {slots}", WIDTH + 40)


def _sources(report: Report) -> Iterator[str]:
    yield "sources"
    for source in report.sources:
        alone = f"{_times(source.reads_alone)} if every query ran alone"
        reads = f"read {_times(source.reads)}; {alone}" if source.reads is not None else alone
        yield f"  {source.name}: {reads}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _named(queries: Sequence[str]) -> str:
    shown = ", ".join(queries[:MOST_NAMED])
    rest = len(queries) - MOST_NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown


def counted(count: int, one: str, many: str) -> str:
    """Return `1 query`, `2 queries`."""
    return f"{count} {one if count == 1 else many}"


def shorten(text: str, width: int) -> str:
    """Return a text that is not wider than `width`."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
