"""Units as the compiler wants them, from how they are laid out and what their queries say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.model.unit import Unit
from evenflow.schedule.family import build_family
from evenflow.schedule.life import Facts, Life, change
from evenflow.schedule.request import Origin, QueryState, Subscribe
from evenflow.schedule.shape import Part, Plain, Shape, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.model.operator import Operator
    from evenflow.model.query import Query
    from evenflow.schedule.layout import UnitLayout


def cut(queries: Sequence[Query]) -> tuple[Unit, ...]:
    """Return the units that run some queries from the beginning."""
    return build_units(begin(queries), {query.name: query for query in queries})


def begin(queries: Sequence[Query]) -> Life:
    """Return the life of queries that start together.

    Units, families and slots do not depend on the order of the queries.
    """
    ordered = sorted(queries, key=lambda query: query.name)
    requests = [Subscribe(query=query, origin=Origin.FILE) for query in ordered]
    return change(Life(), requests, {}, Facts()).life


def build_units(life: Life, definitions: Mapping[str, Query]) -> tuple[Unit, ...]:
    """Return the units of a life that have something to do.

    Raises:
        StateError: The queries are not those that the units were laid out for.
    """
    parts = {
        part.number: (name, part)
        for name, query in life.queries.items()
        for part in parts_of(definitions[name], query.numbers)
    }
    carrying = (layout for layout in life.units if layout.numbers)
    return tuple(_unit(layout, life, parts, definitions) for layout in carrying)


def _unit(
    layout: UnitLayout,
    life: Life,
    parts: Mapping[int, tuple[str, Part]],
    definitions: Mapping[str, Query],
) -> Unit:
    carried = [parts[number] for number in sorted(layout.numbers)]
    running = [n for n, _ in carried if life.queries[n].state is QueryState.RUNNING]
    live = [lease for lease in layout.leases if lease.ended_us is None]
    families = []
    for family in layout.families:
        held = [parts[x.number][1] for x in live if x.family == family.number]
        shapes = [part for part in held if isinstance(part, Shape)]
        if shapes:
            families.append(build_family(family, shapes))
    held = [parts[lease.number][1] for lease in live if lease.family is None]
    return Unit(
        id=layout.id,
        kind=layout.site.kind,
        trunk=_trunk(carried[0][1]),
        sources=layout.sources,
        every=min(definitions[n].every for n in running or [n for n, _ in carried]),
        branches=tuple(part.branch for part in held if isinstance(part, Plain)),
        families=tuple(families),
        key_slots=layout.key_slots,
        slots=layout.slots,
        narrow=layout.narrow,
        era=layout.era.number,
        irregular=layout.era.irregular,
    )


def _trunk(part: Part) -> Operator:
    return part.trunk
