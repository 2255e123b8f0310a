"""What users wrote, before names and types are known. Made by the parser and by the builder.

Every node has a position: the offset of its first character, or of its operator, in the text.
It is None for nodes that were built by code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set

    from evenflow.model.expression import Value
    from evenflow.model.types import DataType


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or a field of one, perhaps qualified: `kwh`, `r.kwh`, `address.city`."""

    parts: tuple[str, ...]
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: Value
    type: DataType
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands.

    Besides the catalogue's: `>`, `>=`, `<>`, `||`, `between`, `is_true`, `is_false`.
    """

    operator: str
    operands: tuple[Node, ...]
    position: int | None = None


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function by the name it was written with, in lower case; perhaps an unknown one."""

    name: str
    arguments: tuple[Node, ...]
    position: int | None = None
    condition: Node | None = None
    """FILTER (WHERE ...)."""
    star: bool = False
    """Whether the argument is `*`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """CASE. With an operand, the branches' first parts are values that it is compared with."""

    operand: Node | None
    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """CAST(operand AS type)."""

    operand: Node
    type: DataType
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A field of something that is not a name: `window(ts, '1 hour').start`."""

    operand: Node
    field: str
    position: int | None = None


Node = Name | Constant | Operation | FunctionCall | Choice | Conversion | Member


@dataclass(frozen=True, slots=True)
class Star:
    """`*` or `alias.*` in a SELECT list."""

    qualifier: str | None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a SELECT list."""

    expression: Node | Star
    alias: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A name after FROM or JOIN, and the name it goes by."""

    name: str
    alias: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class JoinClause:
    """JOIN table ON condition, or USING columns: exactly one of the two."""

    table: Relation
    kind: str
    """`inner` or `left`."""
    condition: Node | None
    using: tuple[Name, ...]
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """One SELECT."""

    items: tuple[Item, ...]
    distinct: bool
    source: Relation
    joins: tuple[JoinClause, ...] = ()
    where: Node | None = None
    group_by: tuple[Node, ...] = ()
    having: Node | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One or more SELECTs, all of whose answers are wanted."""

    branches: tuple[Selection, ...]


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct operands, in order."""
    if isinstance(node, Name | Constant):
        return ()
    if isinstance(node, Operation):
        return node.operands
    match node:
        case FunctionCall(arguments=arguments, condition=condition):
            return arguments if condition is None else (*arguments, condition)
        case Choice(operand=operand, branches=branches, otherwise=otherwise):
            flat = [part for branch in branches for part in branch]
            return tuple(n for n in (operand, *flat, otherwise) if n is not None)
        case Conversion(operand=only) | Member(operand=only):
            return (only,)


def height(node: Node) -> int:
    """Return the number of levels. Works on trees of any depth."""
    deepest, level = 0, [node]
    while level:
        deepest += 1
        level = [child for each in level for child in children(each)]
    return deepest


_WORDS = {"and": "AND", "or": "OR", "like": "LIKE"}


def default_name(node: Node, aliases: Set[str] = frozenset()) -> str:
    """Return what a column without AS is called, as in Spark: `kwh`, `window`, `sum(kwh)`.

    Args:
        node: What was selected.
        aliases: Lower-case names of tables, which are left out.
    """
    match node:
        case Name(parts=parts):
            return parts[-1]
        case Member(field=field):
            return field
        case FunctionCall(name="window"):
            return "window"
    return _text(node, aliases)


def _text(node: Node, aliases: Set[str]) -> str:
    match node:
        case Name(parts=parts):
            shown = parts[1:] if len(parts) > 1 and parts[0].lower() in aliases else parts
            return ".".join(shown)
        case Constant(value=value):
            if value is None:
                return "NULL"
            return str(value).lower() if isinstance(value, bool) else str(value)
        case Member(operand=operand, field=field):
            return f"{_text(operand, aliases)}.{field}"
        case Conversion(operand=operand, type=type_):
            return f"CAST({_text(operand, aliases)} AS {type_})"
        case Choice():
            return _choice(node, aliases)
        case FunctionCall():
            return _call(node, aliases)
        case Operation(operator=operator, operands=operands):
            return _operation(operator, [_text(n, aliases) for n in operands])


def _choice(node: Choice, aliases: Set[str]) -> str:
    parts = ["CASE"]
    if node.operand is not None:
        parts.append(_text(node.operand, aliases))
    parts += [f"WHEN {_text(c, aliases)} THEN {_text(v, aliases)}" for c, v in node.branches]
    if node.otherwise is not None:
        parts.append(f"ELSE {_text(node.otherwise, aliases)}")
    return " ".join([*parts, "END"])


def _call(node: FunctionCall, aliases: Set[str]) -> str:
    inner = "1" if node.star else ", ".join(_text(n, aliases) for n in node.arguments)
    tail = f" FILTER (WHERE {_text(node.condition, aliases)})" if node.condition else ""
    return f"{node.name}({inner}){tail}"


def _operation(operator: str, operands: list[str]) -> str:
    match operator:
        case "not":
            return f"(NOT {operands[0]})"
        case "neg":
            return f"(- {operands[0]})"
        case "is_null" | "is_true" | "is_false":
            return f"({operands[0]} IS {operator[3:].upper()})"
        case "in":
            return f"({operands[0]} IN ({', '.join(operands[1:])}))"
        case "between":
            return f"({operands[0]} BETWEEN {operands[1]} AND {operands[2]})"
        case "||":
            return f"concat({', '.join(operands)})"
        case "like":
            tail = f" ESCAPE {operands[2]}" if len(operands) > 2 else ""
            return f"{operands[0]} LIKE {operands[1]}{tail}"
    return f"({f' {_WORDS.get(operator, operator)} '.join(operands)})"
