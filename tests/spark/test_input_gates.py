"""Input gates: a dear trunk does not see what no query keeps, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from evenflow.control.watch import look
from evenflow.spark.compile import gates
from evenflow.spark.compile.trunk import SHUT, TrunkBuilder
from evenflow.spark.run import Run
from evenflow.spark.unit import unit_run
from tests.spark.flows import MEMORY, Answers, counts, flow_over, lay, row, rows_of, until
from tests.spark.gated import KEYS, Asking, has_read, lay_file, lay_files, run_gated

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from evenflow.flow import Flow

NAMES = [(n, f"w{n % 7}") for n in range(30)] + [(n, "twice") for n in range(10, 15)]
"""Some tuples meet nothing in it, some two rows."""
JOINED = "FROM s JOIN names ON s.n = names.n"
TUMBLING, FINE, SLIDING, UNEVEN = (
    "window(ts, '10 seconds')",
    "window(ts, '20 seconds', '1 second')",
    "window(ts, '20 seconds', '10 seconds')",
    "window(ts, '25 seconds', '10 seconds')",
)


def grouped(key: str, window: str, where: str = "1 = 1", joined: str = JOINED) -> str:
    return (
        f"SELECT {key} AS key, window.start AS w, count(*) AS c, sum(big) AS b {joined} "
        f"WHERE {where} GROUP BY {key}, {window}"
    )


LEFT = JOINED.replace("JOIN", "LEFT JOIN")
SETS = {
    "narrow": {"a": grouped("s.n", TUMBLING)},
    "narrow, dear": {"a": grouped("s.n", TUMBLING, "upper(word) <> 'W3'")},
    "left": {"a": grouped("k", TUMBLING, "word IS NULL OR s.n > 3", LEFT)},
    "uneven": {"a": grouped("s.n", UNEVEN, "word <> 'w3'"), "b": grouped("s.n", UNEVEN)},
    "fine": {"a": grouped("s.n", FINE, "word <> 'w3'")},
    "plain": {
        "a": f"SELECT id, word {JOINED} WHERE word <> 'w3'",
        "b": f"SELECT id, big {JOINED}",
    },
    "failing": {
        "a": grouped("s.n", TUMBLING, "100 / (s.n - 7) > -20"),
        "b": grouped("s.n", TUMBLING, "upper(word) <> 'W3' AND 100 / (s.n - 9) > -20"),
        "p": f"SELECT id, 100 / (s.n - 7) AS q {JOINED}",
    },
    "many": {
        "a": grouped("s.n", TUMBLING, "word <> 'w3'"),
        "b": grouped("s.n", TUMBLING, "upper(word) <> 'W4'"),
        "c": grouped("k", TUMBLING),
        "d": grouped("id % 5", SLIDING, "id % 3 <> 0"),
        "p": f"SELECT id, word {JOINED}",
    },
}
SHORT = ("uneven", "plain", "many")


def make(folder: Path, queries: dict[str, str]) -> Flow:
    flow = flow_over(folder, watermark="5 seconds")
    flow.table("names", data=NAMES, schema="n INT, word STRING")
    for name, sql in queries.items():
        flow.sql(name, sql, MEMORY, every=0.05)
    return flow


def without_input_gates(patch: pytest.MonkeyPatch) -> None:
    for module in (gates, unit_run):
        patch.setattr(module, "input_gate", lambda _: None)


def lay_with_odd(folder: Path) -> None:
    """Lay files, tuples without event time, and the last of which is of long ago."""
    lay_files(folder, 4)
    lay(folder / "s", *(row(5000 + i, None, k="k1", n=i) for i in range(20)))
    lay(folder / "s", *(row(6000 + i, 1, k="k1", n=i) for i in range(20)))


@pytest.mark.parametrize(
    "kind",
    [each if each in SHORT else pytest.param(each, marks=pytest.mark.long) for each in SETS],
)
def test_answers_are_those_without_input_gates_and_the_rest_is_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    queries = SETS[kind]
    keep = dict.fromkeys(queries, 0.25)
    for name in ("before", "behind", "none"):
        lay_with_odd(tmp_path / name)
    generated = kind in ("narrow", "many")
    some, status = run_gated(spark, make(tmp_path / "before", queries), keep, generated)
    nothing, closed = run_gated(
        spark, make(tmp_path / "none", queries), dict.fromkeys(queries, 0.0)
    )
    with monkeypatch.context() as patch:
        without_input_gates(patch)
        wanted, behind = run_gated(spark, make(tmp_path / "behind", queries), keep)
    assert some == wanted
    for name in queries:
        assert some[name]
        before, after = counts(status, name), counts(behind, name)
        assert before["gate"] > 0
        assert before.get("contributed") == after.get("contributed")
        shut = counts(closed, name)
        assert nothing[name] == []
        # Each tuple as it came, once per window, but what has none or is late.
        windows = 20 if kind == "fine" else {"d": 2}.get(name, 1)
        if name == "p" or kind == "plain":
            assert shut == {"in": 840, "gate": 840}
        elif kind != "uneven":
            assert shut["filtered"] > 0  # without event time, by all that they meet
            assert (shut.get("late", 0) > 0) == (after.get("late", 0) > 0)
            assert shut["gate"] == shut["in"] - shut["filtered"] - shut.get("late", 0)
            assert shut["gate"] >= 800 * windows
        else:
            assert shut["in"] > 2 * 840
            assert shut["gate"] > 0.9 * shut["in"]


FAILING = "FROM s JOIN names ON CAST(s.t AS INT) = names.n"


@pytest.mark.parametrize("kept", [1.0, 0.3, 0.0])
def test_a_join_is_not_asked_for_what_is_dropped(
    spark: SparkSession, tmp_path: Path, kept: float
) -> None:
    """Its key fails on every tuple that comes to it, which is then rejected: that tells them."""
    lay(tmp_path / "s", *(row(i, i / 20, n=i % KEYS, t="x") for i in range(200)))
    queries = {
        "windows": grouped("s.n", TUMBLING, joined=FAILING),
        "plain": f"SELECT id, word {FAILING}",
    }
    _, status = run_gated(spark, make(tmp_path, queries), dict.fromkeys(queries, kept))
    for name in queries:
        found = counts(status, name)
        assert found["in"] == 200
        assert found.get("rejected", 0) + found.get("gate", 0) == 200
        assert 200 * kept * 0.5 <= found.get("rejected", 0) <= min(200, 200 * kept * 1.6)


def test_a_tuple_that_is_shut_passes_joins_as_one_row(spark: SparkSession, tmp_path: Path) -> None:
    flow = make(tmp_path, SETS["narrow"])
    (unit,) = flow.units()
    tuples = [row(i, 1, n=n) for i, n in enumerate((3, 12, 35, 3, 12, 35))]
    names = [f.name for f in unit.trunk.inputs[0].schema]
    source = spark.createDataFrame(
        [tuple(each[name] for name in names) for each in tuples],
        "id BIGINT, ts TIMESTAMP, k STRING, n INT, x DOUBLE, t STRING, big BIGINT",
    )
    builder = TrunkBuilder(
        source=lambda _: source,
        pulse=None,
        table=lambda _: spark.createDataFrame(NAMES, "n INT, word STRING"),
        applied=flow.spec().applied,
    )
    begun = builder.begin(unit.trunk).frame.withColumn(SHUT, F.col("c0") >= 3)
    joined = builder.finish(unit.trunk, begun)
    met = joined.groupBy("c0").agg(F.count("*"), F.count("c7")).sort("c0").collect()
    assert [tuple(each) for each in met] == [(0, 1, 1), (1, 2, 2), (3, 1, 0), (4, 1, 0), (5, 1, 0)]


@pytest.mark.parametrize("kept", [1.0, 0.0])
def test_a_table_without_rows(spark: SparkSession, tmp_path: Path, kept: float) -> None:
    """Spark finds out that nothing can come of the join, and has to count nevertheless."""
    lay_files(tmp_path, 2)
    flow = flow_over(tmp_path, watermark="5 seconds")
    flow.table("names", data=[], schema="n INT, word STRING")
    flow.sql("plain", f"SELECT id, word {JOINED}", MEMORY)
    answers, status = run_gated(spark, flow, {"plain": kept})
    assert answers == {"plain": []}
    assert counts(status, "plain") == ({} if kept == 1.0 else {"in": 400, "gate": 400})


CHEAP = grouped("n", TUMBLING, joined="FROM s")


def test_only_a_dear_trunk_has_an_input_gate_in_its_plan(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, queries, dear in (
        ("join", SETS["narrow"], True),
        ("source", {"a": CHEAP}, False),
        ("key of the table", {"a": grouped("word", TUMBLING)}, False),
    ):
        run = Run(make(tmp_path / name, queries).spec(), spark, tmp_path / name / "state")
        (unit,) = run.runs
        plan = unit._frame._jdf.queryExecution().analyzed().toString()
        assert (SHUT in plan) == dear, name
        run.start(available_now=True).wait()
        (told,) = look(run, 0.0).units
        assert told.gated_trunk == dear
        run.stop()


def live(
    spark: SparkSession, folder: Path, keeps: list[dict[str, float]]
) -> tuple[Answers, dict[str, Any]]:
    """Set gates before each of some files, and return answers and status."""
    queries = SETS["many"]
    run = Run(make(folder, queries).spec(), spark, folder / "state")
    run.start()
    for number, keep in enumerate(keeps):
        run.set_gates(keep)
        for file in (2 * number, 2 * number + 1):  # from the second on they hold for sure
            lay_file(folder, file)
            until(lambda: all(has_read(each, folder) for each in run.runs))
    run.pause_units()
    run.drain()
    found = {name: rows_of(run.answers(name)) for name in queries}
    return found, run.stop()


def test_gates_that_close_while_windows_are_open_leave_no_half_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    exact, _ = live(spark, tmp_path / "exact", [{}] * 4)
    shut = dict.fromkeys(SETS["many"], 0.0)
    some, status = live(spark, tmp_path / "some", [{}, shut, dict.fromkeys(shut, 0.2), {}])
    for name in SETS["many"]:
        assert set(some[name]) < set(exact[name])
        assert len(some[name]) == len(set(some[name]))
        given = counts(status, name)
        assert given["gate"] > 0
        if name != "p":
            assert given["cut"] > 0


DONE_AGAIN = (3, 5)
ASKED, MEANWHILE = {0: 0.5, 2: 0.0, 4: 0.3}, {0: 0.5, 3: 0.0, 4: 0.3}
"""Fractions that are asked for when the work of a batch is done; the second with batches that fail
(see `test_gates`). They hold in both from the same batches on."""


def test_a_batch_that_is_done_again_drops_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Asking(monkeypatch)
    asking.asked = ASKED
    wanted, counted = run_asking(spark, tmp_path / "well")
    asking.asked, asking.failing = MEANWHILE, DONE_AGAIN
    found, given = run_asking(spark, tmp_path / "ill")
    assert len(asking.failed) == 2 * len(DONE_AGAIN)
    assert found == wanted
    assert given == counted
    assert all(each["gate"] for each in counted.values())


def run_asking(spark: SparkSession, folder: Path) -> tuple[Answers, dict[str, Any]]:
    """Read seven files, a batch each; return answers and counts."""
    lay_files(folder, 7)
    run = Run(make(folder, SETS["many"]).spec(), spark, folder / "state")
    run.start()
    until(lambda: all(has_read(each, folder) for each in run.runs))
    run.pause_units()
    run.drain()
    found = {name: rows_of(run.answers(name)) for name in SETS["many"]}
    status = run.stop()
    return found, {name: counts(status, name) for name in SETS["many"]}


def test_a_state_that_was_made_without_an_input_gate_goes_on_with_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    for begun_with in (False, True):
        folder = tmp_path / str(begun_with)
        lay_files(folder, 3)
        with monkeypatch.context() as patch:
            if not begun_with:
                without_input_gates(patch)
            run = Run(make(folder, SETS["many"]).spec(), spark, folder / "state")
            run.start(available_now=True).wait()
            run.stop()
        for number in range(3, 6):
            lay_file(folder, number)
        keep = dict.fromkeys(SETS["many"], 0.0)
        answers, status = run_gated(spark, make(folder, SETS["many"]), keep)
        found.append((answers, {name: counts(status, name) for name in SETS["many"]}))
    assert found[0] == found[1]
    assert all(each["gate"] >= 600 for each in found[0][1].values())
