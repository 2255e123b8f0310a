"""Synthetic tuples: the same for the same seed, however they are cut; as many as they should be."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenflow.spark.source.generator_options import begin, generator_settings
from evenflow.spark.source.generators import (
    TICK_US,
    ConstantArrivals,
    Generator,
    Place,
    SurgeArrivals,
    make_generator,
)

KINDS = ("constant", "poisson", "burst", "meters")
OPTIONS: dict[str, dict[str, str]] = {
    "constant": {"rate": "777.7"},
    "poisson": {"rate": "300"},
    "burst": {"max_delay": "5", "interval": "1", "max_rate": "20000"},
    "meters": {"rate": "1234", "meters": "300", "feeders": "30", "districts": "4"},
}
NOW_US = 1_794_787_200_000_000
TICKS = 400


def settings(kind: str, **options: str) -> dict[str, Any]:
    made = generator_settings(kind, {**OPTIONS[kind], **options}, 2)
    made.update(begin(made, NOW_US))
    return made


def generator(kind: str, **options: str) -> Generator:
    return make_generator(settings(kind, **options))


def rows(made: Generator, first: Place, last: Place) -> list[dict[str, Any]]:
    batches = list(made.batches(first, last))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def first_tick(kind: str, **options: str) -> int:
    return int(settings(kind, **options)["first_tick"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_tuples_however_they_are_cut(kind: str) -> None:
    made, at = generator(kind, seed="5"), first_tick(kind)
    whole = rows(made, Place(at), Place(at + TICKS))
    cut: list[dict[str, Any]] = []
    place = Place(at)
    for most in (1, 7, 500, 1, 3000, 10**9):
        end, taken = made.advance(place, at + TICKS, most)
        piece = rows(generator(kind, seed="5"), place, end)
        assert len(piece) == taken <= most
        cut += piece
        place = end
    assert place == Place(at + TICKS)
    assert cut == whole
    end, taken = made.advance(Place(at), at + TICKS, len(whole))
    assert (rows(made, Place(at), end), taken) == (whole, len(whole))
    assert rows(generator(kind, seed="6"), Place(at), Place(at + TICKS)) != whole


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_unique_and_increase(kind: str) -> None:
    at = first_tick(kind)
    ids = [row["id"] for row in rows(generator(kind), Place(at), Place(at + TICKS))]
    assert len(ids) > 1000
    assert all(a < b for a, b in itertools.pairwise(ids))


@pytest.mark.parametrize("kind", ["constant", "poisson", "burst"])
def test_tuples_lie_in_their_tick_and_in_order(kind: str) -> None:
    made = generator(kind)
    first = first_tick(kind)
    for tick in range(first, first + 50):
        _, times = made.arrivals.rows(tick, tick + 1)
        assert len(times) == made.arrivals.counts(tick, tick + 1)[0]
        assert np.all(times // TICK_US == tick)
        assert np.all(np.diff(times) >= 0)


def test_constant_arrivals_are_equidistant_and_exact() -> None:
    made, at = generator("constant", rate="4"), first_tick("constant")
    found = rows(made, Place(at), Place(at + 10 * 3600))
    assert len(found) == 4 * 3600
    apart = {b["ts"] - a["ts"] for a, b in itertools.pairwise(found)}
    assert apart == {timedelta(milliseconds=250)}
    assert [row["id"] for row in found[:2]] == [4 * at // 10, 4 * at // 10 + 1]


def test_live_tuples_carry_the_time_of_day() -> None:
    at = first_tick("constant")
    moment = rows(generator("constant"), Place(at), Place(at + 1))[0]["ts"]
    now = datetime.fromtimestamp(NOW_US / 1e6, tz=UTC)
    assert abs(moment - now) < timedelta(seconds=0.2)


def test_a_start_and_a_speed_move_event_time_and_not_the_rate() -> None:
    options = {"rate": "10", "start": "2026-01-05 06:00:00.5", "speed": "3600"}
    made = generator("constant", **options)
    found = rows(made, Place(0), Place(20))
    assert len(found) == 20
    start = datetime(2026, 1, 5, 6, 0, 0, 500_000, tzinfo=UTC)
    assert [row["ts"] for row in found[:2]] == [start, start + timedelta(minutes=6)]
    assert [row["id"] for row in found] == list(range(20))


def test_poisson_counts_have_the_mean_and_the_variance_of_their_rate() -> None:
    for rate in (2.0, 300.0, 50_000.0):
        counts = generator("poisson", rate=str(rate)).arrivals.counts(0, 20_000)
        mean = rate / 10
        assert counts.mean() == pytest.approx(mean, abs=5 * (mean / 20_000) ** 0.5)
        assert counts.var() == pytest.approx(mean, rel=0.06)


def test_poisson_places_are_uniform() -> None:
    _, times = generator("poisson", rate="20000").arrivals.rows(0, 100)
    tenths = np.bincount(times % TICK_US // 10_000, minlength=10)
    assert tenths.sum() == len(times)
    assert np.all(np.abs(tenths - len(times) / 10) < 5 * (len(times) / 10) ** 0.5)


def test_bursts_change_their_rate_every_interval_and_keep_to_the_bounds() -> None:
    """PIPES 3.4: a delay uniform in (0, T], drawn anew after a fixed interval.

    Departure: delays have a lower bound, or rates would have no upper one.
    """
    made = generator("burst", max_delay="5", interval="1", max_rate="20000")
    counts = made.arrivals.counts(0, 10 * 2000)
    per_second = counts.reshape(-1, 10).sum(axis=1)
    assert len(set(per_second.tolist())) > 500
    assert per_second.min() == pytest.approx(200, abs=2)
    assert per_second.max() == 20_000
    spread = counts.reshape(-1, 10)
    assert np.all(spread.max(axis=1) - spread.min(axis=1) <= 1)
    delays = 1_000_000 / per_second
    assert delays.mean() == pytest.approx(2_500, rel=0.1)


def test_values_are_below_a_million_and_spread() -> None:
    at = first_tick("constant")
    values = [row["value"] for row in rows(generator("constant"), Place(at), Place(at + TICKS))]
    assert min(values) >= 0
    assert max(values) < 1_000_000
    assert np.mean(values) == pytest.approx(500_000, rel=0.03)


def test_meters_belong_to_one_feeder_and_feeders_to_one_district() -> None:
    at = first_tick("meters")
    found = rows(generator("meters"), Place(at), Place(at + TICKS))
    feeder = {row["meter"]: row["feeder"] for row in found}
    district = {row["feeder"]: row["district"] for row in found}
    assert (len(feeder), len(district), len(set(district.values()))) == (300, 30, 4)
    assert all(feeder[row["meter"]] == row["feeder"] for row in found)
    assert all(district[row["feeder"]] == row["district"] for row in found)
    assert {len(name) for name in feeder} == {4}
    turns = [row["meter"] for row in found[:600]]
    assert len(set(turns[:300])) == 300
    assert turns[:300] == turns[300:]


def test_readings_add_up_exactly() -> None:
    at = first_tick("meters")
    for row in rows(generator("meters"), Place(at), Place(at + 50)):
        assert (row["kwh"] * 1024).is_integer()
        assert (row["voltage"] * 1024).is_integer()
        assert 0 <= row["kwh"] < 20
        assert 190 < row["voltage"] < 250


def test_a_share_of_readings_comes_late_by_a_few_seconds() -> None:
    at = first_tick("meters")
    calm = rows(generator("meters", disorder="0"), Place(at), Place(at + TICKS))
    wild = rows(generator("meters", disorder="0.1"), Place(at), Place(at + TICKS))
    late = [a["ts"] - b["ts"] for a, b in zip(calm, wild, strict=True) if a["ts"] != b["ts"]]
    assert len(late) == pytest.approx(len(calm) / 10, rel=0.1)
    assert timedelta(0) < min(late)
    assert max(late) <= timedelta(seconds=5)
    assert max(late) > timedelta(seconds=4)


def test_load_has_a_hump_in_the_morning_and_one_in_the_evening() -> None:
    day = {"start": "2026-01-05", "speed": "864", "rate": "1000"}  # a Monday in 100 seconds
    found = rows(generator("meters", **day), Place(0), Place(1000))
    sums: dict[int, list[float]] = {}
    for row in found:
        sums.setdefault(row["ts"].hour, []).append(row["kwh"])
    load = {hour: float(np.mean(values)) for hour, values in sums.items()}
    assert load[7] > 1.5 * load[3]
    assert load[19] > 1.5 * load[13]
    assert load[19] > load[7] > load[12]


@pytest.mark.slow
def test_tasks_need_no_evenflow(tmp_path: Path) -> None:
    """The source is pickled by value: a process without Evenflow reads it, the same tuples."""
    import pyspark.cloudpickle

    from evenflow.spark.source import generator_source, generators

    for module in (generators, generator_source):
        pyspark.cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    made = settings("meters", start="2026-01-05", rate="100")
    clock = tmp_path / "begin.json"
    clock.write_text(json.dumps({name: made[name] for name in begin(made, NOW_US)}))
    told = {**made, "clock_file": str(clock)}
    pickled = pyspark.cloudpickle.dumps((generator_source.GeneratorSource, told))  # type: ignore[no-untyped-call]
    code = (
        "import json, pickle, sys\n"
        "sys.modules['evenflow'] = None\n"
        "source, made = pickle.loads(sys.stdin.buffer.read())\n"
        "reader = source({'settings': json.dumps(made)}).streamReader(None)\n"
        "reader = pickle.loads(__import__('pyspark.cloudpickle').cloudpickle.dumps(reader))\n"
        "parts = reader.partitions({'tick': 0, 'index': 0, 'rows': 0},\n"
        "                          {'tick': 10, 'index': 3, 'rows': 103})\n"
        "__import__('os').remove(made['clock_file'])\n"
        "rows = [r for p in parts for b in reader.read(p) for r in b.to_pylist()]\n"
        "print(len(rows), rows[-1]['id'], rows[-1]['kwh'], rows[-1]['meter'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickled, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    last = rows(make_generator(made), Place(0), Place(10, 3))[-1]
    assert done.stdout.decode().split() == ["103", str(last["id"]), str(last["kwh"]), last["meter"]]


@pytest.mark.parametrize("factor", [1, 3, 10])
def test_a_surge_comes_and_goes(factor: int) -> None:
    usual = ConstantArrivals(25_500)
    surge = SurgeArrivals(usual, factor, 20, 50)
    counts = surge.counts(0, 80)
    assert counts[:20].tolist() == usual.counts(0, 20).tolist()
    assert counts[50:].tolist() == usual.counts(50, 80).tolist()
    assert counts[20:50].tolist() == (factor * usual.counts(20, 50)).tolist()
    ids, times = surge.rows(0, 80)
    assert ids.tolist() == list(range(int(counts.sum())))
    assert (np.diff(times) >= 0).all()
    assert np.bincount(times // TICK_US, minlength=80).tolist() == counts.tolist()
    later = surge.rows(37, 80)
    assert [each[-5:].tolist() for each in later] == [ids[-5:].tolist(), times[-5:].tolist()]
