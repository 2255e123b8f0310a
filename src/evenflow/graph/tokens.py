"""SQL text to tokens, with every limit on the text checked before work is spent on it.

Spark's lexical rules (escapes, numbers, quoting) come from sqlglot's tokenizer, which is imported
here only. It is given no keywords: which words mean something is decided by the parser.
"""

from __future__ import annotations

import re
from typing import ClassVar, NamedTuple

from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from evenflow.errors import QueryError

MAX_TEXT = 10_000
MAX_TOKENS = 2_050
MAX_DEPTH = 50
MAX_NAME = 128


def _words(text: str) -> list[str]:
    return text.split()


RESERVED = frozenset(
    _words(
        "SELECT DISTINCT FROM WHERE GROUP BY HAVING UNION ALL JOIN INNER LEFT ON USING AS AND OR "
        "NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END TRUE FALSE CAST"
    )
)
"""Not a column's name unless it stands in backquotes or after a dot."""

_STATEMENTS = _words(
    "INSERT UPDATE DELETE MERGE DROP CREATE ALTER TRUNCATE REPLACE SET RESET USE SHOW DESCRIBE "
    "DESC EXPLAIN CACHE UNCACHE ADD LIST GRANT REVOKE LOAD REFRESH CALL EXECUTE COPY MSCK ANALYZE "
    "BEGIN DECLARE COMMIT"
)

FORBIDDEN: dict[str, str] = {
    **{word: f"{word} statements" for word in _STATEMENTS},
    **{w: w for w in _words("LIMIT OFFSET FETCH LATERAL PIVOT UNPIVOT QUALIFY MATCH")},
    **{w: f"{w} joins" for w in _words("CROSS RIGHT FULL NATURAL SEMI ANTI")},
    **{w: f"{w} BY" for w in _words("ORDER SORT CLUSTER DISTRIBUTE")},
    **dict.fromkeys(("EXCEPT", "INTERSECT", "MINUS"), "set operations other than UNION ALL"),
    **dict.fromkeys(("RLIKE", "REGEXP", "ILIKE", "SIMILAR"), "pattern matching other than LIKE"),
    **dict.fromkeys(("ROLLUP", "CUBE", "GROUPING"), "grouping sets"),
    "OUTER": "outer joins other than LEFT",
    "SELECT": "sub-selects",
    "WITH": "WITH",
    "VALUES": "VALUES",
    "TABLE": "TABLE",
    "OVER": "window functions (OVER)",
    "WINDOW": "a WINDOW clause",
    "WITHIN": "WITHIN GROUP",
    "TABLESAMPLE": "TABLESAMPLE",
    "INTERVAL": "intervals",
    "EXISTS": "EXISTS",
    "DIV": "DIV",
}
"""Words that other SQL gives a meaning, and what is refused when one stands where no name can."""

NO_IMPLICIT_ALIAS = RESERVED | FORBIDDEN.keys()
"""After an expression or a table these are never an alias without AS."""

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PIECE = re.compile(
    r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|`[^`]*`?|--|/\*|\w+|\s+|.""", re.DOTALL
)
_BLANKS = str.maketrans("\t\n\r", "   ")
_REASONS = {
    **dict.fromkeys("?:@${}", "parameters are not allowed"),
    **dict.fromkeys("[]", "arrays and maps are not supported"),
    **dict.fromkeys(("->", "=>"), "lambdas and named arguments are not supported"),
}
_OPERATORS = frozenset(_words("( ) , . ; + - * / % < > = == <= >= <> != <=> || ::"))


class Token(NamedTuple):
    """A piece of the text."""

    kind: str
    """word, quoted, string, number, operator or end."""
    text: str
    """The content: unquoted, unescaped. Of a word, as it was written."""
    upper: str
    """What the parser looks at: a word in capitals, an operator; empty for all others."""
    position: int


class _Tokenizer(Spark.Tokenizer):
    """Spark's lexical rules without keywords, commands and binary literals."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: kind
        for word, kind in Spark.Tokenizer.KEYWORDS.items()
        if word in _OPERATORS or word in _REASONS
    }
    COMMANDS: ClassVar[set[TokenType]] = set()
    RAW_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
    BIT_STRINGS: ClassVar[list[str | tuple[str, str]]] = []


def tokenise(text: str) -> list[Token]:
    """Return the tokens of a text, ended by one of kind `end`.

    Raises:
        QueryError: The text is too long, too deep, has comments or is no SQL at all.
    """
    _check_text(text)
    _check_pieces(text)
    try:
        found = _Tokenizer(dialect=Spark()).tokenize(text)
    except TokenError as exc:
        message = "a quote is opened and never closed"
        raise QueryError("sql.syntax", message, position=_last_quote(text)) from exc
    tokens: list[Token] = []
    end = -1
    for each in found:
        if each.comments:
            raise QueryError("sql.forbidden", "comments are not allowed", position=each.start)
        token = _token(each.token_type, each.text, each.start)
        # 'it''s' arrives as two strings without a gap.
        if each.start == end + 1 and token.kind == "string" and _doubled(tokens, each.start, text):
            last = tokens.pop()
            token = Token("string", last.text + text[each.start] + token.text, "", last.position)
        tokens.append(token)
        end = each.end
    tokens.append(Token("end", "", "", len(text)))
    return tokens


def _doubled(tokens: list[Token], start: int, text: str) -> bool:
    """Whether the string that begins here continues the last token after a doubled quote."""
    return bool(tokens) and tokens[-1].kind == "string" and text[start] == text[start - 1]


def _token(kind: TokenType, text: str, start: int) -> Token:
    if kind is TokenType.VAR:
        return _word(text, start)
    if text in _OPERATORS and kind not in (TokenType.STRING, TokenType.IDENTIFIER):
        return Token("operator", text, text, start)
    if kind is TokenType.NUMBER:
        return Token("number", text, "", start)
    if kind is TokenType.STRING:
        return Token("string", text, "", start)
    if kind is TokenType.IDENTIFIER:
        if not text or "`" in text or len(text) > MAX_NAME:
            message = f"a quoted name has 1 to {MAX_NAME} characters and no backquote"
            raise QueryError("sql.syntax", message, position=start)
        return Token("quoted", text, "", start)
    if text in _REASONS:
        raise QueryError("sql.forbidden", _REASONS[text], position=start)
    raise QueryError("sql.syntax", f"unexpected {text!r}", position=start)


def _word(text: str, start: int) -> Token:
    if WORD.match(text):
        if len(text) > MAX_NAME:
            raise QueryError("sql.limit", "a name is too long", position=start)
        return Token("word", text, text.upper(), start)
    if text[0] in "0123456789":
        return Token("number", text, "", start)
    raise QueryError(
        "sql.syntax",
        f"unexpected {text[:20]!r}",
        position=start,
        hint="names with other characters than letters, digits and _ stand in `backquotes`",
    )


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise QueryError("sql.syntax", "a query is written as text")
    if len(text) > MAX_TEXT:
        raise QueryError("sql.limit", f"the text is longer than {MAX_TEXT} characters")
    if not text.translate(_BLANKS).isprintable():
        at = next(i for i, c in enumerate(text) if not (c in "\t\n\r" or c.isprintable()))
        raise QueryError(
            "sql.syntax", f"character U+{ord(text[at]):04X} is not allowed", position=at
        )


def _check_pieces(text: str) -> None:
    """Refuse comments, and count, before any slower code sees the text."""
    depth = count = 0
    for piece in _PIECE.finditer(text):
        shown = piece.group()
        if shown.isspace():
            continue
        count += 1
        if shown in ("--", "/*"):
            message = "comments and hints are not allowed"
            raise QueryError("sql.forbidden", message, position=piece.start())
        if shown == "(":
            depth += 1
        elif shown == ")":
            depth -= 1
        if count > MAX_TOKENS:
            message = f"the text has more than {MAX_TOKENS} words and signs"
            raise QueryError("sql.limit", message, position=piece.start())
        if depth > MAX_DEPTH:
            message = f"nested more than {MAX_DEPTH} levels deep"
            raise QueryError("sql.limit", message, position=piece.start())


def _last_quote(text: str) -> int:
    """Return where the last quoted piece begins: the one that runs into the end of the text."""
    starts = (p.start() for p in _PIECE.finditer(text) if p.group()[0] in "'\"`")
    return max(starts, default=0)
