"""Queries in normal form: a trunk, one predicate, and outputs computed from the trunk's columns.

Chains of where and select are folded by substitution, so that they cost nothing where several
queries share a scan; unions above are taken apart, so that each part runs where its source is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.errors import InternalError
from evenflow.graph.canonical import canonical
from evenflow.model.expression import TRUE, Call, Column, Expression, rewrite
from evenflow.model.operator import Aggregate, Select, Union, Where
from evenflow.model.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
        case Where(input=source, predicate=predicate):
            for flat in flatten(source):
                both = conjunction(flat.predicate, substitute(predicate, dict(flat.outputs)))
                yield Flat(flat.trunk, both, flat.outputs)
        case Select(input=source, columns=columns):
            for flat in flatten(source):
                known = dict(flat.outputs)
                outputs = tuple((name, substitute(e, known)) for name, e in columns)
                yield Flat(flat.trunk, flat.predicate, outputs)
        case Union(inputs=inputs):
            names = operator.schema.names
            for each in inputs:
                for flat in flatten(each):
                    renamed = zip(names, (e for _, e in flat.outputs), strict=True)
                    yield Flat(flat.trunk, flat.predicate, tuple(renamed))
        case _:
            yield identity(operator)


def flatten_input(aggregate: Aggregate) -> Flat:
    """Return the normal form of an aggregate's input, which is one stream: unions stay whole."""
    chain: list[Operator] = []
    operator: Operator = aggregate.input
    while isinstance(operator, Where | Select):
        chain.append(operator)
        operator = operator.input
    flat = identity(operator)
    for step in reversed(chain):
        known = dict(flat.outputs)
        if isinstance(step, Where):
            predicate = conjunction(flat.predicate, substitute(step.predicate, known))
            flat = Flat(flat.trunk, predicate, flat.outputs)
        elif isinstance(step, Select):
            outputs = tuple((name, substitute(e, known)) for name, e in step.columns)
            flat = Flat(flat.trunk, flat.predicate, outputs)
    return flat


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
