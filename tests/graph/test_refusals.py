"""Every way to be refused: code, query and place."""

from __future__ import annotations

import pickle

import pytest
from tests.graph.sample import sample_graph

from evenflow.errors import QueryError

HOUR = "window(ts, '1 hour')"

REFUSED = [
    # What is not SQL at all.
    ("", "sql.syntax", ""),
    ("SELECT", "sql.syntax", ""),
    ("SELECT FROM readings", "sql.syntax", "FROM"),
    ("SELECT kwh readings", "sql.syntax", ""),
    ("SELECT kwh FROM readings WHERE", "sql.syntax", ""),
    ("SELECT kwh, FROM readings", "sql.syntax", "FROM"),
    ("SELECT (kwh FROM readings", "sql.syntax", "FROM"),
    ("SELECT kwh) FROM readings", "sql.syntax", ") FROM"),
    ("SELECT kwh a b FROM readings", "sql.syntax", "b FROM"),
    ("SELECT 'kwh FROM readings", "sql.syntax", "'kwh"),
    ("SELECT `kwh FROM readings", "sql.syntax", "`kwh"),
    ("SELECT kwh FROM readings WHERE kwh = = 1", "sql.syntax", "= 1"),
    ("SELECT kwh FROM readings WHERE n IS 1", "sql.syntax", "1"),
    ("SELECT kwh FROM readings WHERE n NOT 1", "sql.syntax", "1"),
    ("SELECT kwh FROM readings WHERE n IS NULL IS NULL", "sql.syntax", "IS NULL"),
    ("SELECT kwh FROM readings WHERE n LIKE 'a' ESCAPE n", "sql.syntax", "n"),
    ("SELECT CASE n END FROM readings", "sql.syntax", "END"),
    ("SELECT CAST(n AS FLOAT) FROM readings", "sql.syntax", "FLOAT"),
    ("SELECT CAST(n AS DECIMAL(99)) FROM readings", "sql.syntax", "DECIMAL"),
    ("SELECT CAST(n AS DECIMAL(a)) FROM readings", "sql.syntax", "a))"),
    ("SELECT n FROM readings JOIN sites", "sql.syntax", ""),
    ("SELECT n FROM readings GROUP meter", "sql.syntax", "meter"),
    ("SELECT max(*) FROM readings", "sql.syntax", "*)"),
    ("SELECT `upper`(meter) FROM readings", "sql.syntax", "(meter)"),
    ("SELECT né FROM readings", "sql.syntax", "né"),
    ("SELECT a & b FROM readings", "sql.syntax", "&"),
    ("SELECT n \x00 FROM readings", "sql.syntax", "\x00"),
    ("SELECT 'a\u202eb' FROM readings", "sql.syntax", "\u202e"),
    ("SELECT `" + "a" * 129 + "` FROM readings", "sql.syntax", "`a"),
    ("SELECT n AS `a``b` FROM readings", "sql.syntax", "`a``b"),
    # What SQL has and this dialect has not.
    ("SELECT (SELECT 1) FROM readings", "sql.forbidden", "SELECT 1"),
    ("SELECT n FROM (SELECT n FROM readings)", "sql.forbidden", "(SELECT"),
    ("SELECT n FROM readings WHERE n IN (SELECT 1)", "sql.forbidden", "SELECT 1"),
    ("SELECT n FROM readings WHERE EXISTS (SELECT 1)", "sql.forbidden", "SELECT 1"),
    ("WITH a AS (SELECT 1) SELECT n FROM a", "sql.forbidden", "WITH"),
    ("SELECT n FROM readings ORDER BY n", "sql.forbidden", "ORDER"),
    ("SELECT n FROM readings SORT BY n", "sql.forbidden", "SORT"),
    ("SELECT n FROM readings LIMIT 1", "sql.forbidden", "LIMIT"),
    ("SELECT sum(n) OVER () FROM readings", "sql.forbidden", "OVER"),
    ("SELECT n FROM readings LATERAL VIEW explode(a) t", "sql.forbidden", "LATERAL"),
    ("VALUES (1)", "sql.forbidden", "VALUES"),
    ("SELECT n FROM readings UNION SELECT n FROM readings", "sql.forbidden", "SELECT n FROM r"),
    ("SELECT n FROM readings EXCEPT SELECT n FROM readings", "sql.forbidden", "EXCEPT"),
    ("SELECT n FROM readings INTERSECT SELECT 1", "sql.forbidden", "INTERSECT"),
    ("SELECT n FROM readings; DROP TABLE x", "sql.forbidden", "DROP"),
    ("SELECT n FROM readings;;", "sql.forbidden", ";"),
    ("DROP TABLE readings", "sql.forbidden", "DROP"),
    ("SET spark.x = 1", "sql.forbidden", "SET"),
    ("ADD JAR 'x.jar'", "sql.forbidden", "ADD"),
    ("SELECT n -- all\nFROM readings", "sql.forbidden", "--"),
    ("SELECT n /* all */ FROM readings", "sql.forbidden", "/*"),
    ("SELECT /*+ BROADCAST(x) */ n FROM readings", "sql.forbidden", "/*+"),
    ("SELECT n FROM parquet.`/etc/passwd`", "sql.forbidden", "parquet"),
    ("SELECT n FROM `/etc/passwd`", "sql.forbidden", "`/etc"),
    ("SELECT n FROM `parquet.x`", "sql.forbidden", "`parquet"),
    ("SELECT n FROM range(10)", "sql.forbidden", "range"),
    ("SELECT n FROM readings, sites", "sql.forbidden", ","),
    ("SELECT n FROM readings CROSS JOIN sites", "sql.forbidden", "CROSS"),
    ("SELECT n FROM readings RIGHT JOIN sites ON n = number", "sql.forbidden", "RIGHT"),
    ("SELECT n FROM readings LEFT SEMI JOIN sites ON n = number", "sql.forbidden", "SEMI"),
    ("SELECT count(DISTINCT n) FROM readings", "sql.forbidden", "DISTINCT"),
    ("SELECT n FROM readings WHERE n = ?", "sql.forbidden", "?"),
    ("SELECT n FROM readings WHERE n = :x", "sql.forbidden", ":x"),
    ("SELECT ${x} FROM readings", "sql.forbidden", "${"),
    ("SELECT n[0] FROM readings", "sql.forbidden", "["),
    ("SELECT f(x -> x) FROM readings", "sql.forbidden", "->"),
    ("SELECT (n, id) FROM readings", "sql.forbidden", ", id"),
    ("SELECT n FROM readings WHERE meter RLIKE 'x'", "sql.forbidden", "RLIKE"),
    ("SELECT n DIV 2 FROM readings", "sql.forbidden", "DIV"),
    ("SELECT ts + INTERVAL '1' HOUR FROM readings", "sql.forbidden", "INTERVAL"),
    ("SELECT n FROM readings TABLESAMPLE (10 PERCENT)", "sql.forbidden", "TABLESAMPLE"),
    ("SELECT n FROM readings WHERE count(*) > 1", "sql.forbidden", "count"),
    (f"SELECT n FROM readings GROUP BY {HOUR}, 1", "sql.forbidden", "1"),
    (f"SELECT n FROM readings GROUP BY {HOUR}, count(*)", "sql.forbidden", "count"),
    (f"SELECT DISTINCT n FROM readings GROUP BY n, {HOUR}", "sql.forbidden", "SELECT"),
    ("SELECT r.n FROM readings r JOIN plain p ON r.id = p.id", "sql.forbidden", "plain"),
    ("SELECT n FROM readings JOIN sites ON n > number", "sql.forbidden", "> number"),
    ("SELECT n FROM readings JOIN sites ON n = 1", "sql.forbidden", "= 1"),
    ("SELECT n FROM readings JOIN sites ON number = cap", "sql.forbidden", "= cap"),
    # Limits.
    ("SELECT n FROM readings" + " " * 10_000, "sql.limit", None),
    ("SELECT " + "(" * 51 + "n" + ")" * 51 + " FROM readings", "sql.limit", "("),
    ("SELECT " + "- " * 60 + "n FROM readings", "sql.limit", "-"),
    ("SELECT " + "CASE WHEN valid THEN " * 60 + "n", "sql.limit", "valid"),
    ("SELECT " + "+".join(["n"] * 200) + " FROM readings", "sql.limit", "+"),
    ("SELECT " + "n " * 2_100 + "FROM readings", "sql.limit", "n"),
    (f"SELECT n FROM readings WHERE n IN ({'1,' * 500}1)", "sql.limit", ")"),
    (f"SELECT {','.join(f'n a{i}' for i in range(501))} FROM readings", "sql.limit", "FROM"),
    (" UNION ALL ".join(["SELECT n FROM readings"] * 51), "sql.limit", ""),
    ("SELECT " + " + ".join(["kwh"] * 40) + " FROM readings", "sql.limit", "kwh"),
    (f"SELECT {'a' * 200} FROM readings", "sql.limit", "aaa"),
    # Names.
    ("SELECT nothing FROM readings", "column.unknown", "nothing"),
    ("SELECT r.nothing FROM readings r", "column.unknown", "r.nothing"),
    ("SELECT readings.n FROM readings r", "column.unknown", "readings.n"),
    ("SELECT at.nothing FROM readings", "column.unknown", "at.nothing"),
    ("SELECT n.x FROM readings", "column.unknown", "n.x"),
    ("SELECT x.* FROM readings", "column.unknown", "x.*"),
    ("SELECT n FROM readings JOIN sites USING (nothing)", "column.unknown", "nothing"),
    ("SELECT n FROM readings JOIN sites USING (kwh)", "column.unknown", "kwh"),
    (f"SELECT nothing FROM readings GROUP BY nothing, {HOUR}", "column.unknown", "nothing, w"),
    ("SELECT meter FROM readings JOIN sites ON n = number", "column.ambiguous", "meter"),
    ("SELECT reflect('java.lang.System', 'exit') FROM readings", "function.unknown", "reflect"),
    ("SELECT java_method('a', 'b') FROM readings", "function.unknown", "java_method"),
    ("SELECT explode(n) FROM readings", "function.unknown", "explode"),
    ("SELECT neg(n) FROM readings", "function.unknown", "neg"),
    ("SELECT is_null(n) FROM readings", "function.unknown", "is_null"),
    ("SELECT input_file_name() FROM readings", "function.unknown", "input"),
    ("SELECT current_timestamp() FROM readings", "function.unknown", "current"),
    ("SELECT rand() FROM readings", "function.unknown", "rand"),
    ("SELECT n FROM nothing", "stream.unknown", "nothing"),
    ("SELECT n FROM sites", "stream.unknown", "sites"),
    ("SELECT n FROM readings JOIN nothing ON n = x", "table.unknown", "nothing"),
    ("SELECT n, N FROM readings", "name.duplicate", "N FROM"),
    ("SELECT *, n FROM readings", "name.duplicate", "n FROM"),
    ("SELECT * FROM readings JOIN sites ON n = number", "name.duplicate", "*"),
    ("SELECT n FROM readings JOIN sites readings USING (meter)", "name.duplicate", "sites r"),
    ("SELECT n FROM q", "graph.cycle", "q"),
    # Types and arguments.
    ("SELECT n FROM readings WHERE meter = 1", "type.mismatch", "= 1"),
    ("SELECT n FROM readings WHERE n", "type.mismatch", "n"),
    ("SELECT n FROM readings WHERE at = at", "type.mismatch", "= at"),
    ("SELECT meter + 1 FROM readings", "type.mismatch", "+ 1"),
    ("SELECT upper(n) FROM readings", "type.mismatch", "upper"),
    ("SELECT n || meter FROM readings", "type.mismatch", "||"),
    ("SELECT CASE WHEN n THEN 1 END FROM readings", "type.mismatch", "n THEN"),
    ("SELECT CASE WHEN valid THEN 1 ELSE 'a' END AS x FROM readings", "type.mismatch", "CASE"),
    ("SELECT coalesce(NULL, NULL) AS x FROM readings", "type.mismatch", "coalesce"),
    ("SELECT NULL AS x FROM readings", "type.mismatch", "NULL"),
    ("SELECT to_date(meter) AS x FROM readings", "type.mismatch", "to_date"),
    ("SELECT CAST(day AS INT) FROM readings", "type.mismatch", "CAST"),
    ("SELECT CAST(at AS STRING) FROM readings", "type.mismatch", "CAST"),
    ("SELECT ts - ts AS x FROM readings", "type.mismatch", "- ts"),
    ("SELECT n FROM readings JOIN sites ON kwh = region", "type.mismatch", "= region"),
    ("SELECT n FROM readings UNION ALL SELECT meter FROM readings", "type.mismatch", "SELECT m"),
    ("SELECT n FROM readings UNION ALL SELECT n, id FROM readings", "type.mismatch", "SELECT n, "),
    (f"SELECT max(at) FROM readings GROUP BY {HOUR}", "type.mismatch", "max"),
    (f"SELECT sum(meter) FROM readings GROUP BY {HOUR}", "type.mismatch", "sum"),
    (f"SELECT 1 AS x FROM readings GROUP BY at, {HOUR}", "type.mismatch", "at"),
    ("SELECT sqrt() FROM readings", "function.arguments", "sqrt"),
    ("SELECT sqrt(n, n) FROM readings", "function.arguments", "sqrt"),
    ("SELECT if(valid, 1) FROM readings", "function.arguments", "if"),
    ("SELECT log(2, n) FROM readings", "function.arguments", "log"),
    ("SELECT round(kwh, n) FROM readings", "function.arguments", "round"),
    ("SELECT round(kwh, 19) FROM readings", "function.arguments", "round"),
    ("SELECT date_trunc('eon', ts) FROM readings", "function.arguments", "date_trunc"),
    ("SELECT meter LIKE district AS x FROM readings", "function.arguments", "LIKE"),
    ("SELECT upper(meter) FILTER (WHERE valid) FROM readings", "function.arguments", "upper"),
    (f"SELECT sum(n, n) FROM readings GROUP BY {HOUR}", "function.arguments", "sum"),
    ("SELECT DATE '2026-13-01' AS x FROM readings", "literal.invalid", "DATE"),
    ("SELECT n FROM readings WHERE day = 'soon'", "literal.invalid", "'soon'"),
    ("SELECT n FROM readings WHERE ts > 'soon'", "literal.invalid", "'soon'"),
    ("SELECT n FROM readings WHERE ts BETWEEN '2026' AND 'x'", "literal.invalid", "'x'"),
    ("SELECT 1e400 FROM readings", "literal.invalid", "1e400"),
    ("SELECT 300Y FROM readings", "literal.invalid", "300Y"),
    ("SELECT 1.5L FROM readings", "literal.invalid", "1.5L"),
    ("SELECT 1f FROM readings", "literal.invalid", "1f"),
    (f"SELECT {'9' * 39} FROM readings", "literal.invalid", "9"),
    (f"SELECT {'9' * 5_000} FROM readings", "literal.invalid", "9"),
    (r"SELECT meter LIKE 'a\\' AS x FROM readings", "literal.invalid", "LIKE"),
    # Groups and windows.
    ("SELECT count(*) FROM readings", "aggregate.no-window", "count"),
    ("SELECT meter, 1 + sum(n) FROM readings", "aggregate.no-window", "sum"),
    ("SELECT meter FROM readings GROUP BY meter", "aggregate.no-window", "meter"),
    ("SELECT meter FROM readings HAVING meter = 'a'", "aggregate.no-window", "= 'a'"),
    ("SELECT DISTINCT meter FROM readings", "aggregate.no-window", "SELECT"),
    (f"SELECT sum(count(*)) FROM readings GROUP BY {HOUR}", "aggregate.nested", "count"),
    (
        f"SELECT count(*) FILTER (WHERE sum(n) > 1) FROM readings GROUP BY {HOUR}",
        "aggregate.nested",
        "sum",
    ),
    ("SELECT count(*) FROM hourly GROUP BY window(w.start, '1 day')", "aggregate.nested", "window"),
    (f"SELECT kwh FROM readings GROUP BY meter, {HOUR}", "aggregate.not-grouped", "kwh"),
    (
        f"SELECT meter FROM readings GROUP BY meter, {HOUR} HAVING kwh > 1",
        "aggregate.not-grouped",
        "kwh > 1",
    ),
    (f"SELECT * FROM readings GROUP BY meter, {HOUR}", "aggregate.not-grouped", "*"),
    ("SELECT 1 AS x FROM readings GROUP BY window(seen, '1 hour')", "window.invalid", "seen"),
    ("SELECT 1 AS x FROM readings GROUP BY window(kwh, '1 hour')", "window.invalid", "kwh"),
    ("SELECT 1 AS x FROM plain GROUP BY window(id, '1 hour')", "window.invalid", "id, '1"),
    ("SELECT 1 AS x FROM readings GROUP BY window(ts)", "window.invalid", "window"),
    ("SELECT 1 AS x FROM readings GROUP BY window(ts, 5)", "window.invalid", "5)"),
    ("SELECT 1 AS x FROM readings GROUP BY window(ts, '5 moons')", "window.invalid", "'5 moons'"),
    ("SELECT 1 AS x FROM readings GROUP BY window(ts, '0 s')", "window.invalid", "'0 s'"),
    ("SELECT 1 AS x FROM readings GROUP BY window(ts, '1 s', '2 s')", "window.invalid", "'2 s'"),
    (
        f"SELECT 1 AS x FROM readings GROUP BY {HOUR}, window(ts, '2 h')",
        "window.invalid",
        "window(ts, '2",
    ),
    (f"SELECT window(ts, '2 h') FROM readings GROUP BY {HOUR}", "window.invalid", "window(ts, '2"),
    ("SELECT window(ts, '2 h') FROM readings", "window.invalid", "window"),
    (f"SELECT n FROM readings WHERE {HOUR}.start > '2026'", "window.invalid", "window"),
    (
        f"SELECT 1 AS x FROM readings GROUP BY {HOUR}, unix_seconds(window.end) + n",
        "window.invalid",
        "+ n",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "code", "place"), REFUSED, ids=[f"{i}-{code}" for i, (_, code, _) in enumerate(REFUSED)]
)
def test_a_refusal_has_a_code_a_query_and_a_place(sql: str, code: str, place: str | None) -> None:
    graph = sample_graph()
    graph.add_sql("hourly", f"SELECT {HOUR} AS w FROM readings GROUP BY {HOUR}")
    with pytest.raises(QueryError) as caught:
        graph.add_sql("q", sql)
    error = caught.value
    assert error.code == code
    assert (error.query, error.text) == ("q", sql)
    if place is None:
        assert error.position is None
    else:
        assert error.position is not None
        assert sql[error.position :].startswith(place)
        assert place or error.position == len(sql)
        assert error.caret() is not None
    assert "q" not in graph.queries


def test_the_caret_stands_under_the_place_of_a_long_line() -> None:
    sql = f"SELECT {', '.join(f'n + {i} AS a{i}' for i in range(100))}, nothing\nFROM readings"
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql("q", sql)
    shown = caught.value.caret()
    assert shown is not None
    line, caret = shown.split("\n")
    assert line[len(caret) - 1 :].startswith("nothing")


def test_an_error_travels_between_processes() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql("q", "SELECT nothing FROM readings")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.code, copy.position, str(copy)) == (
        caught.value.code,
        caught.value.position,
        str(caught.value),
    )


def test_a_near_name_is_hinted_at() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().add_sql("q", "SELECT metre FROM readings")
    assert caught.value.hint == "did you mean meter?"
