"""A seeded generator of texts that someone might hand us to break something."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

VALID = [
    (
        "SELECT meter, window(ts, '1 hour') AS w, sum(kwh) AS kwh FROM readings "
        "GROUP BY meter, window(ts, '1 hour') HAVING sum(kwh) > 8"
    ),
    (
        "SELECT r.meter, s.region, price * 2 AS double FROM readings r LEFT JOIN sites s "
        "ON r.meter = s.meter WHERE kwh BETWEEN 1 AND 2.5 AND NOT valid"
    ),
    "SELECT *, upper(meter) || '!' AS m FROM readings WHERE n IN (1, 2, 3) AND day > '2026-01-01'",
    "SELECT DISTINCT meter, window(ts, '5 minutes') FROM readings",
    "SELECT ts, kwh FROM readings UNION ALL SELECT ts, n FROM readings WHERE id % 7 = 0;",
    (
        "SELECT CASE n WHEN 1 THEN 'a' ELSE coalesce(meter, 'b') END AS c, at.place.city, "
        "CAST(price AS BIGINT), n::string AS t FROM readings WHERE meter LIKE 'a%' OR at.x <=> NULL"
    ),
    (
        "SELECT count(*) FILTER (WHERE valid) AS v, approx_count_distinct(id) + 1 AS u "
        "FROM readings GROUP BY window(ts, '1 hour', '10 minutes')"
    ),
    "SELECT date_trunc('hour', ts) AS h, -n / 3 AS x, round(kwh, 2) AS y, 1.5e3 AS z FROM readings",
]
WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING UNION ALL JOIN LEFT ON USING AS AND OR NOT IN IS NULL LIKE "
    "BETWEEN CASE WHEN THEN ELSE END TRUE FALSE CAST DISTINCT FILTER ORDER LIMIT OVER WITH VALUES "
    "LATERAL EXCEPT INTERVAL ESCAPE TABLE DROP SET EXISTS readings sites plain meter kwh n ts "
    "valid price day at id window reflect q count sum avg upper abs coalesce if nullif round "
    "date_trunc substring greatest"
)
SIGNS = (
    "( ) ( ) , . ; + - * / % = < > <= >= <> != <=> || :: ' \" ` [ ] { } ? : @ $ \\ ~ ! & | ^ # -- "
    "/* */ /*+"
)
VALUES = "1 0 1.5 1e3 1e400 .5 5L 300Y 0x1F 99999999999999999999 1. '' 'a' '2026-01-01' 'it''s' `x`"
TOKENS = [
    *WORDS.split(),
    *SIGNS.split(),
    *VALUES.split(),
    *["'1 hour'", "`a b`", "\n", "\t", "é", "\x00", "\u202e", "😀"],
]
SECRETS = ["EVENFLOW_CANARY", "/proc/self/environ", "/etc/passwd", "{canary}", "file://{canary}"]
ATTACKS = [
    "SELECT reflect('java.lang.System', 'getenv', '{s}') AS x FROM readings",
    "SELECT java_method('java.lang.Runtime', 'getRuntime') AS x FROM readings",
    "SELECT * FROM parquet.`{s}`",
    "SELECT * FROM text.`{s}`",
    "SELECT * FROM `{s}`",
    "SELECT * FROM '{s}'",
    "SELECT * FROM read_files('{s}')",
    "SELECT n FROM readings; DROP TABLE readings",
    "SELECT n FROM readings WHERE n = 1 OR 1 = 1 -- ",
    "SELECT n FROM readings WHERE meter = '' UNION ALL SELECT * FROM csv.`{s}`",
    "SELECT n FROM readings WHERE meter = '{s}' OR reflect('a', 'b') = 'c'",
    "SELECT `{s}` FROM readings",
    "SELECT ${{env:{s}}} AS x FROM readings",
    "SELECT ${{system:user.home}} AS x FROM readings",
    "SELECT meter AS `{s}` FROM readings",
    "SELECT input_file_name(), current_user(), version() FROM readings",
    "SELECT upper('{s}') AS x FROM readings",
    "SELECT load_file('{s}') AS x FROM readings",
    "SELECT CAST('{s}' AS BIGINT) AS x FROM readings",
    "SELECT xpath('{s}', 'a') FROM readings",
    "SET spark.sql.ansi.enabled = false",
    "ADD JAR '{s}'",
    "CREATE FUNCTION f AS '{s}'",
    "SELECT transform(n) USING '{s}' FROM readings",
    "SELECT /*+ BROADCAST({s}) */ n FROM readings",
    "__import__('os').environ['{s}']",
    "' + open('{s}').read() + '",
    "{{{{ {s} }}}}",
    "SELECT try_reflect('a') , f\"{s}\" FROM readings",
]
NESTS: list[Callable[[int], str]] = [
    lambda n: "(" * n + "n" + ")" * n,
    lambda n: "(" * n,
    lambda n: ")" * n,
    lambda n: "abs(" * n + "n" + ")" * n,
    lambda n: "NOT " * n + "valid",
    lambda n: "- " * n + "n",
    lambda n: "+" * n + "n",
    lambda n: "CASE WHEN valid THEN " * n + "n" + " END" * n,
    lambda n: "CAST(" * n + "n" + " AS INT)" * n,
    lambda n: "n" + "::INT" * n,
    lambda n: "at" + ".x" * n,
    lambda n: "n" + " + n" * n,
    lambda n: "valid" + " AND valid" * n,
    lambda n: "meter" + " || meter" * n,
    lambda n: "nullif(" * n + "n" + ", 1)" * n,
    lambda n: "n IN (" * n + "1" + ")" * n,
    lambda n: "(n BETWEEN " * n + "1" + " AND 2)" * n,
    lambda n: "n IN (" + "1, " * n + "1)",
    lambda n: "n" + ", n" * n,
    lambda n: "'" * n,
    lambda n: "`" * n,
    lambda n: "\\" * n,
    lambda n: "'" + "\\'" * n,
    lambda n: "if(valid, " * n + "n" + ", 1)" * n,
    lambda n: "count(" * n + "*" + ")" * n,
]


class Hostile:
    """Makes texts; the same seed makes the same ones."""

    def __init__(self, seed: int, canary_path: str) -> None:
        self._random = random.Random(seed)
        self._secrets = [s.replace("{canary}", canary_path) for s in SECRETS]
        kinds = [self._mutant] * 45 + [self._soup] * 25 + [self._attack] * 15
        self._kinds = (
            kinds + [self._nest] * 6 + [self._number] * 4 + [self._unicode] * 4 + [self._long]
        )

    def text(self) -> str:
        """Return the next text."""
        return self._random.choice(self._kinds)()

    def name(self) -> str:
        """Return a name for a query, mostly a legal one."""
        if self._random.random() < 0.95:
            return "q"
        return self._random.choice(["", "../q", "q;", "Q" * 70, "a b", "readings", "é", "q\n", "-"])

    def _mutant(self) -> str:
        text = self._random.choice(VALID)
        for _ in range(self._random.choice([1, 1, 2, 3, 5])):
            at = self._random.randrange(len(text) + 1)
            end = min(len(text), at + self._random.choice([0, 1, 1, 5, 20]))
            piece = self._random.choice(["", text[at:end] * 2, self._token(), f" {self._token()} "])
            text = text[:at] + piece + text[end:]
        return text

    def _token(self) -> str:
        return self._random.choice(TOKENS)

    def _soup(self) -> str:
        joiner = self._random.choice([" ", " ", ""])
        body = joiner.join(self._token() for _ in range(self._random.randint(1, 60)))
        frame = self._random.choice(["{}", "SELECT {} FROM readings", "SELECT n FROM readings {}"])
        return frame.replace("{}", body)

    def _attack(self) -> str:
        text = self._random.choice(ATTACKS).replace("{s}", self._random.choice(self._secrets))
        return text.replace("{{", "{").replace("}}", "}")

    def _nest(self) -> str:
        body = self._random.choice(NESTS)(
            self._random.choice([2, 10, 49, 50, 51, 99, 101, 400, 2_000])
        )
        frame = self._random.choice(
            ["SELECT {} AS x FROM readings", "SELECT n FROM readings WHERE {}", "{}"]
        )
        return frame.replace("{}", body)

    def _number(self) -> str:
        digits = "9" * self._random.choice([1, 9, 10, 19, 20, 38, 39, 80, 500, 5_000])
        number = self._random.choice(
            ["{}", "-{}", "{}.{}", "1e{}", "{}L", "{}BD", "0.{}", "{}e-{}"]
        )
        return f"SELECT {number.replace('{}', digits)} + n AS x FROM readings"

    def _unicode(self) -> str:
        junk = "".join(
            chr(self._random.choice([0x41, 0x20, 0xE9, 0x202E, 0xFF07, 0x1F600, 0x0, 0x7F, 0xD800]))
            for _ in range(self._random.randint(1, 30))
        )
        frame = self._random.choice(
            ["{}", "SELECT `{}` FROM readings", "SELECT '{}' AS x FROM readings"]
        )
        return frame.replace("{}", junk)

    def _long(self) -> str:
        piece = self._random.choice([*TOKENS, "n, ", "n + 1 AS a, ", "valid AND ", "'a' "]) + " "
        body = piece * (self._random.choice([2_000, 9_000, 11_000]) // len(piece))
        return f"SELECT {body} FROM readings"
