"""The builder gives the operators that SQL gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from tests.graph.sample import READINGS, SITES, operator_of, sample_graph

from evenflow.errors import ConfigError, QueryError
from evenflow.graph.builder import (
    Stream,
    approx_count_distinct,
    avg,
    col,
    count,
    fn,
    lit,
    max_,
    min_,
    stddev,
    sum_,
    when,
)
from evenflow.model.operator import Apply
from evenflow.model.query import Sink

HOUR = "GROUP BY meter, window(ts, '1 hour')"

Build = Callable[[Stream], Stream]
PAIRS: list[tuple[str, Build]] = [
    ("SELECT * FROM readings", lambda r: r),
    ("SELECT * FROM readings WHERE kwh > 1", lambda r: r.where(col("kwh") > 1)),
    ("SELECT * FROM readings WHERE kwh > 1", lambda r: r.where("kwh > 1")),
    (
        "SELECT * FROM readings WHERE (n = 1 OR valid) AND NOT kwh < 2.5",
        lambda r: r.where(((col("n") == 1) | col("valid")) & ~(col("kwh") < Decimal("2.5"))),
    ),
    ("SELECT * FROM readings WHERE meter <> 'm1'", lambda r: r.where(col("meter") != "m1")),
    ("SELECT * FROM readings WHERE n IN (3, 1)", lambda r: r.where(col("n").isin(1, 3))),
    (
        "SELECT * FROM readings WHERE n BETWEEN 1 AND 5",
        lambda r: r.where(col("n").between(1, 5)),
    ),
    (
        "SELECT * FROM readings WHERE meter LIKE 'a!%' ESCAPE '!'",
        lambda r: r.where(col("meter").like("a!%", "!")),
    ),
    ("SELECT * FROM readings WHERE n IS NOT NULL", lambda r: r.where(col("n").is_not_null())),
    ("SELECT * FROM readings WHERE n <=> NULL", lambda r: r.where(col("n").eq_null_safe(None))),
    ("SELECT * FROM readings WHERE at.x >= 2", lambda r: r.where(col("at").field("x") >= 2)),
    ("SELECT * FROM readings WHERE at.x <= 2", lambda r: r.where(col("at.x") <= 2)),
    (
        "SELECT * FROM readings WHERE day = '2026-05-01'",
        lambda r: r.where(col("day") == date(2026, 5, 1)),
    ),
    (
        "SELECT * FROM readings WHERE ts < TIMESTAMP '2026-05-01 10:00'",
        lambda r: r.where(col("ts") < datetime(2026, 5, 1, 10, tzinfo=UTC)),
    ),
    (
        "SELECT * FROM readings WHERE n = 1 AND kwh = 2 AND valid AND small = 4",
        lambda r: r.where(
            (col("n") == 1) & (col("kwh") == 2) & (col("valid") & (col("small") == 4))
        ),
    ),
    (
        "SELECT meter, kwh * 2 AS double FROM readings",
        lambda r: r.select("meter", double=col("kwh") * 2),
    ),
    ("SELECT kwh AS y FROM readings", lambda r: r.select(col("kwh").alias("y"))),
    ("SELECT kwh * 2 FROM readings", lambda r: r.select("kwh * 2")),
    ("SELECT *, n + 1 AS m FROM readings", lambda r: r.select("*", m=1 + col("n"))),
    (
        "SELECT 2 - n AS a, 2 / kwh AS b, 7 % n AS c, -n AS d, 3 * n AS e FROM readings",
        lambda r: r.select(
            a=2 - col("n"), b=2 / col("kwh"), c=7 % col("n"), d=-col("n"), e=3 * col("n")
        ),
    ),
    (
        "SELECT n - 2 AS a, kwh / 2 AS b, n % 7 AS c FROM readings",
        lambda r: r.select(a=col("n") - 2, b=col("kwh") / 2, c=col("n") % 7),
    ),
    (
        "SELECT CAST(n AS STRING) AS s, round(kwh, 1) AS r FROM readings",
        lambda r: r.select(s=col("n").cast("STRING"), r=fn.round("kwh", 1)),
    ),
    (
        (
            "SELECT upper(meter) AS u, date_trunc('hour', ts) AS h, concat(meter, '!') AS c "
            "FROM readings"
        ),
        lambda r: r.select(
            u=fn.upper("meter"), h=fn.date_trunc("hour", col("ts")), c=fn.concat("meter", lit("!"))
        ),
    ),
    (
        "SELECT CASE WHEN n > 1 THEN 'a' WHEN valid THEN 'b' ELSE 'c' END AS k FROM readings",
        lambda r: r.select(k=when(col("n") > 1, "a").when("valid", "b").otherwise("c")),
    ),
    (
        "SELECT CASE WHEN n > 1 THEN 'a' END AS k FROM readings",
        lambda r: r.select(k=when(col("n") > 1, "a")),
    ),
    (
        "SELECT true AS a, 1.5D AS b, 1.5 AS c, 3000000000 AS d, 'x' AS e FROM readings",
        lambda r: r.select(
            a=lit(True), b=lit(1.5), c=lit(Decimal("1.5")), d=lit(3 * 10**9), e="'x'"
        ),
    ),
    (
        f"SELECT meter, window, count(*) AS n FROM readings {HOUR}",
        lambda r: r.window("1 hour").by("meter").agg(n=count()),
    ),
    (
        (
            f"SELECT meter, window, count(n) AS c, sum(kwh) AS s, avg(kwh) AS a, min(n) AS lo, "
            f"max(n) AS hi, stddev(kwh) AS d, approx_count_distinct(id) AS u FROM readings {HOUR}"
        ),
        lambda r: (
            r.window("1 hour")
            .by("meter")
            .agg(
                c=count("n"),
                s=sum_("kwh"),
                a=avg("kwh"),
                lo=min_("n"),
                hi=max_("n"),
                d=stddev("kwh"),
                u=approx_count_distinct("id"),
            )
        ),
    ),
    (
        (
            f"SELECT meter, window, sum(kwh) AS kwh FROM readings WHERE valid {HOUR} "
            "HAVING sum(kwh) > 8"
        ),
        lambda r: (
            r.where("valid")
            .window("1 hour")
            .by("meter")
            .agg(kwh=sum_("kwh"))
            .having(col("kwh") > 8)
        ),
    ),
    (
        f"SELECT meter AS m, window.start AS b, sum(kwh) / count(*) AS mean FROM readings {HOUR}",
        lambda r: (
            r.window("1 hour")
            .by("meter")
            .agg(s=sum_("kwh"), n=count())
            .select(m="meter", b=col("window.start"), mean=col("s") / col("n"))
        ),
    ),
    (
        f"SELECT meter, window, count(*) FILTER (WHERE kwh > 1) AS big FROM readings {HOUR}",
        lambda r: r.window("1 hour").by("meter").agg(big=count().filter(col("kwh") > 1)),
    ),
    (
        (
            "SELECT window, sum(kwh) + 1 AS s FROM readings "
            "GROUP BY window(ts, '1 hour', '10 minutes')"
        ),
        lambda r: r.window("1 hour", slide="10 minutes").agg(s=sum_("kwh") + 1),
    ),
    (
        (
            "SELECT upper(meter) AS m, n % 2 AS odd, window, count(*) AS c FROM readings "
            "GROUP BY upper(meter), n % 2, window(ts, '1 hour')"
        ),
        lambda r: r.window("1 hour").by(m=fn.upper("meter"), odd=col("n") % 2).agg(c=count("*")),
    ),
    (
        "SELECT DISTINCT meter, window(ts, '1 hour') FROM readings",
        lambda r: r.window("1 hour").by("meter").distinct(),
    ),
    (
        "SELECT * FROM readings JOIN sites USING (meter)",
        lambda r: r.join("sites", on="meter"),
    ),
    (
        "SELECT kwh, region FROM readings LEFT JOIN sites USING (meter) WHERE cap > 1",
        lambda r: r.join(SITES, on=["meter"], how="left").where("cap > 1").select("kwh", "region"),
    ),
    (
        "SELECT kwh, s.region FROM readings JOIN sites s ON readings.n = s.number",
        lambda r: r.join("sites", on=col("readings.n") == col("s.number"), alias="s").select(
            "kwh", "s.region"
        ),
    ),
    (
        (
            "SELECT region, window, count(*) AS c FROM readings JOIN sites ON n = number "
            "GROUP BY region, window(ts, '1 hour')"
        ),
        lambda r: r.join("sites", on="n = number").window("1 hour").by("region").agg(c=count()),
    ),
    (
        "SELECT ts, kwh FROM readings UNION ALL SELECT ts, n FROM readings",
        lambda r: r.select("ts", "kwh").union(r.select("ts", "n")),
    ),
]


@pytest.mark.parametrize(("sql", "build"), PAIRS, ids=[f"{i}" for i in range(len(PAIRS))])
def test_builder_and_sql_give_the_same_operator(sql: str, build: Build) -> None:
    stream = sample_graph().stream("readings")
    built, written = build(stream).operator, operator_of(sql)
    assert built.schema == written.schema
    assert built.hash == written.hash


def test_a_stream_does_not_change() -> None:
    stream = sample_graph().stream("readings")
    stream.where("kwh > 1")
    assert stream.operator == READINGS


def test_a_stream_becomes_a_query_with_its_sinks() -> None:
    graph = sample_graph()
    first, second = Sink("memory"), Sink("console")
    query = graph.stream("readings").where("valid").sink(first).query("q", sink=second, weight=2)
    assert graph.queries == {"q": query}
    assert (query.sinks, query.weight, query.text) == ((first, second), 2, None)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_a_weight_is_a_number_above_zero(weight: float) -> None:
    with pytest.raises(ConfigError, match="weight must be a number above 0"):
        sample_graph().stream("readings").where("valid").query("q", weight=weight)


def test_a_stream_reads_a_query() -> None:
    graph = sample_graph()
    graph.add_sql("q", "SELECT meter, n FROM readings WHERE valid")
    assert graph.stream("Q").where("n > 1").operator.hash == (
        operator_of(
            "SELECT * FROM p WHERE n > 1", p="SELECT meter, n FROM readings WHERE valid"
        ).hash
    )


def double(frame: object, factor: int = 2) -> object:
    return (frame, factor)


def test_a_function_is_shared_by_its_identity_and_arguments() -> None:
    stream = sample_graph().stream("readings")
    made = [
        stream.apply(double, "x INT"),
        stream.apply(double, "x INT"),
        stream.apply(double, "x INT", 3),
        stream.apply(lambda frame: frame, "x INT"),
        stream.apply(lambda frame: frame, "x INT"),
    ]
    assert len({each.operator.hash for each in made}) == 4


def test_the_graph_calls_the_function_with_its_arguments() -> None:
    graph = sample_graph()
    operator = graph.stream("readings").apply(double, "x INT", factor=5).operator
    assert isinstance(operator, Apply)
    assert operator.function in graph.functions
    assert graph.applied(operator)("frame") == ("frame", 5)


def test_a_function_keeps_event_time_where_the_column_is_still_there() -> None:
    stream = sample_graph().stream("readings")
    assert stream.apply(double, "ts TIMESTAMP").operator.event_time == "ts"
    assert stream.apply(double, "ts STRING").operator.event_time is None
    assert stream.apply(double, "at TIMESTAMP", event_time="at").operator.event_time == "at"
    with pytest.raises(ConfigError):
        stream.apply(double, "at STRING", event_time="at")


def test_an_argument_that_is_not_plain_is_refused() -> None:
    with pytest.raises(ConfigError):
        sample_graph().stream("readings").apply(double, "x INT", object())


def test_what_is_not_a_function_is_refused() -> None:
    with pytest.raises(ConfigError):
        sample_graph().stream("readings").apply("upper", "x INT")  # type: ignore[arg-type]


def test_an_argument_nested_in_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ConfigError):
        sample_graph().stream("readings").apply(double, "x INT", endless)


def test_a_stream_knows_its_columns() -> None:
    assert sample_graph().stream("readings").select("n").schema.names == ("n",)


def test_lists_and_dicts_are_plain_arguments() -> None:
    stream = sample_graph().stream("readings")
    first = stream.apply(double, "x INT", [1, (2, "a")], options={"k": None})
    second = stream.apply(double, "x INT", [1, (2, "a")], options={"k": 0})
    assert first.operator.hash != second.operator.hash


def test_an_error_in_text_has_its_place() -> None:
    with pytest.raises(QueryError) as caught:
        sample_graph().stream("readings").where("kwh > 1 AND nothing = 2")
    assert caught.value.place() == (1, 13)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda r: r.where(col("kwh") == "x"), "type.mismatch"),
        (lambda r: r.where(count() > 1), "sql.forbidden"),
        (lambda r: r.select("kwh", "kwh"), "name.duplicate"),
        (lambda r: r.select("reflect('x')"), "function.unknown"),
        (lambda r: r.join("nothing", on="meter"), "table.unknown"),
        (lambda r: r.join("sites", on="nothing"), "column.unknown"),
        (lambda r: r.window("1 minute", slide="1 hour"), "window.invalid"),
        (lambda r: r.window("1 hour", slide="1 millisecond"), "window.invalid"),
        (lambda r: r.select("kwh").window("1 hour"), "window.invalid"),
        (lambda r: r.window("1 hour").agg(n=count()).window("1 hour"), "window.invalid"),
        (lambda r: r.window("1 hour").by("meter").agg(x=col("kwh")), "aggregate.not-grouped"),
        (lambda r: r.window("1 hour").agg(x=sum_(count())), "aggregate.nested"),
        (lambda r: r.union(r.select("kwh")), "type.mismatch"),
        (lambda r: r.graph.stream("nothing"), "stream.unknown"),
    ],
)
def test_what_sql_refuses_the_builder_refuses(build: Build, code: str) -> None:
    with pytest.raises(QueryError) as caught:
        build(sample_graph().stream("readings"))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: lit(object()),
        lambda: lit(float("nan")),
        lambda: lit(10**40),
        lambda: lit(Decimal("1e50")),
        lambda: col("a + b"),
        lambda: col("n").filter("valid"),
        lambda: col("n").cast("FLOAT"),
        lambda: sample_graph().stream("readings").join("sites", on="meter", how="right"),
        lambda: sample_graph().stream("readings").join("sites", on=["meter", "a = b"]),
        lambda: sample_graph().stream("readings").window("soon"),
        lambda: sample_graph().stream("readings").window("1 hour").agg(),
    ],
)
def test_wrong_uses_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        wrong()


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError):
        bool(col("a") == 1)


def test_unknown_functions_are_no_attributes() -> None:
    assert "upper" in dir(fn)
    with pytest.raises(AttributeError):
        fn.reflect("x")


def test_a_chain_of_many_conditions_stays_flat() -> None:
    condition = col("n") == 0
    for i in range(1, 500):
        condition = condition | (col("n") == i)
    assert sample_graph().stream("readings").where(condition).operator.kind == "where"


def test_a_stream_of_too_many_steps_is_refused_not_crashed() -> None:
    def grow(stream: Stream) -> None:
        for i in range(2_000):
            stream = stream.where(f"n > {i}")

    with pytest.raises(QueryError) as caught:
        grow(sample_graph().stream("readings"))
    assert caught.value.code == "sql.limit"


def test_an_expression_grown_too_deep_is_refused_not_crashed() -> None:
    grown = col("n")
    for _ in range(5_000):
        grown = grown + 1
    with pytest.raises(QueryError) as caught:
        sample_graph().stream("readings").select(x=grown)
    assert caught.value.code == "sql.limit"
