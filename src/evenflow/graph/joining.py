"""JOIN of a stream with a table: keys, and the names that both sides go by afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import QueryError
from evenflow.graph import syntax as s
from evenflow.graph.bind import Binder
from evenflow.graph.canonical import canonical, canonical_text
from evenflow.graph.scope import Visible
from evenflow.model.coercion import convert
from evenflow.model.expression import Column, walk
from evenflow.model.operator import Join, JoinType, Table, is_grouped

if TYPE_CHECKING:
    from evenflow.graph.bind import Budget
    from evenflow.graph.scope import Scope
    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator

Key = tuple["Expression", str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep:
    """The right side of a JOIN, and what must be equal."""

    table: Table
    alias: str
    join_type: JoinType
    condition: s.Node | None = None
    using: tuple[s.Name, ...] = ()
    position: int | None = None


def joined(
    operator: Operator, scope: Scope, step: JoinStep, budget: Budget
) -> tuple[Operator, Scope]:
    """Return the joined stream and the scope in which both sides can be named.

    Raises:
        QueryError: A name is unknown or used twice, or the condition is not one of equal keys.
    """
    if is_grouped(operator):
        message = "answers of a window cannot be joined with a table"
        hint = "join the stream itself, before it is grouped"
        raise QueryError("sql.forbidden", message, position=step.position, hint=hint)
    if step.alias.lower() in scope.aliases:
        message = f"{step.alias} stands twice in FROM"
        hint = "give one another name with AS"
        raise QueryError("name.duplicate", message, position=step.position, hint=hint)
    prefix = table_prefix(operator, step.table)
    columns = tuple((f.name, Column((prefix + f.name,), f.type)) for f in step.table.schema)
    merged = tuple(dict.fromkeys(name.parts[0].lower() for name in step.using))
    wider = scope.with_relation(Visible(step.alias, columns, merged))
    if step.condition is not None:
        keys = _Condition(wider, prefix, step.table, budget).keys(step.condition)
    else:
        keys = _using(scope, columns, step, budget)
    ordered = sorted({(canonical_text(e), name): (e, name) for e, name in keys}.items())
    join = Join(operator, step.table, step.join_type, tuple(key for _, key in ordered), prefix)
    return join, wider


def table_prefix(operator: Operator, table: Table) -> str:
    """Return a prefix that keeps the table's columns apart, whatever the query calls it."""
    base, number = table.name.replace("-", "_"), 1
    taken = {name.lower() for name in operator.schema.names}
    while True:
        prefix = f"{base}__" if number == 1 else f"{base}_{number}__"
        if not any((prefix + f.name).lower() in taken for f in table.schema):
            return prefix
        number += 1


def _using(
    scope: Scope, columns: tuple[tuple[str, Column], ...], step: JoinStep, budget: Budget
) -> list[Key]:
    by_name = {name.lower(): (name, column) for name, column in columns}
    binder = Binder(scope, budget, place="in USING")
    keys: list[Key] = []
    for name in step.using:
        found = by_name.get(name.parts[0].lower())
        if found is None:
            message = f"table {step.table.name} has no column {name.parts[0][:60]}"
            raise QueryError("column.unknown", message, position=name.position)
        keys.append(_key(binder, binder.bind(name), found[1], found[0], name))
    return keys


def _key(binder: Binder, value: Expression, column: Column, name: str, node: s.Node) -> Key:
    """Return a pair of keys; the stream's side is converted where the table's type is wider.

    Where the stream's is wider, Spark widens the table's column when it compares them.
    """
    call = binder.call("=", [value, column], (node, node, node))
    type_ = call.arguments[0].type
    return canonical(convert(value, type_) if type_ == column.type else value), name


class _Condition:
    """ON: one equality of stream and table, or several with AND."""

    def __init__(self, scope: Scope, prefix: str, table: Table, budget: Budget) -> None:
        self._binder = Binder(scope, budget, place="in ON")
        self._columns = {prefix + f.name: f.name for f in table.schema}
        self._table = table

    def keys(self, node: s.Node) -> list[Key]:
        if isinstance(node, s.Operation) and node.operator == "and":
            return [self._equality(each) for each in node.operands]
        return [self._equality(node)]

    def _equality(self, node: s.Node) -> Key:
        if isinstance(node, s.Operation) and node.operator == "=":
            left, right = (self._binder.bind(operand) for operand in node.operands)
            for value, other in ((left, right), (right, left)):
                name = self._own_column(other)
                if name is not None and isinstance(other, Column) and not self._uses_table(value):
                    return _key(self._binder, value, other, name, node)
        raise QueryError(
            "sql.forbidden",
            f"ON takes equalities of the stream and a column of {self._table.name}, with AND",
            position=node.position,
            hint="other conditions go into WHERE",
        )

    def _own_column(self, value: Expression) -> str | None:
        if isinstance(value, Column) and len(value.path) == 1:
            return self._columns.get(value.path[0])
        return None

    def _uses_table(self, value: Expression) -> bool:
        return any(isinstance(e, Column) and e.path[0] in self._columns for e in walk(value))
