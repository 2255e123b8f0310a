"""Which names can be written at a place, and which columns they mean."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import QueryError
from evenflow.model import types as t
from evenflow.model.expression import Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenflow.model.expression import Expression
    from evenflow.model.operator import Operator

_MAX_HINTED = 100
"""Columns among which a similar name is looked for; more would take too long."""


@dataclass(frozen=True, slots=True)
class Visible:
    """The columns of one stream or table, as users name them, with what they mean below."""

    alias: str | None
    columns: tuple[tuple[str, Expression], ...]
    merged: tuple[str, ...] = ()
    """Lower-case names that USING made one with those of an earlier table."""


class Scope:
    """The streams and tables that can be named. Names are compared without regard to case."""

    def __init__(self, relations: Iterable[Visible]) -> None:
        self.relations = tuple(relations)
        self._by_name: dict[str, list[Expression]] = {}
        self._by_alias: dict[tuple[str, str], Expression] = {}
        for relation in self.relations:
            for name, meaning in relation.columns:
                if name.lower() not in relation.merged:
                    self._by_name.setdefault(name.lower(), []).append(meaning)
                if relation.alias is not None:
                    self._by_alias[relation.alias.lower(), name.lower()] = meaning

    @classmethod
    def of(cls, operator: Operator, alias: str | None = None) -> Scope:
        """Return the scope in which an operator's output is read."""
        columns = tuple((f.name, Column((f.name,), f.type)) for f in operator.schema)
        return cls((Visible(alias, columns),))

    def with_relation(self, relation: Visible) -> Scope:
        """Return a scope with one more table."""
        return Scope((*self.relations, relation))

    def columns(self) -> list[tuple[str, Expression]]:
        """Return what `*` means: as in Spark, columns of USING come first."""
        found: list[tuple[str, Expression]] = []
        for relation in self.relations:
            first = [c for name in relation.merged for c in found if c[0].lower() == name]
            rest = [c for c in found if c[0].lower() not in relation.merged]
            own = [c for c in relation.columns if c[0].lower() not in relation.merged]
            found = [*first, *rest, *own]
        return found

    @property
    def aliases(self) -> frozenset[str]:
        """Lower-case names of the streams and tables."""
        return frozenset(r.alias.lower() for r in self.relations if r.alias is not None)

    def find(self, parts: tuple[str, ...], position: int | None = None) -> Expression | None:
        """Return what a name means; None if there is no such column.

        Raises:
            QueryError: It could mean several columns, or names a field that is not there.
        """
        name = parts[0].lower()
        if len(parts) > 1:
            qualified = self._by_alias.get((name, parts[1].lower()))
            if qualified is not None:
                return member(qualified, parts[2:], position)
        found = self._by_name.get(name, ())
        if len(found) > 1:
            message = f"{parts[0]} is a column of several tables"
            hint = f"write {self._qualifiers(name)}"
            raise QueryError("column.ambiguous", message, position=position, hint=hint)
        return member(found[0], parts[1:], position) if found else None

    def unknown(self, parts: tuple[str, ...], position: int | None) -> QueryError:
        """Return the error for a name that means nothing here."""
        names = list(self._by_name)
        near = (
            difflib.get_close_matches(parts[-1][:64].lower(), names, n=1)
            if len(names) <= _MAX_HINTED
            else []
        )
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:8])}"
        message = f"column {'.'.join(parts)[:80]} is not known"
        return QueryError("column.unknown", message, position=position, hint=hint)

    def _qualifiers(self, name: str) -> str:
        return " or ".join(
            f"{alias}.{column}" for alias, column in self._by_alias if column == name
        )


def member(value: Expression, fields: tuple[str, ...], position: int | None) -> Expression:
    """Return a field inside a value.

    Raises:
        QueryError: There is no such field.
    """
    for name in fields:
        inner = value.type.fields if isinstance(value.type, t.StructType) else ()
        field = next((f for f in inner if f.name.lower() == name.lower()), None)
        if field is None or not isinstance(value, Column):
            hint = f"it has {', '.join(f.name for f in inner[:8])}" if inner else None
            message = f"{str(value)[:60]} has no field {name[:60]}"
            raise QueryError("column.unknown", message, position=position, hint=hint)
        value = Column((*value.path, field.name), field.type)
    return value
