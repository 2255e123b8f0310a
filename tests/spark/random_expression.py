"""Random SQL expressions over the tuples of `expression_check`, as trees that know their parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

LEAVES = {
    "boolean": ("flag", "other", "true", "false"),
    "integer": ("tiny", "small", "n", "m", "place.zone", "0", "1", "(-7)", "100"),
    "long": ("big", "3000000000", "unix_seconds(ts)"),
    "double": ("x", "y", "1.5D", "0D"),
    "decimal": ("cent", "rate", "wide", "whole", "share", "0.25", "0.0"),
    "string": ("s", "text", "'a'", "''", "'12'", "place.city"),
    "date": ("day", "date '2026-02-03'"),
    "timestamp": ("ts", "timestamp '2026-02-03 04:05:06'"),
}
NUMBERS = ("integer", "long", "double", "decimal")
PLAIN = (*NUMBERS, "string", "date", "timestamp")


@dataclass(frozen=True)
class Tree:
    """An expression, how it is made of its parts, and what they are."""

    text: str
    rule: str = "strict"
    """strict: an error of any part is one of the whole; and, or, case, coalesce: not always."""
    parts: tuple[Tree, ...] = ()

    def walk(self) -> list[Tree]:
        """Return the tree and everything inside it."""
        return [self, *(inner for part in self.parts for inner in part.walk())]


class Maker:
    """Makes trees of a kind of value. The same seed makes the same trees."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def make(self, kind: str, depth: int) -> Tree:
        """Return an expression of some kind, at most so deep."""
        if depth <= 0 or self._rng.random() < 0.1:
            return Tree(self._rng.choice(LEAVES[kind]))
        forms = ["case", "coalesce", *FORMS[kind]]
        form = self._rng.choice(forms)
        if form == "case":
            condition = self.make("boolean", depth - 1)
            parts = (condition, self.make(kind, depth - 1), self.make(kind, depth - 2))
            text = "(CASE WHEN {} THEN {} ELSE {} END)"
            return Tree(text.format(*(p.text for p in parts)), "case", parts)
        if form == "coalesce":
            first, second = self.make(kind, depth - 1), self.make(kind, depth - 2)
            return Tree(f"coalesce({first.text}, {second.text})", "coalesce", (first, second))
        return self._form(form, depth)

    def _form(self, form: str, depth: int) -> Tree:
        template, *kinds = form.split("|")
        kinds = [self._rng.choice(PLAIN) if k == "any" else k for k in kinds]
        kinds = [self._rng.choice(NUMBERS) if k == "number" else k for k in kinds]
        if kinds and kinds[-1] == "same":
            kinds[-1] = kinds[0]
        parts = tuple(self.make(kind, depth - 1) for kind in kinds)
        rule = {"({} AND {})": "and", "({} OR {})": "or"}.get(template, "strict")
        return Tree(template.format(*(p.text for p in parts)), rule, parts)


_ARITHMETIC = ("({} + {})", "({} - {})", "({} * {})", "({} % {})")
FORMS: dict[str, tuple[str, ...]] = {
    "boolean": (
        "({} AND {})|boolean|boolean",
        "({} OR {})|boolean|boolean",
        "({} AND {})|boolean|boolean",
        "({} OR {})|boolean|boolean",
        "(NOT {})|boolean",
        "({} = {})|number|number",
        "({} < {})|any|same",
        "({} <=> {})|any|same",
        "({} >= {})|number|number",
        "({} <> {})|any|same",
        "({} IS NULL)|any",
        "({} IS NOT TRUE)|boolean",
        "({} LIKE '%a%')|string",
        "({} BETWEEN 0 AND 100)|number",
        "({} IN (1, 2, 42))|integer",
        "({} NOT IN ('abc', '', 'x'))|string",
        "contains({}, {})|string|string",
        "CAST({} AS BOOLEAN)|integer",
    ),
    "integer": (
        *(f"{a}|integer|integer" for a in _ARITHMETIC),
        "(-{})|integer",
        "abs({})|integer",
        "CAST({} AS INT)|number",
        "CAST({} AS INT)|string",
        "CAST({} AS SMALLINT)|integer",
        "length({})|string",
        "year({})|timestamp",
        "dayofweek({})|date",
        "minute({})|timestamp",
    ),
    "long": (
        *(f"{a}|long|integer" for a in _ARITHMETIC),
        "CAST({} AS BIGINT)|number",
        "floor({})|double",
        "unix_millis({})|timestamp",
        "(-{})|long",
    ),
    "double": (
        "({} + {})|double|number",
        "({} / {})|integer|long",
        "({} / {})|double|double",
        "({} % {})|double|double",
        "sqrt({})|number",
        "round({}, 2)|double",
        "power({}, 2)|number",
        "ln({})|double",
        "CAST({} AS DOUBLE)|string",
        "CAST({} AS DOUBLE)|decimal",
    ),
    "decimal": (
        *(f"{a}|decimal|decimal" for a in (*_ARITHMETIC, "({} / {})")),
        *(f"{a}|decimal|integer" for a in (*_ARITHMETIC, "({} / {})")),
        "CAST({} AS DECIMAL(12,3))|number",
        "CAST({} AS DECIMAL(6,1))|string",
        "round({}, 1)|decimal",
        "ceil({})|decimal",
        "abs({})|decimal",
        "(-{})|decimal",
    ),
    "string": (
        "upper({})|string",
        "concat({}, {})|string|string",
        "substring({}, {}, 2)|string|integer",
        "trim({})|string",
        "replace({}, 'a', {})|string|string",
        "CAST({} AS STRING)|number",
        "CAST({} AS STRING)|timestamp",
        "greatest({}, {})|string|string",
    ),
    "date": ("CAST({} AS DATE)|timestamp", "CAST({} AS DATE)|string", "least({}, {})|date|date"),
    "timestamp": (
        "CAST({} AS TIMESTAMP)|date",
        "CAST({} AS TIMESTAMP)|string",
        "CAST({} AS TIMESTAMP)|integer",
        "date_trunc('hour', {})|timestamp",
        "greatest({}, {})|timestamp|date",
    ),
}
"""By kind of result: a template, then the kinds of its parts."""
