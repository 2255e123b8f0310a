"""Expressions of the SQL dialect: a precedence-climbing parser over tokens.

Precedence is Spark's: OR, AND, NOT, one predicate (IS, IN, LIKE, BETWEEN), comparisons, `+ - ||`,
`* / %`, signs, then fields and `::`. Chains of AND, OR and `||` are one node, however long.
"""

from __future__ import annotations

from evenflow.errors import ConfigError, QueryError
from evenflow.graph import syntax as s
from evenflow.graph.literals import moment, number
from evenflow.graph.tokens import FORBIDDEN, MAX_DEPTH, RESERVED, Token, tokenise
from evenflow.model import types as t
from evenflow.model.schema import parse_type

MAX_LIST = 500
"""Items of an IN list or arguments of a function."""

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(1, 9)
_CHAINS = {"OR": (_OR, "or"), "AND": (_AND, "and"), "||": (_SUM, "||")}
_BINARY = {
    **dict.fromkeys(("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"), _COMPARISON),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}
_SPELLINGS = {"==": "=", "!=": "<>"}
_PREDICATES = frozenset(("IS", "IN", "LIKE", "BETWEEN", "NOT"))
_CONSTANTS = {"NULL": (None, t.NULL), "TRUE": (True, t.BOOLEAN), "FALSE": (False, t.BOOLEAN)}
_MOMENTS = {"DATE": t.DATE, "TIMESTAMP": t.TIMESTAMP}


class ExpressionParser:
    """A cursor over the tokens of one text, and the rules for expressions."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenise(text)
        self._at = 0
        self._now = self._tokens[0]
        self._depth = 0

    def expression(self) -> s.Node:
        """Parse `OR` and everything that binds tighter."""
        self._descend()
        node = self._climb(_OR)
        self._depth -= 1
        return node

    # The cursor.

    def _advance(self) -> Token:
        token = self._now
        if token.kind != "end":
            self._at += 1
            self._now = self._tokens[self._at]
        return token

    def _next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _take(self, word: str) -> bool:
        if self._now.upper != word:
            return False
        self._advance()
        return True

    def _expect(self, word: str) -> Token:
        if self._now.upper != word:
            raise self._unexpected(f"expected {word}")
        return self._advance()

    def _unexpected(self, wanted: str | None = None) -> QueryError:
        token = self._now
        if token.upper in FORBIDDEN:
            message = f"{FORBIDDEN[token.upper]} cannot be used here"
            return QueryError("sql.forbidden", message, position=token.position)
        found = "the end" if token.kind == "end" else f"{token.text[:30]!r}"
        message = f"{wanted}, found {found}" if wanted else f"unexpected {found}"
        return QueryError("sql.syntax", message, position=token.position)

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH + 1:
            message = f"nested more than {MAX_DEPTH} levels deep"
            raise QueryError("sql.limit", message, position=self._now.position)

    def _limit(self, what: str, count: int, limit: int) -> None:
        if count > limit:
            message = f"more than {limit} {what}"
            raise QueryError("sql.limit", message, position=self._now.position)

    def _identifier(self, what: str, *, reserved: bool = False) -> Token:
        """Take a name; `reserved` words only where nothing else could stand."""
        token = self._now
        if token.kind == "quoted":
            return self._advance()
        if token.kind == "word" and (reserved or token.upper not in RESERVED):
            return self._advance()
        raise self._unexpected(f"expected {what}")

    # Operators.

    def _climb(self, lowest: int) -> s.Node:
        left = self._prefix(lowest)
        highest = _SIGN
        while True:
            token = self._now
            if token.upper in _CHAINS:
                level, name = _CHAINS[token.upper]
                if not lowest <= level <= highest:
                    return left
                left = self._chain(left, token, level, name)
            elif token.upper in _BINARY and token.kind == "operator":
                level = _BINARY[token.upper]
                if not lowest <= level <= highest:
                    return left
                self._advance()
                right = self._climb(level + 1)
                name = _SPELLINGS.get(token.upper, token.upper)
                left = s.Operation(name, (left, right), token.position)
            elif token.upper in _PREDICATES and lowest <= _PREDICATE <= highest:
                left = self._predicate(left)
                highest = _NOT
            else:
                return left

    def _chain(self, first: s.Node, token: Token, level: int, name: str) -> s.Node:
        operands = [first]
        while self._take(token.upper):
            operands.append(self._climb(level + 1))
        return s.Operation(name, tuple(operands), token.position)

    def _predicate(self, left: s.Node) -> s.Node:
        token = self._now
        negated = self._take("NOT")
        match self._now.upper:
            case "IS" if not negated:
                return self._is(left)
            case "IN":
                node: s.Node = self._in(left)
            case "LIKE":
                node = self._like(left)
            case "BETWEEN":
                at = self._advance().position
                low = self._climb(_COMPARISON)
                self._expect("AND")
                node = s.Operation("between", (left, low, self._climb(_COMPARISON)), at)
            case _:
                raise self._unexpected("expected IN, LIKE or BETWEEN")
        return s.Operation("not", (node,), token.position) if negated else node

    def _is(self, left: s.Node) -> s.Node:
        at = self._advance().position
        negated = self._take("NOT")
        match self._now.upper:
            case "NULL" | "TRUE" | "FALSE" as word:
                self._advance()
                node = s.Operation(f"is_{word.lower()}", (left,), at)
            case "DISTINCT":
                self._advance()
                self._expect("FROM")
                node = s.Operation("<=>", (left, self._climb(_SUM)), at)
                negated = not negated
            case _:
                raise self._unexpected("expected NULL, TRUE, FALSE or DISTINCT FROM")
        return s.Operation("not", (node,), at) if negated else node

    def _in(self, left: s.Node) -> s.Node:
        at = self._advance().position
        self._expect("(")
        return s.Operation("in", (left, *self._list("items of IN")), at)

    def _like(self, left: s.Node) -> s.Node:
        at = self._advance().position
        operands = [left, self._climb(_COMPARISON)]
        if self._take("ESCAPE"):
            if self._now.kind != "string":
                raise self._unexpected("expected a character in quotes")
            token = self._advance()
            operands.append(s.Constant(token.text, t.STRING, token.position))
        return s.Operation("like", tuple(operands), at)

    def _list(self, what: str) -> list[s.Node]:
        """Parse expressions up to the closing parenthesis."""
        nodes = [self.expression()]
        while self._take(","):
            nodes.append(self.expression())
            self._limit(what, len(nodes), MAX_LIST)
        self._expect(")")
        return nodes

    # Operands.

    def _prefix(self, lowest: int) -> s.Node:
        token = self._now
        if token.upper == "NOT" and lowest <= _NOT:
            self._advance()
            self._descend()
            node: s.Node = s.Operation("not", (self._climb(_NOT),), token.position)
            self._depth -= 1
            return node
        if token.upper in ("-", "+"):
            return self._signed()
        return self._postfix(self._primary())

    def _signed(self) -> s.Node:
        sign = self._advance()
        if sign.upper == "-" and (found := self._number(negative=True)) is not None:
            return self._postfix(found)
        self._descend()
        operand = self._climb(_SIGN)
        self._depth -= 1
        return s.Operation("neg", (operand,), sign.position) if sign.upper == "-" else operand

    def _number(self, *, negative: bool = False) -> s.Node | None:
        token, after = self._now, self._next()
        if token.kind == "number":
            self._advance()
            return number(token.text, token.position, negative=negative)
        if token.upper == "." and after.kind == "number" and after.position == token.position + 1:
            self._advance()
            self._advance()
            return number("." + after.text, token.position, negative=negative)
        return None

    def _postfix(self, node: s.Node) -> s.Node:
        while True:
            token = self._now
            if token.upper == "::":
                self._advance()
                node = s.Conversion(node, self._type(), token.position)
            elif token.upper == "." and not isinstance(node, s.Constant):
                self._advance()
                field = self._identifier("a field", reserved=True)
                node = s.Member(node, field.text, field.position)
            else:
                return node

    def _primary(self) -> s.Node:
        token = self._now
        if (found := self._number()) is not None:
            return found
        match token.kind:
            case "string":
                self._advance()
                return s.Constant(token.text, t.STRING, token.position)
            case "quoted":
                return self._name()
            case "word":
                return self._word()
        if token.upper == "(":
            return self._parenthesis()
        raise self._unexpected("expected an expression")

    def _parenthesis(self) -> s.Node:
        self._expect("(")
        node = self.expression()
        if self._now.upper == ",":
            message = "lists of values are allowed after IN only"
            raise QueryError("sql.forbidden", message, position=self._now.position)
        self._expect(")")
        return node

    def _word(self) -> s.Node:
        token, after = self._now, self._next()
        if token.upper in _CONSTANTS:
            self._advance()
            value, type_ = _CONSTANTS[token.upper]
            return s.Constant(value, type_, token.position)
        if token.upper == "CASE":
            return self._case()
        if token.upper == "CAST":
            return self._cast()
        if token.upper in _MOMENTS and after.kind == "string":
            self._advance()
            text = self._advance().text
            return moment(text, _MOMENTS[token.upper], token.position)
        if token.upper == "INTERVAL" and after.kind in ("string", "number"):
            raise self._unexpected()
        if token.upper in RESERVED:
            raise self._unexpected("expected an expression")
        return self._call() if after.upper == "(" else self._name()

    def _name(self) -> s.Node:
        first = self._identifier("a name")
        if first.kind == "quoted" and self._now.upper == "(":
            raise self._unexpected("expected an operator")
        parts = [first.text]
        while self._now.upper == "." and self._next().kind in ("word", "quoted"):
            self._advance()
            parts.append(self._advance().text)
            self._limit("parts of a name", len(parts), MAX_DEPTH)
        return s.Name(tuple(parts), first.position)

    def _call(self) -> s.Node:
        token = self._advance()
        self._expect("(")
        if self._now.upper == "DISTINCT":
            raise QueryError(
                "sql.forbidden",
                "DISTINCT inside an aggregate cannot be used here",
                position=self._now.position,
                hint="use approx_count_distinct(x)",
            )
        name, star, arguments = token.text.lower(), False, []
        if name == "count" and self._take("*"):
            star = True
            self._expect(")")
        elif not self._take(")"):
            arguments = self._list("arguments")
        condition = self._filter()
        if self._now.upper == "OVER":
            raise self._unexpected()
        return s.FunctionCall(name, tuple(arguments), token.position, condition, star)

    def _filter(self) -> s.Node | None:
        if self._now.upper != "FILTER" or self._next().upper != "(":
            return None
        self._advance()
        self._advance()
        self._expect("WHERE")
        condition = self.expression()
        self._expect(")")
        return condition

    def _case(self) -> s.Node:
        at = self._advance().position
        operand = None if self._now.upper == "WHEN" else self.expression()
        branches: list[tuple[s.Node, s.Node]] = []
        while self._take("WHEN"):
            when = self.expression()
            self._expect("THEN")
            branches.append((when, self.expression()))
            self._limit("branches of CASE", len(branches), MAX_LIST)
        if not branches:
            raise self._unexpected("expected WHEN")
        otherwise = self.expression() if self._take("ELSE") else None
        self._expect("END")
        return s.Choice(operand, tuple(branches), otherwise, at)

    def _cast(self) -> s.Node:
        at = self._advance().position
        self._expect("(")
        operand = self.expression()
        self._expect("AS")
        type_ = self._type()
        self._expect(")")
        return s.Conversion(operand, type_, at)

    def _type(self) -> t.DataType:
        token = self._identifier("a type")
        text = token.text
        if text.upper() in ("DECIMAL", "NUMERIC", "DEC") and self._take("("):
            sizes = [self._size()]
            if self._take(","):
                sizes.append(self._size())
            self._expect(")")
            text = f"{text}({','.join(sizes)})"
        try:
            return parse_type(text)
        except ConfigError as exc:
            message = exc.message.removeprefix("schema: ")
            raise QueryError("sql.syntax", message, position=token.position, hint=exc.hint) from exc

    def _size(self) -> str:
        if self._now.kind != "number":
            raise self._unexpected("expected a number")
        return self._advance().text
