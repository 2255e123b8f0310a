"""SQL statements to operators.

A SELECT becomes: the stream it reads, its joins, WHERE, the grouping, HAVING, the SELECT list.
Each is one operator, and none where it changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from evenflow.errors import QueryError
from evenflow.graph import steps
from evenflow.graph import syntax as s
from evenflow.graph.bind import Budget, aggregate_name
from evenflow.graph.joining import JoinStep, joined
from evenflow.graph.scope import Scope
from evenflow.model.operator import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from evenflow.model.operator import Operator, Table


class Names(Protocol):
    """What FROM and JOIN can name."""

    def find_stream(self, name: str) -> Operator | None:
        """Return the source or query of that name."""
        ...

    def find_table(self, name: str) -> Table | None:
        """Return the table of that name."""
        ...


def build_statement(statement: s.Statement, names: Names) -> Operator:
    """Return the operator whose output is the statement's answer.

    Raises:
        QueryError: A name, a type or the shape of the statement is wrong.
    """
    budget = Budget()
    return steps.united([(_select(b, names, budget), b.position) for b in statement.branches])


def ordered_statements(
    statements: Mapping[str, s.Statement], texts: Mapping[str, str]
) -> list[str]:
    """Return the names so that each comes after those it reads.

    Raises:
        QueryError: They read one another in a circle.
    """
    by_lower = {name.lower(): name for name in statements}
    done: dict[str, None] = {}
    for root in statements:
        path: dict[str, Iterator[s.Relation]] = {}
        if root not in done:
            path[root] = iter(_streams_read(statements[root]))
        while path:  # no recursion: chains of queries may be long
            current = next(reversed(path))
            relation = next(path[current], None)
            if relation is None:
                done[current] = None
                path.pop(current)
                continue
            read = by_lower.get(relation.name.lower())
            if read in path:
                raise _cycle([*path], read, relation, texts[current])
            if read is not None and read not in done:
                path[read] = iter(_streams_read(statements[read]))
    return list(done)


def _cycle(path: list[str], read: str, relation: s.Relation, text: str) -> QueryError:
    circle = [*path[path.index(read) :], read]
    return QueryError(
        "graph.cycle",
        f"queries read one another in a circle: {' -> '.join(circle)}",
        query=path[-1],
        text=text,
        position=relation.position,
    )


def _streams_read(statement: s.Statement) -> tuple[s.Relation, ...]:
    return tuple(branch.source for branch in statement.branches)


def _select(selection: s.Selection, names: Names, budget: Budget) -> Operator:
    operator = _source(selection.source, names)
    scope = Scope.of(operator, selection.source.alias)
    for clause in selection.joins:
        operator, scope = joined(operator, scope, _join_step(clause, names), budget)
    if selection.where is not None:
        operator = steps.filtered(operator, scope, selection.where, budget)
    if not _is_grouped(selection):
        return steps.projected(operator, steps.selected(scope, selection.items, budget))
    clause_ = steps.GroupClause(
        items=selection.items,
        keys=selection.group_by,
        having=selection.having,
        distinct=selection.distinct,
        position=_grouping_position(selection),
    )
    operator, columns = steps.grouped(operator, scope, clause_, budget)
    return steps.projected(operator, columns)


def _source(relation: s.Relation, names: Names) -> Operator:
    operator = names.find_stream(relation.name)
    if operator is not None:
        return operator
    is_table = names.find_table(relation.name) is not None
    message = f"{relation.name[:60]} is {'a table, not' if is_table else 'not'} a stream"
    hint = "JOIN it to a stream" if is_table else None
    raise QueryError("stream.unknown", message, position=relation.position, hint=hint)


def _join_step(clause: s.JoinClause, names: Names) -> JoinStep:
    name, position = clause.table.name, clause.table.position
    table = names.find_table(name)
    if table is None and names.find_stream(name) is not None:
        message = "streams can be joined with tables only, not yet with streams"
        raise QueryError("sql.forbidden", message, position=position)
    if table is None:
        message = f"table {name[:60]} is not known"
        raise QueryError("table.unknown", message, position=position)
    return JoinStep(
        table=table,
        alias=clause.table.alias,
        join_type=JoinType(clause.kind),
        condition=clause.condition,
        using=clause.using,
        position=position,
    )


def _is_grouped(selection: s.Selection) -> bool:
    grouped = bool(selection.group_by) or selection.having is not None
    grouped = grouped or _first_aggregate(selection) is not None
    if selection.distinct and grouped:
        message = "DISTINCT together with GROUP BY or aggregates cannot be used here"
        raise QueryError("sql.forbidden", message, position=selection.position)
    return grouped or selection.distinct


def _grouping_position(selection: s.Selection) -> int | None:
    if selection.group_by:
        return selection.group_by[0].position
    found = _first_aggregate(selection) or selection.having
    return selection.position if found is None else found.position


def _first_aggregate(selection: s.Selection) -> s.Node | None:
    """Return the first aggregate of the SELECT list. Works on expressions of any depth."""
    pending = [i.expression for i in reversed(selection.items)]
    while pending:
        node = pending.pop()
        if isinstance(node, s.Star):
            continue
        if aggregate_name(node) is not None:
            return node
        pending += reversed(s.children(node))
    return None
