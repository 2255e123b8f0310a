"""SQL text to syntax, by recursive descent over a closed grammar (docs/sql.md).

Nothing is evaluated, and no text is kept that anything later could execute. What is not in the
grammar is refused where it stands.
"""

from __future__ import annotations

from evenflow.errors import QueryError
from evenflow.graph import syntax as s
from evenflow.graph.parse_expression import ExpressionParser
from evenflow.graph.tokens import NO_IMPLICIT_ALIAS, WORD, Token

MAX_ITEMS = 500
MAX_JOINS = 16
MAX_BRANCHES = 50


def parse_statement(text: str) -> s.Statement:
    """Return the statement that a text holds.

    Raises:
        QueryError: The text is not one statement of the dialect.
    """
    try:
        return _Parser(text).statement()
    except QueryError as exc:
        raise exc.located(None, text) from exc.__cause__


def parse_item(text: str) -> s.Item:
    """Return the entry of a SELECT list that a text holds: `kwh * 2 AS double`.

    Raises:
        QueryError: The text is not one such entry.
    """
    try:
        return _Parser(text).lone_item()
    except QueryError as exc:
        raise exc.located(None, text) from exc.__cause__


def parse_expression(text: str) -> s.Node:
    """Return the expression that a text holds: `kwh > 1 AND valid`.

    Raises:
        QueryError: The text is not one expression.
    """
    item = parse_item(text)
    if item.alias is not None or isinstance(item.expression, s.Star):
        message = "expected an expression without * and without a name for it"
        raise QueryError("sql.syntax", message, text=text, position=item.position)
    return item.expression


class _Parser(ExpressionParser):
    """The rules for statements."""

    def statement(self) -> s.Statement:
        branches = [self._selection()]
        while self._take("UNION"):
            if self._now.upper != "ALL":
                raise self._forbidden("UNION without ALL", self._now)
            self._advance()
            branches.append(self._selection())
            self._limit("SELECTs", len(branches), MAX_BRANCHES)
        if self._take(";") and self._now.kind != "end":
            raise self._forbidden("a second statement", self._now)
        self._end()
        return s.Statement(tuple(branches))

    def lone_item(self) -> s.Item:
        item = self._item()
        self._end()
        return item

    def _end(self) -> None:
        if self._now.kind != "end":
            raise self._unexpected()

    def _forbidden(self, what: str, token: Token, hint: str | None = None) -> QueryError:
        message = f"{what} cannot be used here"
        return QueryError("sql.forbidden", message, position=token.position, hint=hint)

    def _selection(self) -> s.Selection:
        if self._now.upper != "SELECT":
            raise self._unexpected("expected SELECT")
        at = self._advance().position
        distinct = self._take("DISTINCT")
        items = self._items()
        if self._now.upper != "FROM":
            raise self._unexpected("expected FROM")
        self._advance()
        source = self._relation()
        joins = self._joins()
        where = self.expression() if self._take("WHERE") else None
        group_by = self._group_by()
        having = self.expression() if self._take("HAVING") else None
        return s.Selection(items, distinct, source, joins, where, group_by, having, at)

    def _items(self) -> tuple[s.Item, ...]:
        items = [self._item()]
        while self._take(","):
            items.append(self._item())
            self._limit("columns in SELECT", len(items), MAX_ITEMS)
        return tuple(items)

    def _item(self) -> s.Item:
        at = self._now.position
        if self._take("*"):
            return s.Item(s.Star(None, at), None, at)
        if self._now.kind in ("word", "quoted") and self._star_follows():
            qualifier = self._advance().text
            self._advance()
            self._advance()
            return s.Item(s.Star(qualifier, at), None, at)
        return s.Item(self.expression(), self._alias(), at)

    def _star_follows(self) -> bool:
        following = self._tokens[self._at + 1 : self._at + 3]
        return [token.upper for token in following] == [".", "*"]

    def _alias(self) -> str | None:
        if self._take("AS"):
            return self._identifier("a name").text
        token = self._now
        if token.kind == "quoted" or (
            token.kind == "word" and token.upper not in NO_IMPLICIT_ALIAS
        ):
            return self._advance().text
        return None

    def _relation(self) -> s.Relation:
        token = self._now
        if token.upper == "(":
            raise self._forbidden("a sub-select", token, "give it a query of its own, by name")
        name = self._identifier("the name of a stream or table")
        if self._now.upper == ".":
            raise self._forbidden("a name of several parts", name, "name a stream of this flow")
        if self._now.upper == "(":
            raise self._forbidden("a table function", name)
        if name.kind == "quoted" and not WORD.match(name.text.replace("-", "_")):
            raise self._forbidden("a path or an odd name", name, "name a stream of this flow")
        return s.Relation(name.text, self._alias() or name.text, name.position)

    def _joins(self) -> tuple[s.JoinClause, ...]:
        joins: list[s.JoinClause] = []
        if self._now.upper == ",":
            raise self._forbidden("a comma between tables", self._now, "write JOIN ... ON")
        while self._now.upper in ("JOIN", "INNER", "LEFT"):
            joins.append(self._join())
            self._limit("joins", len(joins), MAX_JOINS)
        return tuple(joins)

    def _join(self) -> s.JoinClause:
        at = self._now.position
        kind = "inner"
        if self._take("LEFT"):
            kind = "left"
            self._take("OUTER")
        else:
            self._take("INNER")
        self._expect("JOIN")
        table = self._relation()
        if self._take("USING"):
            return s.JoinClause(table, kind, None, self._using(), at)
        if self._now.upper != "ON":
            raise self._unexpected("expected ON or USING")
        self._advance()
        return s.JoinClause(table, kind, self.expression(), (), at)

    def _using(self) -> tuple[s.Name, ...]:
        self._expect("(")
        names: list[s.Name] = []
        while True:
            token = self._identifier("a column")
            names.append(s.Name((token.text,), token.position))
            self._limit("columns in USING", len(names), MAX_ITEMS)
            if not self._take(","):
                break
        self._expect(")")
        return tuple(names)

    def _group_by(self) -> tuple[s.Node, ...]:
        if not self._take("GROUP"):
            return ()
        self._expect("BY")
        nodes = [self.expression()]
        while self._take(","):
            nodes.append(self.expression())
            self._limit("columns in GROUP BY", len(nodes), MAX_ITEMS)
        return tuple(nodes)
