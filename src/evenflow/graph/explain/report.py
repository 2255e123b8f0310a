"""What there is to show of a graph and its units, as plain data. The other modules draw it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.graph.explain.wording import (
    aggregate_text,
    column_names,
    expression_text,
    operator_text,
    window_text,
)
from evenflow.model.expression import TRUE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.graph.explain.wording import Names
    from evenflow.graph.graph import Graph
    from evenflow.model.operator import Operator
    from evenflow.model.unit import Branch, Condition, Family, Member, Unit


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """An operator and who needs it."""

    id: str
    kind: str
    text: str
    inputs: tuple[str, ...]
    queries: tuple[str, ...]
    shared: bool
    """Needed by more than one query."""
    state: str
    shed: str
    event_time: str | None
    columns: tuple[str, ...]
    hash: str


@dataclass(frozen=True, slots=True)
class QueryReport:
    """A query and where its answers come from and go to."""

    name: str
    operator: str
    units: tuple[str, ...]
    sinks: tuple[str, ...]
    weight: float
    sql: str | None


@dataclass(frozen=True, slots=True)
class SourceReport:
    """How often a source is read."""

    name: str
    reads: int | None
    """By units; None if they are not known."""
    reads_alone: int
    """If every query ran alone."""


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """Which tuples count."""

    where: str | None
    """None for all."""
    guards: tuple[str, ...]
    """What is computed first, because it can fail on a tuple."""


@dataclass(frozen=True, slots=True)
class BranchReport:
    """A query's part in a stateless unit."""

    query: str
    number: int
    condition: ConditionReport
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberReport:
    """A query's part in a family."""

    query: str
    number: int
    condition: ConditionReport
    having: str | None
    slots: dict[str, tuple[str, ...]]
    """By aggregate."""


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """Queries with the same keys and window."""

    number: int
    keys: dict[str, str]
    """Key slots and what they hold."""
    window: str
    size_us: int
    slide_us: int
    conditions: tuple[ConditionReport, ...]
    members: tuple[MemberReport, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        """Names of its queries, each once."""
        return tuple(dict.fromkeys(member.query for member in self.members))


@dataclass(frozen=True, slots=True)
class UnitReport:
    """What runs as one StreamingQuery."""

    id: str
    kind: str
    trunk: str
    sources: tuple[str, ...]
    every_seconds: float
    queries: tuple[str, ...]
    branches: tuple[BranchReport, ...]
    families: tuple[FamilyReport, ...]
    key_slots: tuple[str, ...]
    slots: tuple[str, ...]
    spare_slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A flow as it is shown."""

    flow: str
    operators_alone: int
    operators_shared: int
    sources: tuple[SourceReport, ...]
    operators: tuple[OperatorReport, ...]
    queries: tuple[QueryReport, ...]
    units: tuple[UnitReport, ...] | None


def describe(graph: Graph, units: Sequence[Unit] | None = None) -> Report:
    """Return what there is to show. Operators are numbered inputs first."""
    operators = graph.operators()
    ids = {each.hash: str(number) for number, each in enumerate(operators, start=1)}
    return Report(
        flow=graph.name,
        operators_alone=graph.operators_alone(),
        operators_shared=graph.operators_shared(),
        sources=_sources(graph, units),
        operators=tuple(_operator(graph, each, ids) for each in operators),
        queries=_queries(graph, units, ids),
        units=None if units is None else tuple(_unit(unit, ids) for unit in units),
    )


def _sources(graph: Graph, units: Sequence[Unit] | None) -> tuple[SourceReport, ...]:
    reads = Counter(name for unit in units or () for name in unit.sources)
    return tuple(
        SourceReport(name, None if units is None else reads[name], len(graph.users(source)))
        for name, source in graph.sources.items()
    )


def _operator(graph: Graph, operator: Operator, ids: Mapping[str, str]) -> OperatorReport:
    queries = graph.users(operator)
    return OperatorReport(
        id=ids[operator.hash],
        kind=operator.kind,
        text=operator_text(operator),
        inputs=tuple(ids[each.hash] for each in operator.inputs),
        queries=queries,
        shared=len(queries) > 1,
        state=operator.state.value,
        shed=operator.shed.value,
        event_time=operator.event_time,
        columns=tuple(str(field) for field in operator.schema),
        hash=operator.hash,
    )


def _queries(
    graph: Graph, units: Sequence[Unit] | None, ids: Mapping[str, str]
) -> tuple[QueryReport, ...]:
    return tuple(
        QueryReport(
            name=query.name,
            operator=ids[query.operator.hash],
            units=tuple(unit.id for unit in units or () if query.name in unit.queries),
            sinks=tuple(f"{s.format} {s.path}" if s.path else s.format for s in query.sinks),
            weight=query.weight,
            sql=query.text,
        )
        for query in graph.queries.values()
    )


def _unit(unit: Unit, ids: Mapping[str, str]) -> UnitReport:
    used = {use.slot for family in unit.families for use in family.uses}
    names = column_names(unit.trunk)
    return UnitReport(
        id=unit.id,
        kind=unit.kind.value,
        trunk=ids.get(unit.trunk.hash) or operator_text(unit.trunk),
        sources=unit.sources,
        every_seconds=unit.every,
        queries=unit.queries,
        branches=tuple(_branch(each, names) for each in unit.branches),
        families=tuple(_family(each, names) for each in unit.families),
        key_slots=tuple(slot.name for slot in unit.key_slots),
        slots=tuple(slot.name for slot in unit.slots),
        spare_slots=tuple(slot.name for slot in unit.slots if slot not in used),
    )


def _branch(branch: Branch, names: Names) -> BranchReport:
    columns = tuple(name for name, _ in branch.outputs)
    condition = _condition(branch.condition, names)
    return BranchReport(branch.query, branch.number, condition, columns)


def _condition(condition: Condition, names: Names) -> ConditionReport:
    where = None if condition.predicate == TRUE else expression_text(condition.predicate, names)
    return ConditionReport(where, tuple(expression_text(each, names) for each in condition.guards))


def _family(family: Family, names: Names) -> FamilyReport:
    keys = [expression_text(key, names) for key in family.keys]
    slots = [slot.name for slot in family.key_slots]
    return FamilyReport(
        number=family.number,
        keys=dict(zip(slots, keys, strict=True)),
        window=window_text(family.window),
        size_us=family.window.size_us,
        slide_us=family.window.slide_us,
        conditions=tuple(_condition(each, names) for each in family.conditions),
        members=tuple(_member(each, family, names) for each in family.members),
    )


def _member(member: Member, family: Family, names: Names) -> MemberReport:
    calls = {result.name: aggregate_text(result.call, names) for result in member.results}
    keys = {f"k{index}": expression_text(key, names) for index, key in enumerate(family.keys)}
    having = member.having
    slots = {calls[result.name]: tuple(s.name for s in result.slots) for result in member.results}
    return MemberReport(
        query=member.query,
        number=member.number,
        condition=_condition(family.conditions[member.condition], names),
        having=None
        if having is None
        else expression_text(having, {**keys, "w": "window", **calls}),
        slots={"tuples": (member.count.name,), **slots},
    )
