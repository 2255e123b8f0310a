"""Queries in normal form: a trunk, one predicate, and outputs computed from the trunk's columns.

Chains of where and select are folded by substitution, so that they cost nothing where several
queries share a scan. They are folded over joins too: what a join drops of its input, or computes
from it, is then dropped, computed and counted per query. Unions above are taken apart, so that
each part runs where its source is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import InternalError
from evenflow.graph.canonical import canonical
from evenflow.graph.joining import table_prefix
from evenflow.model.expression import TRUE, Call, Column, Expression, rewrite
from evenflow.model.operator import Aggregate, Join, Select, Union, Where
from evenflow.model.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from evenflow.model.operator import Operator


@dataclass(frozen=True, slots=True)
class Flat:
    """`SELECT outputs FROM trunk WHERE predicate`."""

    trunk: Operator
    """A source, join, union, apply or aggregate."""
    predicate: Expression
    outputs: tuple[tuple[str, Expression], ...]


def flatten(operator: Operator) -> Iterator[Flat]:
    """Yield the branches whose union is the operator's output; one unless it has a union."""
    match operator:
        case Where(input=below, predicate=predicate):
            yield from (_filtered(flat, predicate) for flat in flatten(below))
        case Select(input=below, columns=columns):
            yield from (_computed(flat, columns) for flat in flatten(below))
        case Union(inputs=inputs):
            names = operator.schema.names
            for each in inputs:
                for flat in flatten(each):
                    renamed = zip(names, (e for _, e in flat.outputs), strict=True)
                    yield Flat(flat.trunk, flat.predicate, tuple(renamed))
        case _:
            yield _flat(operator)


def flatten_input(aggregate: Aggregate) -> Flat:
    """Return the normal form of an aggregate's input, which is one stream: unions stay whole."""
    return _flat(aggregate.input)


def _flat(operator: Operator) -> Flat:
    match operator:
        case Where(input=below, predicate=predicate):
            return _filtered(_flat(below), predicate)
        case Select(input=below, columns=columns):
            return _computed(_flat(below), columns)
        case Join():
            return _folded(operator, _flat(operator.input))
        case _:
            return identity(operator)


def _filtered(flat: Flat, predicate: Expression) -> Flat:
    both = conjunction(flat.predicate, substitute(predicate, dict(flat.outputs)))
    return Flat(flat.trunk, both, flat.outputs)


def _computed(flat: Flat, columns: Sequence[tuple[str, Expression]]) -> Flat:
    known = dict(flat.outputs)
    outputs = tuple((name, substitute(e, known)) for name, e in columns)
    return Flat(flat.trunk, flat.predicate, outputs)


def _folded(join: Join, below: Flat) -> Flat:
    """Return the join straight on the trunk of its input, and what was between above it."""
    known = dict(below.outputs)
    keys = tuple((substitute(e, known), column) for e, column in join.keys)
    prefix = table_prefix(below.trunk, join.table)
    lower = Join(below.trunk, join.table, join.join_type, keys, prefix)
    columns = (
        (join.table_prefix + f.name, Column((prefix + f.name,), f.type)) for f in join.table.schema
    )
    return Flat(lower, below.predicate, (*below.outputs, *columns))


def identity(operator: Operator) -> Flat:
    """Return the operator as its own trunk."""
    return Flat(operator, TRUE, tuple((f.name, Column((f.name,), f.type)) for f in operator.schema))


def conjunction(left: Expression, right: Expression) -> Expression:
    """Return the canonical form of `left AND right`."""
    return canonical(Call("and", (left, right), BOOLEAN))


def substitute(expression: Expression, known: Mapping[str, Expression]) -> Expression:
    """Replace columns by what they were computed from, and tidy up."""

    def change(each: Expression) -> Expression:
        if not isinstance(each, Column):
            return each
        base = known[each.path[0]]
        if len(each.path) == 1:
            return base
        if not isinstance(base, Column):
            raise InternalError(f"{base} has no fields")
        return Column((*base.path, *each.path[1:]), each.type)

    return canonical(rewrite(expression, change))
