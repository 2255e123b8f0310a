"""Options of generators: what is refused, and what is meant by default."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evenflow.errors import ConfigError
from evenflow.spark.source.generator_options import GENERATORS, begin, generator_settings
from evenflow.spark.source.generator_source import GeneratorReader, rows_waiting


@pytest.mark.parametrize(
    ("format_", "options"),
    [
        ("constant", {"rte": "5"}),
        ("constant", {"meters": "5"}),
        ("constant", {"rate": "0"}),
        ("constant", {"rate": "nan"}),
        ("constant", {"rate": "many"}),
        ("constant", {"rate": "6000000"}),
        ("constant", {"rowsPerSecond": "5"}),
        ("poisson", {"seed": "-1"}),
        ("poisson", {"start": "yesterday"}),
        ("poisson", {"speed": "0"}),
        ("poisson", {"rows": "1.5"}),
        ("burst", {"rate": "100"}),
        ("burst", {"interval": "0"}),
        ("burst", {"max_delay": "0"}),
        ("meters", {"districts": "21", "feeders": "20"}),
        ("meters", {"disorder": "1.1"}),
        ("meters", {"max_rows_per_batch": "0"}),
    ],
)
def test_wrong_options_are_refused(format_: str, options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        generator_settings(format_, options, 2)


def test_a_misspelt_option_is_hinted_at() -> None:
    with pytest.raises(ConfigError) as caught:
        generator_settings("meters", {"metres": "5"}, 2)
    assert caught.value.hint == "did you mean meters?"


@pytest.mark.parametrize("format_", GENERATORS)
def test_every_generator_runs_without_options(format_: str) -> None:
    made = generator_settings(format_, {}, 3)
    assert (made["seed"], made["rows"], made["partitions"]) == (0, None, 3)
    assert made["max_rows_per_batch"] >= 1_000_000


def test_names_of_options_are_compared_as_spark_does() -> None:
    assert generator_settings("constant", {"RATE": "5"}, 2)["milli_rate"] == 5000
    assert generator_settings("burst", {"Interval": "2 minutes"}, 2)["interval_ticks"] == 1200


class _Clock:
    """Says what time it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = 1_794_787_200.0

    def time_ns(self) -> int:
        return int(self.seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Clock:
    made = _Clock(tmp_path)
    monkeypatch.setattr("evenflow.spark.source.generator_source.time", made)
    return made


def settings(clock: _Clock, **options: str) -> dict[str, Any]:
    """Return settings of a generator whose clock begins now."""
    made = generator_settings("constant", {"rate": "100", **options}, 4)
    file = clock.folder / "begin.json"
    file.write_text(json.dumps(begin(made, clock.time_ns() // 1000)))
    return {**made, "clock_file": str(file)}


def reader(clock: _Clock, **options: str) -> GeneratorReader:
    return GeneratorReader(settings(clock, **options))


def test_what_is_due_follows_the_clock(clock: _Clock) -> None:
    made = reader(clock)
    limit = made.getDefaultReadLimit()
    start = made.initialOffset()
    assert made.latestOffset(start, limit) == start
    clock.seconds += 2
    end = made.latestOffset(start, limit)
    assert end["rows"] == 200
    clock.seconds += 100  # nobody read for a while: what came in between is there
    assert made.latestOffset(end, limit)["rows"] == 10_200


def test_a_clock_that_is_set_before_the_first_batch_holds(clock: _Clock) -> None:
    """Costs are measured between the making of a reader and the start of its unit."""
    made = reader(clock, start="2026-01-01")
    clock.seconds += 60
    settings(clock, start="2026-01-01")
    start = made.initialOffset()
    clock.seconds += 1
    assert made.latestOffset(start, made.getDefaultReadLimit())["rows"] == 100


def test_a_limit_holds_to_the_tuple(clock: _Clock) -> None:
    made = reader(clock, max_rows_per_batch="33", start="2026-01-01")
    clock.seconds += 1
    offset = made.initialOffset()
    seen = []
    for _ in range(4):
        end = made.latestOffset(offset, made.getDefaultReadLimit())
        parts = made.partitions(offset, end)
        seen += [row["id"] for p in parts for b in made.read(p) for row in b.to_pylist()]
        offset = end
    assert offset["rows"] == 100
    assert seen == list(range(100))
    assert made.latestOffset(offset, made.getDefaultReadLimit()) == offset
    assert list(made.partitions(offset, offset)) == []


def test_what_waits_behind_a_limit_is_told(clock: _Clock, tmp_path: Path) -> None:
    limit = tmp_path / "limit.txt"
    made = GeneratorReader({**settings(clock), "limit_file": str(limit)})
    start = made.initialOffset()
    assert made.reportLatestOffset() is None
    clock.seconds += 2
    limit.write_text("30")
    end = made.latestOffset(start, made.getDefaultReadLimit())
    assert end["rows"] == 30
    assert made.reportLatestOffset() == {"rows": 200}
    limit.write_text("not a number")
    assert made.latestOffset(end, made.getDefaultReadLimit())["rows"] == 200
    assert made.reportLatestOffset() == {"rows": 200}


def test_what_waits_is_known_at_any_time(clock: _Clock) -> None:
    endless, of_250 = settings(clock), settings(clock, rows="250")
    made, begun = GeneratorReader(endless), json.loads(Path(endless["clock_file"]).read_text())
    endless, of_250 = {**endless, **begun}, {**of_250, **begun}
    clock.seconds += 2
    offset = made.latestOffset(made.initialOffset(), made.getDefaultReadLimit())
    read = json.dumps({**offset, "tick": offset["tick"] - 1, "index": 4, "rows": 194})
    assert rows_waiting(endless, read, clock.seconds) == 6
    assert rows_waiting(endless, json.dumps(offset), clock.seconds + 1) == 100
    assert rows_waiting(of_250, json.dumps(offset), clock.seconds + 9) == 50
    for other in ("-", '{"logOffset": 3}', "[]", '{"tick": null, "index": 0, "rows": 0}'):
        assert rows_waiting(endless, other, clock.seconds) is None


def test_a_finite_stream_is_all_there_now_or_comes_as_time_passes(clock: _Clock) -> None:
    made = reader(clock, rows="250")
    start = made.initialOffset()
    clock.seconds += 1
    assert made.latestOffset(start, made.getDefaultReadLimit())["rows"] == 100
    made.prepareForTriggerAvailableNow()
    end = made.latestOffset(start, made.getDefaultReadLimit())
    assert end["rows"] == 250
    assert made.latestOffset(end, made.getDefaultReadLimit()) == end


def test_what_is_available_now_does_not_grow(clock: _Clock) -> None:
    made = reader(clock)
    start = made.initialOffset()
    clock.seconds += 1
    made.prepareForTriggerAvailableNow()
    clock.seconds += 5
    assert made.latestOffset(start, made.getDefaultReadLimit())["rows"] == 100


def test_tasks_share_a_batch_without_gap_or_repeat(clock: _Clock) -> None:
    made = reader(clock, rate="100000", start="2026-01-01", partitions="3")
    clock.seconds += 1
    start = made.initialOffset()
    end = made.latestOffset(start, made.getDefaultReadLimit())
    parts = made.partitions(start, end)
    assert len(parts) == 3
    ids = [i for p in parts for b in made.read(p) for i in b.column("id").to_pylist()]
    assert ids == list(range(100_000))


def test_tasks_that_are_asked_for_are_made_for_few_tuples_too(clock: _Clock) -> None:
    asked, usual = reader(clock, rate="7001", partitions="2"), reader(clock, rate="7001")
    clock.seconds += 1
    start = asked.initialOffset()
    end = asked.latestOffset(start, asked.getDefaultReadLimit())
    assert len(usual.partitions(start, end)) == 1
    rows = [sum(b.num_rows for b in asked.read(p)) for p in asked.partitions(start, end)]
    assert (len(rows), sum(rows)) == (2, end["rows"])
    assert max(rows) - min(rows) <= 1


def test_a_reader_that_spark_has_left_ends_without_a_trace(tmp_path: Path) -> None:
    """As PySpark drives it: `stop` is called while an error is on its way out."""
    code = (
        "import pathlib, sys, tests.spark_pure.test_generator_options as t\n"
        f"made = t.reader(t._Clock(pathlib.Path({str(tmp_path)!r})))\n"
        "made.stop()\n"
        "try:\n    raise {}\nfinally:\n    made.stop()\n"
    )
    for error, code_, traces in (("EOFError", 0, False), ("ValueError", 1, True)):
        done = subprocess.run(
            [sys.executable, "-c", code.format(error)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
        )
        assert done.returncode == code_
        assert ("Traceback" in done.stderr) == traces, done.stderr
