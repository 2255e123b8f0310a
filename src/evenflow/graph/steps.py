"""The steps that SQL and builder have in common: each takes an operator and gives the next.

Expressions come as syntax, with the scope they are written in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenflow.errors import QueryError
from evenflow.graph import syntax as s
from evenflow.graph.bind import Binder
from evenflow.graph.canonical import canonical
from evenflow.graph.grouping import Grouping, is_window, uses_window
from evenflow.model import types as t
from evenflow.model.coercion import common, convert
from evenflow.model.expression import TRUE, Column
from evenflow.model.operator import Select, Union, Where, upstream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenflow.graph.bind import Budget
    from evenflow.graph.scope import Scope
    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator, Window

MAX_COLUMN_NAME = 128

MAX_OPERATORS = 200
"""Operators behind one another. Spark's planner recurses through all of them."""

Columns = tuple[tuple[str, "Expression"], ...]


@dataclass(frozen=True, slots=True)
class _Bound:
    """One column of a SELECT list, bound over the input."""

    name: str
    value: Expression
    node: s.Item


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClause:
    """What is grouped, and by what."""

    items: tuple[s.Item, ...]
    keys: tuple[s.Node, ...] = ()
    having: s.Node | None = None
    distinct: bool = False
    window: Window | None = None
    """Set by the builder; SQL has it among the keys."""
    position: int | None = None


def filtered(operator: Operator, scope: Scope, node: s.Node, budget: Budget) -> Operator:
    """Return the tuples of an operator for which a condition is TRUE."""
    return _where(operator, canonical(Binder(scope, budget, place="in WHERE").boolean(node)))


def limited(operator: Operator) -> Operator:
    """Return the operator.

    Raises:
        QueryError: Too many operators stand behind one another.
    """
    depths: dict[str, int] = {}
    for each in upstream(operator):
        depths[each.hash] = 1 + max((depths[i.hash] for i in each.inputs), default=0)
    if depths[operator.hash] > MAX_OPERATORS:
        message = f"it reads through more than {MAX_OPERATORS} operators"
        raise QueryError("sql.limit", message, hint="read a query nearer to the source")
    return operator


def _where(operator: Operator, predicate: Expression) -> Operator:
    return operator if predicate == TRUE else limited(Where(operator, predicate))


def selected(scope: Scope, items: Sequence[s.Item], budget: Budget) -> Columns:
    """Return the columns of a SELECT list without aggregates."""
    binder = Binder(scope, budget, place="in SELECT without GROUP BY")
    return tuple((b.name, canonical(b.value)) for b in _bind_items(items, binder))


def projected(operator: Operator, columns: Columns) -> Operator:
    """Return named columns of an operator; the operator itself where nothing changes."""
    unchanged = tuple((f.name, Column((f.name,), f.type)) for f in operator.schema)
    if columns == unchanged:
        return operator
    source = operator.event_time
    kept = [name for name, value in columns if value == Column((source or "",), t.TIMESTAMP)]
    return limited(Select(operator, columns, kept[0] if kept else None))


def grouped(
    operator: Operator, scope: Scope, clause: GroupClause, budget: Budget
) -> tuple[Operator, Columns]:
    """Return the operator that groups, and the selected columns over its output."""
    groups = Grouping(operator, scope, budget)
    groups.check_input(clause.position)
    groups.window = clause.window
    aliases = {i.alias.lower(): i.expression for i in clause.items if i.alias is not None}
    _bind_keys(groups, clause, scope, aliases)
    if not clause.distinct:
        groups.close_keys(clause.position)
    binder = groups.binder("in SELECT")
    bound = _bind_items(clause.items, binder)
    if clause.distinct:
        _distinct_keys(groups, bound, clause)
    having = None
    after = groups.binder("in HAVING", having=True)
    if clause.having is not None:
        after.named = binder.named
        having = after.boolean(clause.having)
    result: Operator = groups.operator()
    if having is not None:
        result = _where(result, groups.over_answers(having, after))
    return result, tuple((b.name, groups.over_answers(b.value, binder)) for b in bound)


def _bind_keys(
    groups: Grouping, clause: GroupClause, scope: Scope, aliases: dict[str, s.Node | s.Star]
) -> None:
    binder = groups.binder("in GROUP BY")
    for written in clause.keys:
        node = written
        if isinstance(node, s.Constant) and isinstance(node.value, int):
            message = "GROUP BY takes expressions, not the numbers of columns"
            raise QueryError("sql.forbidden", message, position=node.position, hint="name them")
        if isinstance(node, s.Name) and len(node.parts) == 1:
            named = aliases.get(node.parts[0].lower())
            if scope.find(node.parts, node.position) is None and named is not None:
                node = node if isinstance(named, s.Star) else named
        groups.add_key(binder.bind(node), written.position)


def _distinct_keys(groups: Grouping, bound: list[_Bound], clause: GroupClause) -> None:
    if not any(is_window(each.value) for each in bound):
        raise QueryError(
            "aggregate.no-window",
            "DISTINCT of an endless stream needs a window to end",
            position=clause.position,
            hint="add window(event_time, '1 hour') to the columns",
        )
    for each in bound:
        if not uses_window(each.value):
            groups.add_key(each.value, each.node.position)
    groups.close_keys(clause.position)


def _bind_items(items: Sequence[s.Item], binder: Binder) -> list[_Bound]:
    """Bind a SELECT list; each column may use the names that AS gave to earlier ones."""
    bound: list[_Bound] = []
    names: set[str] = set()
    for item in items:
        before = binder.budget.spent
        for name, value in _expand(item, binder):
            if name.lower() in names:
                message = f"column {name[:60]} stands twice in SELECT"
                hint = "use AS to give one another name"
                raise QueryError("name.duplicate", message, position=item.position, hint=hint)
            names.add(name.lower())
            bound.append(_Bound(name, value, item))
            if item.alias is not None:
                binder.named[name.lower()] = (value, binder.budget.spent - before)
    return bound


def _expand(item: s.Item, binder: Binder) -> list[tuple[str, Expression]]:
    if isinstance(item.expression, s.Star):
        return _star(item.expression, binder)
    value = binder.bind(item.expression)
    if value.type == t.NULL:
        message = "a column that is only NULL has no type"
        hint = "write CAST(NULL AS STRING)"
        raise QueryError("type.mismatch", message, position=item.position, hint=hint)
    name = item.alias or s.default_name(item.expression, binder.scope.aliases)
    if len(name) > MAX_COLUMN_NAME:
        message = f"a column's name is longer than {MAX_COLUMN_NAME} characters"
        raise QueryError("sql.limit", message, position=item.position, hint="use AS")
    return [(name, value)]


def _star(star: s.Star, binder: Binder) -> list[tuple[str, Expression]]:
    found: list[tuple[str, Expression]] = []
    if star.qualifier is None:
        found = binder.scope.columns()
    for relation in binder.scope.relations:
        if relation.alias is not None and relation.alias.lower() == (star.qualifier or "").lower():
            found += relation.columns
    if not found:
        message = f"{(star.qualifier or '*')[:60]} is not a stream or table of this query"
        raise QueryError("column.unknown", message, position=star.position)
    for _, value in found:
        if isinstance(value, Column):
            binder.positions.setdefault(value.path, star.position)
    return found


def united(branches: Sequence[tuple[Operator, int | None]]) -> Operator:
    """Return all tuples of several operators, with their positions in the text.

    Raises:
        QueryError: They differ in number or types of columns.
    """
    operators = [operator for operator, _ in branches]
    first = operators[0]
    if len(operators) == 1:
        return first
    for operator, position in branches:
        if len(operator.schema) != len(first.schema):
            message = (
                f"all SELECTs of a UNION have {len(first.schema)} columns like the first, "
                f"this one has {len(operator.schema)}"
            )
            raise QueryError("type.mismatch", message, position=position)
    types: list[t.DataType] = []
    for index, field in enumerate(first.schema):
        type_ = common(operator.schema.fields[index].type for operator in operators)
        if type_ is None:
            message = f"column {field.name} has no common type in all SELECTs of the UNION"
            raise QueryError("type.mismatch", message, position=branches[-1][1], hint="use CAST")
        types.append(type_)
    inputs = tuple(_with_types(operator, types) for operator in operators)
    return limited(Union(inputs, _shared_event_time(inputs)))


def _with_types(operator: Operator, types: list[t.DataType]) -> Operator:
    if [field.type for field in operator.schema] == types:
        return operator
    if isinstance(operator, Select):
        pairs = zip(operator.columns, types, strict=True)
        columns = tuple((name, canonical(convert(value, type_))) for (name, value), type_ in pairs)
        kept = operator.event_time
        same = kept is None or dict(columns)[kept] == dict(operator.columns)[kept]
        return replace(operator, columns=columns, event_time=kept if same else None)
    pairs_ = zip(operator.schema, types, strict=True)
    return projected(
        operator,
        tuple((f.name, convert(Column((f.name,), f.type), type_)) for f, type_ in pairs_),
    )


def _shared_event_time(inputs: tuple[Operator, ...]) -> str | None:
    """Return the first's event time if all have theirs at the same place."""
    places = {
        input_.schema.names.index(input_.event_time) if input_.event_time is not None else None
        for input_ in inputs
    }
    return inputs[0].event_time if len(places) == 1 else None
