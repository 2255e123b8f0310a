"""Syntax to bound expressions: names become columns, operators and functions become calls.

Types are checked and conversions made explicit here. What is not in the catalogue ends here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from evenflow.errors import QueryError
from evenflow.graph import syntax as s
from evenflow.graph.literals import moment
from evenflow.graph.scope import member
from evenflow.model import types as t
from evenflow.model.coercion import can_cast, common, convert
from evenflow.model.expression import FALSE, TRUE, Call, Case, Cast, Column, Literal
from evenflow.model.functions import AGGREGATES, FUNCTIONS, TRUNCATE_UNITS, signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenflow.graph.scope import Scope
    from evenflow.model.expression import Expression

MAX_HEIGHT = 100
"""Levels of an expression: code that walks it recurses this deep a few times over."""

MAX_NODES = 3_000
"""Parts of all expressions of a statement, with everything that is written once and used twice."""

INSIDE_AGGREGATE = "inside an aggregate"

_ALIASES = {
    "pow": "power",
    "ceiling": "ceil",
    "log": "ln",
    "signum": "sign",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substr": "substring",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "mod": "%",
    "dayofmonth": "day",
    "iff": "if",
}
_AGGREGATE_ALIASES = {"mean": "avg", "std": "stddev", "stddev_samp": "stddev"}
_SWAPPED = {">": "<", ">=": "<="}
_MEETING = frozenset(("=", "<=>", "<", "<=", "in", "coalesce", "greatest", "least"))
"""Functions whose arguments take one type; a text beside a date is read as a date."""


def aggregate_name(node: s.Node) -> str | None:
    """Return the catalogue name of an aggregate call; None for any other node."""
    if not isinstance(node, s.FunctionCall):
        return None
    name = _AGGREGATE_ALIASES.get(node.name, node.name)
    return name if name in AGGREGATES else None


class Budget:
    """Counts the parts of a statement's expressions, so that no text can make them explode."""

    def __init__(self, limit: int = MAX_NODES) -> None:
        self.spent = 0
        self._limit = limit

    def spend(self, count: int, node: s.Node) -> None:
        """Count parts.

        Raises:
            QueryError: There are too many.
        """
        self.spent += count
        if self.spent > self._limit:
            message = "the expressions are too large"
            raise QueryError("sql.limit", message, position=node.position)


class Groups(Protocol):
    """What a binder asks where aggregates and windows may be written."""

    def bind_window(self, node: s.FunctionCall) -> Expression:
        """Return what stands for `window(...)`."""
        ...

    def bind_aggregate(self, name: str, node: s.FunctionCall) -> Expression:
        """Return what stands for an aggregate."""
        ...

    def find(self, name: s.Name) -> Expression | None:
        """Return what a name means here before it is looked up among the input's columns."""
        ...


class Binder:
    """Binds the expressions of one place of a statement: one scope, one set of rules."""

    def __init__(
        self,
        scope: Scope,
        budget: Budget | None = None,
        groups: Groups | None = None,
        place: str = "here",
        *,
        prefers_named: bool = False,
    ) -> None:
        self.scope = scope
        self.budget = budget or Budget()
        self.positions: dict[tuple[str, ...], int | None] = {}
        """Where each column was first named, for messages that come later."""
        self.named: dict[str, tuple[Expression, int]] = {}
        """Names given by AS that may be used, in lower case, with the size of each."""
        self._groups = groups
        self._place = place
        self._prefers_named = prefers_named

    def bind(self, node: s.Node) -> Expression:
        """Return the bound expression.

        Raises:
            QueryError: A name, function, type or literal is wrong.
        """
        if s.height(node) > MAX_HEIGHT:
            message = f"the expression has more than {MAX_HEIGHT} levels"
            raise QueryError("sql.limit", message, position=node.position)
        return self._bind(node)

    def boolean(self, node: s.Node) -> Expression:
        """Return the bound condition.

        Raises:
            QueryError: As `bind`; also if it is not a condition.
        """
        bound = self.bind(node)
        if bound.type not in (t.BOOLEAN, t.NULL):
            self._fail("type.mismatch", f"a condition is BOOLEAN, not {bound.type}", node)
        return convert(bound, t.BOOLEAN)

    def _fail(self, code: str, message: str, node: s.Node, hint: str | None = None) -> NoReturn:
        raise QueryError(code, message, position=node.position, hint=hint)

    def _bind(self, node: s.Node) -> Expression:
        self.budget.spend(1, node)
        if isinstance(node, s.Name):
            return self._name(node)
        if isinstance(node, s.Operation):
            return self._operation(node)
        match node:
            case s.Constant(value=value, type=type_):
                return Literal(value, type_)
            case s.FunctionCall():
                return self._function(node)
            case s.Conversion():
                return self._conversion(node)
            case s.Choice():
                return self._choice(node)
            case s.Member(operand=operand, field=field):
                return member(self._bind(operand), (field,), node.position)

    def _bind_all(self, nodes: Sequence[s.Node]) -> list[Expression]:
        return [self._bind(node) for node in nodes]

    def _name(self, node: s.Name) -> Expression:
        found = self._groups.find(node) if self._groups is not None else None
        named = self.named.get(node.parts[0].lower())
        if found is None and not (named is not None and self._prefers_named):
            found = self.scope.find(node.parts, node.position)
        if found is None and named is not None:
            self.budget.spend(named[1], node)
            return member(named[0], node.parts[1:], node.position)
        if found is None:
            raise self.scope.unknown(node.parts, node.position)
        if isinstance(found, Column):
            self.positions.setdefault(found.path, node.position)
        return found

    def call(self, name: str, arguments: Sequence[Expression], nodes: Sequence[s.Node]) -> Call:
        """Return a call with its arguments converted; the last node is where faults are shown."""
        if name in _MEETING:
            arguments = self._read_moments(arguments, nodes)
        try:
            found = signature(name, tuple(arguments))
        except QueryError as exc:
            self._fail(exc.code, exc.message, nodes[-1], exc.hint)
        converted = [
            a if a.type is type_ else convert(a, type_)
            for a, type_ in zip(arguments, found.arguments, strict=True)
        ]
        return Call(name, tuple(converted), found.result)

    def _read_moments(
        self, values: Sequence[Expression], nodes: Sequence[s.Node]
    ) -> Sequence[Expression]:
        """Read texts as dates or instants where the other values are such."""
        kinds = [e.type for e in values if isinstance(e.type, t.DateType | t.TimestampType)]
        type_ = common(kinds)
        if not kinds or type_ is None:
            return values
        return [
            Literal(moment(e.value, type_, node.position).value, type_)
            if isinstance(e, Literal) and isinstance(e.value, str)
            else e
            for e, node in zip(values, nodes, strict=False)
        ]

    def _operation(self, node: s.Operation) -> Expression:
        operator, nodes = node.operator, (*node.operands, node)
        if operator == "between":
            return self._between(node)
        values = [self._bind(operand) for operand in node.operands]
        if operator in FUNCTIONS and operator != "like":
            return self.call(operator, values, nodes)
        match operator:
            case ">" | ">=":
                left, right = node.operands
                return self.call(_SWAPPED[operator], values[::-1], (right, left, node))
            case "<>":
                return self.call("not", [self.call("=", values, nodes)], (node, node))
            case "||":
                return self.call("concat", values, nodes)
            case "is_true" | "is_false":
                wanted = TRUE if operator == "is_true" else FALSE
                return self.call("<=>", [*values, wanted], nodes)
            case "like" if values[2:] == [Literal("\\", t.STRING)]:
                return self.call("like", values[:2], nodes)
        return self.call(operator, values, nodes)

    def _between(self, node: s.Operation) -> Expression:
        operand, low, high = node.operands
        before = self.budget.spent
        value = self._bind(operand)
        self.budget.spend(self.budget.spent - before, node)
        least, most = self._bind(low), self._bind(high)
        tests = [
            self.call("<=", [least, value], (low, operand, node)),
            self.call("<=", [value, most], (operand, high, node)),
        ]
        return self.call("and", tests, (node, node, node))

    def _conversion(self, node: s.Conversion) -> Expression:
        value = self._bind(node.operand)
        if not can_cast(value.type, node.type):
            self._fail("type.mismatch", f"CAST from {value.type} to {node.type} is not there", node)
        is_constant = isinstance(value, Literal) and value.value is not None
        if is_constant and isinstance(node.type, t.IntegerType):
            # Not a literal to the rules for decimals, which look at the digits of literals.
            return Cast(value, node.type)
        return convert(value, node.type)

    def _choice(self, node: s.Choice) -> Expression:
        before = self.budget.spent
        subject = None if node.operand is None else self._bind(node.operand)
        size = self.budget.spent - before
        conditions: list[Expression] = []
        for when, _ in node.branches:
            value = self._bind(when)
            if subject is not None and node.operand is not None:
                self.budget.spend(size, node)
                value = self.call("=", [subject, value], (node.operand, when, when))
            elif value.type not in (t.BOOLEAN, t.NULL):
                self._fail("type.mismatch", f"WHEN takes BOOLEAN, not {value.type}", when)
            conditions.append(convert(value, t.BOOLEAN))
        results = [then for _, then in node.branches]
        return self._case(conditions, results, node.otherwise, node)

    def _case(
        self,
        conditions: Sequence[Expression],
        results: Sequence[s.Node],
        otherwise: s.Node | None,
        node: s.Node,
    ) -> Expression:
        ends = [*results] if otherwise is None else [*results, otherwise]
        # The rule for results is that of coalesce.
        values = self.call("coalesce", self._bind_all(ends), [*ends, node])
        branches = tuple(zip(conditions, values.arguments, strict=False))
        return Case(branches, None if otherwise is None else values.arguments[-1], values.type)

    def _function(self, node: s.FunctionCall) -> Expression:
        aggregate = aggregate_name(node)
        if aggregate is not None or node.name == "window":
            return self._grouped(aggregate, node)
        name = _ALIASES.get(node.name, node.name)
        if node.condition is not None:
            self._fail("function.arguments", "FILTER belongs to aggregates", node)
        match name:
            case "if":
                return self._if(node)
            case "nullif":
                return self._nullif(node)
            case "to_date":
                return self._to_date(node)
        if name != "%" and (name not in FUNCTIONS or not FUNCTIONS[name].is_called_by_name):
            hint = "docs/sql.md lists the functions"
            self._fail("function.unknown", f"function {name[:60]} is not known", node, hint)
        return self._catalogue(name, node)

    def _grouped(self, aggregate: str | None, node: s.FunctionCall) -> Expression:
        if self._groups is None and aggregate is None:
            message = f"window() cannot be used {self._place}"
            self._fail("window.invalid", message, node, "it belongs in GROUP BY")
        if self._groups is None:
            message = f"an aggregate cannot be used {self._place}"
            code = "aggregate.nested" if self._place == INSIDE_AGGREGATE else "sql.forbidden"
            self._fail(code, message, node, "conditions on aggregates go into HAVING")
        if aggregate is None:
            return self._groups.bind_window(node)
        return self._groups.bind_aggregate(aggregate, node)

    def _catalogue(self, name: str, node: s.FunctionCall) -> Expression:
        values = self._bind_all(node.arguments)
        nodes = (*node.arguments, node)
        match name, values:
            case "replace", [_, _]:
                values.append(Literal("", t.STRING))
            case "round", [_, Literal(value=0, type=t.IntegerType())]:
                values.pop()
            case "date_trunc", [Literal(value=str(unit)), _] if unit.lower() in TRUNCATE_UNITS:
                values[0] = Literal(TRUNCATE_UNITS[unit.lower()], t.STRING)
        return self.call(name, values, nodes)

    def _arity(self, node: s.FunctionCall, count: int) -> None:
        if len(node.arguments) != count:
            self._fail("function.arguments", f"{node.name} takes {count} arguments", node)

    def _if(self, node: s.FunctionCall) -> Expression:
        self._arity(node, 3)
        condition, then, otherwise = node.arguments
        branch = s.Choice(None, ((condition, then),), otherwise, node.position)
        return self._choice(branch)

    def _nullif(self, node: s.FunctionCall) -> Expression:
        self._arity(node, 2)
        before = self.budget.spent
        value = self._bind(node.arguments[0])
        self.budget.spend(self.budget.spent - before, node)
        other = self._bind(node.arguments[1])
        same = self.call("=", [value, other], (*node.arguments, node))
        return Case(((same, Literal(None, value.type)),), value, value.type)

    def _to_date(self, node: s.FunctionCall) -> Expression:
        self._arity(node, 1)
        value = self._bind(node.arguments[0])
        if value.type not in (t.DATE, t.TIMESTAMP, t.NULL):
            message = f"to_date takes TIMESTAMP, not {value.type}"
            self._fail("type.mismatch", message, node, "write CAST(x AS DATE)")
        return convert(value, t.DATE)
