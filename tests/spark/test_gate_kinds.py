"""Gates of every kind of window and condition, and rows that are late, cut or rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from evenflow.spark.run import Run
from tests.spark.flows import MEMORY, Answers, counts, flow_over, lay, row, rows_of, until
from tests.spark.gated import KEYS, has_read, lay_file, lay_files, make, run_gated

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def grouped(where: str, window: str) -> str:
    return (
        "SELECT n, window.start AS w, count(*) AS c, sum(big) AS b FROM s "
        f"WHERE {where} GROUP BY n, window(ts, {window})"
    )


FINE, IRREGULAR, TUMBLING = (
    "'20 seconds', '1 second'",
    "'25 seconds', '10 seconds'",
    "'10 seconds'",
)
CHEAP, OTHER, FAILING = "n < 30", "id % 3 <> 0", "100 / (n - 7) > -20"
DEAR, DEAR_FAILING = "upper(k) <> 'K3'", "upper(k) <> 'K3' AND 100 / (n - 7) > -20"
KINDS = {
    "fine": {"a": grouped(CHEAP, FINE), "b": grouped(OTHER, FINE), "dear": grouped(DEAR, FINE)},
    "irregular": {
        "a": grouped(CHEAP, IRREGULAR),
        "dear": grouped(DEAR, IRREGULAR),
        "dear_too": grouped("lower(k) <> 'k5'", IRREGULAR),
    },
    "dear and irregular alone": {"dear": grouped(DEAR, IRREGULAR)},
    "failing": {
        "a": grouped(FAILING, TUMBLING),
        "b": grouped(CHEAP, TUMBLING),
        "dear": grouped(DEAR_FAILING, TUMBLING),
    },
    "failing alone": {"a": grouped(FAILING, TUMBLING)},
    "dear and failing alone": {"dear": grouped(DEAR_FAILING, "'20 seconds', '10 seconds'")},
}
SHORT = ("irregular", "failing")

GENERATED = ("fine", "dear and failing alone")
"""What runs as generated code, which takes twice the time here."""


def is_before(name: str, kind: str) -> bool:
    """Whether gates drop before the condition, and so what this did not want, too."""
    return name.startswith("dear") and kind != "fine"


def lay_with_late(folder: Path) -> None:
    """Lay files, the last of which is of long ago."""
    lay_files(folder, 5)
    late = [row(9_000 + i, i / 40, k=f"k{i % KEYS}", n=i % KEYS, big=i) for i in range(80)]
    lay(folder / "s", *late)


@pytest.mark.parametrize(
    "kind",
    [each if each in SHORT else pytest.param(each, marks=pytest.mark.long) for each in KINDS],
)
def test_what_is_late_or_rejected_is_not_counted_as_dropped(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    queries = KINDS[kind]
    for name in ("all", "some"):
        lay_with_late(tmp_path / name)
    exact, all_ = run_gated(spark, make(tmp_path / "all", queries), {})
    keep = dict.fromkeys(queries, 0.4)
    generated = kind in GENERATED
    some, status = run_gated(spark, make(tmp_path / "some", queries), keep, generated)
    for name in queries:
        wanted, given = counts(all_, name), counts(status, name)
        assert set(some[name]) < set(exact[name])
        assert len(some[name]) == len(set(some[name])) > 0
        assert given["in"] == wanted["in"]
        assert wanted["late"] > 0
        assert ("rejected" in wanted) == ("failing" in kind and name != "b")
        assert given.get("filtered", 0) >= 0
        if is_before(name, kind):
            assert given["late"] >= wanted["late"]
            assert given.get("rejected", 0) <= wanted.get("rejected", 0)
            assert given["gate"] > wanted["contributed"] - given["contributed"]
        else:
            for reason in ("late", "rejected", "filtered"):
                assert given.get(reason) == wanted.get(reason)
            assert given["gate"] + given["contributed"] == wanted["contributed"]
        assert "cut" not in given


def test_what_is_cut_is_not_counted_as_dropped(spark: SparkSession, tmp_path: Path) -> None:
    """Windows that had begun when a query came are not its own, whatever its gate keeps."""
    exact, wanted = run_newcomers(spark, tmp_path / "all", {})
    some, given = run_newcomers(spark, tmp_path / "some", {"new": 0.3, "dear": 0.3})
    for name in ("new", "dear"):
        assert wanted[name]["cut"] > 0
        assert set(some[name]) < set(exact[name])
        assert given[name]["in"] == wanted[name]["in"]
        assert given[name]["gate"] > 0
    assert given["new"]["cut"] == wanted["new"]["cut"]
    assert given["new"]["gate"] + given["new"]["contributed"] == wanted["new"]["contributed"]
    assert (some["old"], given["old"]) == (exact["old"], wanted["old"])


def run_newcomers(
    spark: SparkSession, folder: Path, keep: dict[str, float]
) -> tuple[Answers, dict[str, Any]]:
    """Subscribe queries behind the first file and set gates; return answers and counts."""
    flow = flow_over(folder, watermark="5 seconds")
    flow.sql("old", grouped(OTHER, TUMBLING), MEMORY, every=0.05)
    run = Run(flow.spec(), spark, flow.state)
    lay_file(folder, 0)
    run.start()
    until(lambda: all(has_read(each, folder) for each in run.runs))
    for name, where in (("new", CHEAP), ("dear", DEAR)):
        run.subscribe(name, grouped(where, TUMBLING), MEMORY, every=0.05)
    run.set_gates(keep)
    # Gates may hold from the next batch but one on: all that this one has is cut anyhow.
    lay(folder / "s", *(row(9_000 + i, 6, n=i % KEYS, k=f"k{i % KEYS}", big=i) for i in range(80)))
    until(lambda: all(has_read(each, folder) for each in run.runs))
    for number in (1, 2, 8):
        lay_file(folder, number)
        until(lambda: all(has_read(each, folder) for each in run.runs))
    run.pause_units()
    run.drain()
    found = {name: rows_of(run.answers(name)) for name in ("old", "new", "dear")}
    status = run.stop()
    return found, {name: counts(status, name) for name in found}
