"""What the soak asks of a flow, and how it judges growth."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from evenflow.bench.process_tree import descendants, files_under, parse_heap, parse_status
from evenflow.bench.soak import report_of, trend, verdict
from evenflow.bench.soak_flow import Population, SoakQuery
from evenflow.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path


def noisy(step: float, count: int = 30) -> list[tuple[float, float]]:
    """Return samples every 15 seconds around 500, that rise by `step` each."""
    return [(15.0 * i, 500.0 + (7 * i) % 5 + step * i) for i in range(count)]


def test_noise_does_not_grow_and_a_steady_rise_does() -> None:
    assert not trend(noisy(0.0))["grows"]
    rising = trend(noisy(1.0))
    assert rising["grows"]
    assert rising["slope_per_hour"] == pytest.approx(240, rel=0.05)
    assert not trend(noisy(-1.0))["grows"]


def test_a_rise_within_noise_or_of_little_is_not_called_growth() -> None:
    wild = [(15.0 * i, 500.0 + (200 if i % 2 else 0) + i) for i in range(30)]
    assert not trend(wild)["grows"]
    assert not trend([(15.0 * i, 10_000.0 + i) for i in range(30)])["grows"]


def test_what_is_level_and_then_one_more_does_not_grow() -> None:
    # Such as threads: an hour's slope of one late step is nothing.
    assert not trend([(15.0 * i, 80.0 + (i > 27)) for i in range(30)])["grows"]


def test_the_report_leaves_out_the_first_minutes_and_names_what_grows() -> None:
    samples = [
        {"seconds": s, "changes": i, "threads": 50.0, "heap_mb": 1000.0 if s < 60 else value}
        for i, (s, value) in enumerate(noisy(2.0))
    ]
    report = report_of(samples, settling=60.0)
    assert {case["what"]: case["grows"] for case in report["cases"]} == {
        "threads": False,
        "heap_mb": True,
    }
    assert (report["changes"], report["seconds"]) == (29, 435)
    assert verdict(report) == ["29 changes in 435 s; after the first 60 s heap_mb grows"]
    with pytest.raises(RunError, match="too short"):
        report_of(samples[:5], settling=60.0)


def test_the_population_stays_about_as_large_as_it_began() -> None:
    population = Population(queries=20, seed=3)
    done: Counter[str] = Counter()
    counts = []
    for _ in range(2_000):
        action, _query = population.draw()
        done[action] += 1
        counts.append(len(population.states) + 5)
    assert set(done) == {"subscribe", "pause", "resume", "unsubscribe", "keep"}
    assert min(done.values()) > 100
    assert (min(counts), max(counts)) == (15, 25)


def test_equal_seeds_draw_equal_changes() -> None:
    one, other = Population(20, seed=1), Population(20, seed=1)
    assert [one.draw() for _ in range(50)] == [other.draw() for _ in range(50)]


def test_a_window_that_is_missing_or_answered_twice_is_told() -> None:
    query = SoakQuery(1)
    assert query.window_us == 2_000_000
    right = dict.fromkeys(range(0, 20_000_000, 2_000_000), 667)
    # The first window is not whole.
    query.check(1_000, {**right, 0: 5})
    for wrong in ({**right, 8_000_000: 1334}, {k: v for k, v in right.items() if k != 8_000_000}):
        with pytest.raises(RunError, match="window 8000000 counts"):
            query.check(1_000, wrong)


STATUS = """Name:\tjava
Umask:\t0022
Pid:\t4711
PPid:\t4700
VmRSS:\t 1048576 kB
Threads:\t87
"""
PARALLEL = """4711:
 PSYoungGen      total 611840K, used 102400K [0x00000007d5500000, 0x0000000800000000)
  eden space 524800K, 19% used [0x00000007d5500000,0x00000007dafffca0,0x00000007f5580000)
 ParOldGen       total 1398272K, used 51200K [0x0000000780000000, 0x00000007d5580000)
  object space 1398272K, 3% used [0x0000000780000000,0x00000007827ffff0,0x00000007d5580000)
 Metaspace       used 20480K, committed 21000K, reserved 1114112K
  class space    used 2048K, committed 2500K, reserved 1048576K
"""
G1 = """4711:
 garbage-first heap   total 2097152K, used 61440K [0x0000000780000000, 0x0000000800000000)
  region size 1024K, 3 young (3072K), 3 survivors (3072K)
 Metaspace       used 10240K, committed 11000K, reserved 1114112K
"""
SERIAL = """4711:
 def new generation   total 39296K, used 10240K [0x1, 0x2, 0x3)
 tenured generation   total 87424K, used 20480K [0x1, 0x2, 0x3)
 Metaspace       used 10240K, committed 11000K, reserved 1114112K
"""


def test_a_process_is_read_from_its_status() -> None:
    found = parse_status(STATUS)
    assert (found.pid, found.parent, found.rss_mb, found.threads) == (4711, 4700, 1024, 87)
    assert found.is_java


@pytest.mark.parametrize(
    ("text", "heap", "metaspace"), [(PARALLEL, 150, 20), (G1, 60, 10), (SERIAL, 30, 10)]
)
def test_the_heap_is_read_of_every_collector(text: str, heap: float, metaspace: float) -> None:
    found = parse_heap(text)
    assert (found.heap_mb, found.metaspace_mb) == (heap, metaspace)


def test_descendants_are_found_themselves_first() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        tree = descendants(os.getpid())
        assert tree[0].pid == os.getpid()
        assert child.pid in {each.pid for each in tree[1:]}
        assert tree[0].rss_mb > 1
        assert tree[0].open_files() > 0
    finally:
        child.kill()
        child.communicate()


def test_files_are_counted_in_all_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"x" * 1024 * 1024)
    (tmp_path / "a" / "b" / "two").touch()
    assert files_under(tmp_path) == (2, 1.0)
