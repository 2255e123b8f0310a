"""Gates: what they keep is exact, what they drop is counted, a batch done again drops the same."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from evenflow.errors import ConfigError
from evenflow.model.query import Sink
from evenflow.spark.gate.history import read_rows
from evenflow.spark.gate.shares import FOLDER
from evenflow.spark.run import Run
from evenflow.spark.unit import batch as unit_batch
from evenflow.spark.unit.checkpoint import committed_batch
from tests.spark.flows import MEMORY, Answers, counts, flow_over, lay, row, rows_of, until
from tests.spark.gated import Asking, has_read, lay_file, lay_files, make, run_gated

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ONE = {
    "tumbling": "SELECT n, window.start AS w, count(*) AS c, sum(big) AS b FROM s "
    "WHERE id % 3 <> 0 "
    "GROUP BY n, window(ts, '10 seconds')"
}
QUERIES = {
    **ONE,
    "text": "SELECT k, window.start AS w, count(*) AS c, sum(big) FILTER (WHERE n > 3) AS b FROM s "
    "GROUP BY k, window(ts, '10 seconds')",
    "other": "SELECT k, window.start AS w, max(big) AS b FROM s WHERE n < 9 "
    "GROUP BY k, window(ts, '10 seconds')",
    "sliding": "SELECT n, window.start AS w, sum(big) AS b FROM s "
    "GROUP BY n, window(ts, '20 seconds', '10 seconds')",
    "plain": "SELECT id, n FROM s WHERE n <> 5",
    "dear": "SELECT k, window.start AS w, sum(big) AS b FROM s WHERE upper(k) <> 'K3' "
    "GROUP BY k, window(ts, '10 seconds')",
    "dear_sliding": "SELECT n, window.start AS w, sum(big) AS b FROM s WHERE upper(k) <> 'K3' "
    "GROUP BY n, window(ts, '20 seconds', '10 seconds')",
}
BEFORE = ("plain", "dear", "dear_sliding", "dear_alone")
"""Of these gates drop before conditions, and so what these did not want, too."""
DEAR = {
    "dear_alone": "SELECT n, window.start AS w, count(*) AS c FROM s WHERE upper(k) <> 'K3' "
    "GROUP BY n, window(ts, '10 seconds')",
}

BESIDE = {
    "text": QUERIES["text"],
    "beside": "SELECT k, window.start AS w, sum(big) AS b FROM s "
    "GROUP BY k, window(ts, '10 seconds')",
}
FINE = {
    "fine": "SELECT n, window.start AS w, sum(big) AS b FROM s "
    "GROUP BY n, window(ts, '20 seconds', '1 second')",
}


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param(ONE, id="narrow"),
        pytest.param(DEAR, id="narrow and dear", marks=pytest.mark.long),
        pytest.param(QUERIES, id="wide"),
        pytest.param(FINE, id="fine", marks=pytest.mark.long),
    ],
)
def test_answers_are_those_of_the_exact_run_and_the_rest_is_counted(
    spark: SparkSession, tmp_path: Path, queries: dict[str, str]
) -> None:
    for name in ("all", "some", "none"):
        lay_files(tmp_path / name, 5)
    exact, all_ = run_gated(spark, make(tmp_path / "all", queries), {})
    keep = dict.fromkeys(queries, 0.4)
    generated = queries in (DEAR, QUERIES)  # which takes twice the time here
    some, status = run_gated(spark, make(tmp_path / "some", queries), keep, generated)
    for name in queries:
        assert set(some[name]) < set(exact[name])
        assert len(some[name]) == len(set(some[name]))
        assert 0.15 < len(some[name]) / len(exact[name]) < 0.65
        wanted, given = counts(all_, name), counts(status, name)
        assert given["in"] == wanted["in"]
        come = wanted["in" if name in BEFORE else "contributed"]
        assert 0.3 * come < given["gate"] < 0.9 * come
        assert "cut" not in given
    nothing, status = run_gated(
        spark, make(tmp_path / "none", queries), dict.fromkeys(queries, 0.0)
    )
    for name in queries:
        assert nothing[name] == []
        given = counts(status, name)
        assert given["in"] == counts(all_, name)["in"]
        if name in BEFORE:
            assert given["gate"] == given["in"]
        else:
            assert given["gate"] == counts(all_, name)["contributed"]
            assert given["gate"] + given.get("filtered", 0) == given["in"]


MANY = {
    f"{key.split()[0]}{seconds}{at}": f"SELECT {key} AS key, window.start AS w, sum(big) AS b "
    f"FROM s WHERE {condition} GROUP BY {key}, window(ts, '{seconds} seconds')"
    for key in ("n", "k", "id % 5")
    for seconds in (10, 20, 30)
    for at, condition in enumerate(("n < 8", "id % 3 <> 0"))
}
"""Nine families of two conditions each: their rows and those of what is dropped fill two chunks."""


def test_many_families_drop_for_some_of_their_queries(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("all", "some"):
        lay_files(tmp_path / name, 4)
    exact, all_ = run_gated(spark, make(tmp_path / "all", MANY), {})
    keep = {name: 0.0 if name.endswith("1") else 0.6 for name in MANY}
    some, status = run_gated(spark, make(tmp_path / "some", MANY), keep)
    assert len(make(tmp_path, MANY).units()[0].families) == 9
    for name in MANY:
        wanted, given = counts(all_, name), counts(status, name)
        assert set(some[name]) <= set(exact[name])
        assert given["in"] == wanted["in"]
        dropped = given.get("gate", 0)
        assert dropped + given.get("contributed", 0) == wanted["contributed"]
        assert (dropped == wanted["contributed"]) == (keep[name] == 0.0)
    assert sum(counts(status, name).get("gate", 0) > 0 for name in MANY) > 12


GROUPED = "window.start AS w FROM s WHERE {} GROUP BY {}, window(ts, '10 seconds')"
PAUSED = {
    "a1": "SELECT n, count(*) AS c, " + GROUPED.format("n < 8", "n"),
    "a2": "SELECT n, sum(x) AS t, " + GROUPED.format("id % 3 <> 0", "n"),
    "b1": "SELECT k, sum(x) AS t, " + GROUPED.format("n > 2", "k"),
    "b2": "SELECT k, count(*) AS c, " + GROUPED.format("n < 9", "k"),
}


@pytest.mark.parametrize(
    ("paused", "left"), [("a1", "a2"), pytest.param("a2", "a1", marks=pytest.mark.long)]
)
def test_a_family_that_a_pause_left_one_condition(
    spark: SparkSession, tmp_path: Path, paused: str, left: str
) -> None:
    """Its rows have no masks, those of the other family do, and both feed the same slots."""
    exact, wanted = run_paused(spark, tmp_path / "all", paused, {})
    some, given = run_paused(spark, tmp_path / "some", paused, {left: 0.0})
    assert set(some[left]) < set(exact[left])
    assert given[left]["in"] == wanted[left]["in"]
    settled = (given[left].get(reason, 0) for reason in ("gate", "cut", "contributed"))
    assert sum(settled) == wanted[left]["contributed"]
    assert given[left]["gate"] > 0
    for name in ("b1", "b2", paused):
        assert (some[name], given[name]) == (exact[name], wanted[name])


def run_paused(
    spark: SparkSession, folder: Path, paused: str, keep: dict[str, float]
) -> tuple[Answers, dict[str, Any]]:
    """Pause a query behind the first file and set gates; return answers and counts."""
    flow = flow_over(folder, watermark="5 seconds")
    for name, sql in PAUSED.items():
        flow.sql(name, sql, MEMORY, every=0.05)
    run = Run(flow.spec(), spark, flow.state)
    lay_file(folder, 0)
    run.start()
    until(lambda: all(has_read(each, folder) for each in run.runs))
    run.pause(paused)
    run.set_gates(keep)
    for number in (4, 8, 12):
        lay_file(folder, number)
        until(lambda: all(has_read(each, folder) for each in run.runs))
    run.pause_units()
    run.drain()
    found = {name: rows_of(run.answers(name)) for name in PAUSED}
    status = run.stop()
    return found, {name: counts(status, name) for name in PAUSED}


def live(
    spark: SparkSession, folder: Path, keeps: list[dict[str, float]]
) -> tuple[Answers, dict[str, Any]]:
    """Set gates before each of some files, and return answers and status."""
    flow = flow_over(folder, watermark="5 seconds")
    for name, sql in QUERIES.items():
        flow.sql(name, sql, MEMORY, every=0.05)
    run = Run(flow.spec(), spark, flow.state)
    run.start()
    for number, keep in enumerate(keeps):
        run.set_gates(keep)
        lay_file(folder, 2 * number)
        until(lambda: all(has_read(each, folder) for each in run.runs))
        # What was asked for before a batch ended holds in the next.
        lay_file(folder, 2 * number + 1)
        until(lambda: all(has_read(each, folder) for each in run.runs))
    run.pause_units()
    run.drain()
    found = {q.name: rows_of(run.answers(q.name)) for q in flow.spec().queries}
    return found, run.stop()


def test_gates_that_close_and_open_while_windows_are_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What was dropped of a window in one batch leaves no half answer, whatever came later."""
    exact, all_ = live(spark, tmp_path / "exact", [{}] * 5)
    half = dict.fromkeys(QUERIES, 0.5)
    keeps = [{}, half, {"text": 0.2, "sliding": 0.9}, {}, {}]
    some, status = live(spark, tmp_path / "some", keeps)
    for name in QUERIES:
        assert set(some[name]) < set(exact[name])
        assert len(some[name]) == len(set(some[name]))
        given = counts(status, name)
        assert given["in"] == counts(all_, name)["in"]
        assert given["gate"] > 0
        assert given.get("rejected", 0) == 0
        if name != "plain":
            assert given["cut"] > 0
    # Windows that began when all gates were open again are all answered.
    last = max(start for _, start, *_ in exact["text"])
    for name in ("text", "other", "tumbling"):
        assert [a for a in some[name] if a[1] == last] == [a for a in exact[name] if a[1] == last]


def test_members_of_a_family_have_gates_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    lay_files(tmp_path, 4)
    flow = make(tmp_path, {name: QUERIES[name] for name in ("text", "other")})
    answers, status = run_gated(spark, flow, {"text": 0.3})
    assert len(flow.units()[0].families) == 1
    assert "gate" not in counts(status, "other")
    text, other = counts(status, "text"), counts(status, "other")
    assert text["gate"] > 0.4 * text["in"]
    assert text["in"] == other["in"]
    windows = {start for _, start, _ in answers["other"]}
    assert len(answers["other"]) == len(windows) * 10
    assert {start for _, start, *_ in answers["text"]} >= windows


def test_a_shared_gate_keeps_a_filter_with_its_query(spark: SparkSession, tmp_path: Path) -> None:
    """Both keep the larger fraction, and what is kept for the sake of the other is whole."""
    for name in ("all", "some"):
        lay_files(tmp_path / name, 4)
    exact, _ = run_gated(spark, make(tmp_path / "all", BESIDE), {})
    keep = {"text": 0.4, "beside": 0.7}
    some, status = run_gated(spark, make(tmp_path / "some", BESIDE), keep)
    for name in BESIDE:
        assert set(some[name]) < set(exact[name])
        assert "cut" not in counts(status, name)
    assert {answer[:2] for answer in some["text"]} == {answer[:2] for answer in some["beside"]}


DONE_AGAIN = (3, 5)
"""Batches that fail when their work is done."""
IN_TIME = {0: 0.5, 2: 0.2, 4: 0.9}
"""Fractions that are asked for when the work of a batch is done: they hold from the one after the
next on, because the next has been told its own already."""
MEANWHILE = {0: 0.5, 3: 0.2, 4: 0.9}
"""The same ones, when batches fail. Before batch 3 is done again others are asked for, which hold
from batch 4 on. While batch 5 works, before it fails, those of batch 6 are written down."""
FROM_BATCH = [(2, 0.5), (4, 0.2), (6, 0.9)]


def test_a_batch_that_is_done_again_drops_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch fails when its work is done, and other gates are asked for before it is again.

    All files are there from the start, so that a batch is a file, and units ask for gates in
    their batches themselves: from which batch on they hold does not hang on who is faster.
    """
    asking = Asking(monkeypatch)
    asking.asked = IN_TIME
    wanted, counted, told = run_asking(spark, tmp_path / "well")
    asking.asked, asking.failing = MEANWHILE, DONE_AGAIN
    found, given, told_again = run_asking(spark, tmp_path / "ill")
    assert len(asking.failed) == 2 * len(DONE_AGAIN)
    assert found == wanted
    assert given == counted
    assert told_again == told
    for name in QUERIES:
        dropped = sum(each["dropped"] for each in told if each["query"] == name)
        assert dropped == counted[name]["gate"]
    assert all(each["gate"] for each in counted.values())


def run_asking(
    spark: SparkSession, folder: Path
) -> tuple[Answers, dict[str, Any], list[dict[str, Any]]]:
    """Read seven files, a batch each; return answers, counts and what is told of shares."""
    lay_files(folder, 7)
    flow = flow_over(folder, watermark="5 seconds")
    for name, sql in QUERIES.items():
        flow.sql(name, sql, MEMORY, every=0.05)
    run = Run(flow.spec(), spark, flow.state)
    run.start()
    until(lambda: all(has_read(each, folder) for each in run.runs))
    run.pause_units()
    for each in run.runs:
        there = read_rows(each.directory.gates)
        kept = [(row.batch, set(row.keep.values())) for row in there]
        assert kept == [(batch, {fraction}) for batch, fraction in FROM_BATCH]
    run.drain()
    found = {q.name: rows_of(run.answers(q.name)) for q in flow.spec().queries}
    status = run.stop()
    lines = [f.read_text().splitlines() for f in (flow.state / "shares").glob("*.json")]
    told = [json.loads(line) for line in sorted(chain.from_iterable(lines))]
    return found, {name: counts(status, name) for name in QUERIES}, told


def test_executors_leave_out_what_is_not_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many answers are written by tasks, which see the rows of a family together."""
    outs, shares = [], []
    for many in (unit_batch.MANY_ANSWERS, 0):
        monkeypatch.setattr(unit_batch, "MANY_ANSWERS", many)
        folder = tmp_path / str(many)
        lay_files(folder, 5)
        flow = flow_over(folder, watermark="5 seconds")
        for name in ("text", "tumbling"):
            flow.sql(name, QUERIES[name], Sink("parquet", str(folder / name)))
        run = Run(flow.spec(), spark, flow.state)
        run.set_gates({"text": 0.4, "tumbling": 0.6})
        run.start(available_now=True).wait()
        status = run.stop()
        read = {n: pyarrow.parquet.read_table(folder / n) for n in ("text", "tumbling")}
        outs.append(
            ({n: rows_of(t) for n, t in read.items()}, {n: counts(status, n) for n in read})
        )
        shares.append({n: status["queries"][n]["share_kept"] for n in read})
        told = [
            json.loads(line)
            for file in sorted((folder / "text" / FOLDER).glob("*.json"))
            for line in file.read_text().splitlines()
        ]
        assert {each["fraction"] for each in told} == {0.4}
        assert sum(each["contributed"] for each in told) == outs[-1][1]["text"]["contributed"]
        # The gate has dropped in windows that are still open, too.
        assert sum(each["dropped"] for each in told) <= outs[-1][1]["text"]["gate"]
    assert outs[0] == outs[1]
    assert shares[0] == shares[1]
    assert 0.2 < shares[0]["text"] < shares[0]["tumbling"] < 0.8
    assert all(found["gate"] for found in outs[0][1].values())


def test_the_share_kept_is_that_of_the_newest_answers(spark: SparkSession, tmp_path: Path) -> None:
    """Batches that close no window say nothing new."""
    flow = flow_over(tmp_path, watermark="5 seconds")
    flow.sql("tumbling", QUERIES["tumbling"], MEMORY, every=0.05)
    run = Run(flow.spec(), spark, flow.state)
    run.set_gates({"tumbling": 0.3})
    with run.start():
        for number in (0, 1, 4, 5):
            lay_file(tmp_path, number)
            until(lambda: all(has_read(each, tmp_path) for each in run.runs))
        until(lambda: run.answers("tumbling").num_rows > 0)
        seen = committed_batch(run.runs[0].directory.checkpoint) or 0
        lay(tmp_path / "s", row(9_000, 40))
        until(lambda: (committed_batch(run.runs[0].directory.checkpoint) or 0) > seen)
        assert 0.1 < run.status()["queries"]["tumbling"]["share_kept"] < 0.5


@pytest.mark.parametrize("keep", [True, False])
def test_what_is_not_whole_is_cut_for_a_kept_query_too(
    spark: SparkSession, tmp_path: Path, keep: bool
) -> None:
    flow = flow_over(tmp_path, watermark="5 seconds")
    flow.sql("other", QUERIES["other"], MEMORY, every=0.05)
    run = Run(flow.spec(), spark, flow.state)
    with run.start():
        run.subscribe("q", ONE["tumbling"], MEMORY, every=0.05)
        lay_file(tmp_path, 0)
        until(lambda: all(has_read(each, tmp_path) for each in run.runs))
        run.set_gates({"q": 0.3})
        for _ in range(2):  # from the second on gates hold for sure
            lay(tmp_path / "s", *(row(9_000 + i, 9, n=i % 40) for i in range(120)))
            until(lambda: all(has_read(each, tmp_path) for each in run.runs))
        if keep:
            run.unsubscribe("q", keep=True)
        lay_file(tmp_path, 8)
        until(lambda: all(has_read(each, tmp_path) for each in run.runs))
        run.pause_units()
        run.drain()
        given = counts(run.stop(), "q")
    assert given["cut"] > 50
    assert given["gate"] > 50


def test_what_a_shared_gate_kept_stays_whole_when_the_other_leaves(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The windows that are open then were kept for the larger fraction, in all their groups."""
    sql = "SELECT k, count(*) AS c FROM s WHERE n < 30 GROUP BY k, window(ts, '100 seconds')"
    lay_files(tmp_path, 1)
    flow = flow_over(tmp_path, watermark="5 seconds")
    flow.sql("a", sql, MEMORY, every=0.05)
    flow.sql("b", sql.replace("count(*)", "max(big)"), MEMORY, every=0.05)
    run = Run(flow.spec(), spark, flow.state)
    run.set_gates({"a": 0.2, "b": 0.8})
    run.start()
    until(lambda: all(has_read(each, tmp_path) for each in run.runs))
    run.unsubscribe("b")
    run.set_gates({})
    run.pause_units()
    run.drain()
    answers = run.answers("a").num_rows
    status = run.stop()
    assert answers > 15
    assert "cut" not in counts(status, "a")
    assert counts(status, "a")["gate"] > 0


def test_a_query_that_left_takes_its_gate_with_it(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_over(tmp_path)
    flow.sql("a", QUERIES["plain"], MEMORY, every=0.05)
    with flow.start(spark) as run:
        run.subscribe("b", QUERIES["plain"], MEMORY, every=0.05)
        run.set_gates({"a": 0.5, "b": 0.0})
        run.unsubscribe("b")
        assert run.gates == {"a": 0.5}
        run.subscribe("b", QUERIES["plain"], MEMORY, every=0.05)
        lay_file(tmp_path, 0)
        until(lambda: all(has_read(each, tmp_path) for each in run.runs))
        until(lambda: run.answers("b").num_rows == 195)


def test_gates_outlive_the_process(spark: SparkSession, tmp_path: Path) -> None:
    """The next one finds them shut, in what it tells and in all its batches."""
    keep = {"tumbling": 0.4, "plain": 0.6}
    flow = make(tmp_path, {name: QUERIES[name] for name in ("tumbling", "plain", "text")})
    lay_files(tmp_path, 2)
    run_gated(spark, flow, keep)
    lay_files(tmp_path, 4)
    run = Run(flow.spec(), spark, flow.state)
    assert run.gates == keep
    run.start(available_now=True).wait()
    for each in run.runs:
        wanted = {n: keep[q] for n, q in each.charge.names.items() if q in keep}
        assert each.history.newest == each.history.of(1000).keep == wanted
    run.set_gates({})
    assert run.gates == {}
    run.stop()


@pytest.mark.parametrize("keep", [{}, {"plain": 0.3}])
def test_gates_that_no_batch_has_had_outlive_the_process_too(
    spark: SparkSession, tmp_path: Path, keep: dict[str, float]
) -> None:
    flow = make(tmp_path, {"plain": QUERIES["plain"]})
    lay_files(tmp_path, 1)
    run_gated(spark, flow, {"plain": 0.5})
    with Run(flow.spec(), spark, flow.state) as run:
        run.set_gates(keep)
    with Run(flow.spec(), spark, flow.state) as run:
        assert run.gates == keep


@pytest.mark.parametrize("keep", [{"nobody": 0.5}, {"plain": 1.5}, {"plain": float("nan")}])
def test_gates_that_cannot_be_are_refused(
    spark: SparkSession, tmp_path: Path, keep: dict[str, float]
) -> None:
    with make(tmp_path, {"plain": QUERIES["plain"]}).start(spark) as run:
        with pytest.raises(ConfigError):
            run.set_gates(keep)
        assert run.gates == {}
