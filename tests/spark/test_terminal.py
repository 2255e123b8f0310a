"""A flow in a process of its own, and everything that another terminal can ask of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.spark.java import use_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FLOW = """
evenflow: 1
flow: terminal
sources:
  readings: {format: meters, options: {rate: 2000, seed: 3}}
queries:
  all:
    sql: SELECT id, kwh FROM readings WHERE kwh > 0
    sink: {format: json, path: out/all}
    deadline: 1 minute
  counted:
    sql: SELECT district, count(*) AS c FROM readings GROUP BY window(ts, '1 second'), district
    sink: {format: parquet, path: out/counted}
    deadline: 10 milliseconds
"""


class Terminal:
    """Runs commands on the flow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "flow.yaml"
        self.file.write_text(FLOW)

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "evenflow", "run", str(self.file), "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(self, command: str, *arguments: str, code: int = 0) -> str:
        line = [sys.executable, "-m", "evenflow", command, str(self.file), *arguments]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask("status", "--json"))
        return found

    def until(self, happened: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 240
        while not happened(found := self.status()):
            assert time.monotonic() < deadline, found
        return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Terminal, Any]]:
    use_java()
    terminal = Terminal(tmp_path_factory.mktemp("terminal"))
    process = terminal.start()
    try:
        deadline = time.monotonic() + 240
        while not list((terminal.folder / "out/counted").glob("*.parquet")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield terminal, process
    finally:
        process.kill()
        process.wait()


def test_queries_come_pause_resume_and_go(running: tuple[Terminal, Any]) -> None:
    terminal, _ = running
    sql = "SELECT count(*) AS c, sum(1 / (id % 2)) AS s FROM readings "
    sql += "GROUP BY window(ts, '1 second')"
    out = terminal.folder / "out/added"
    terminal.ask("subscribe", "--name", "added", "--sql", sql, "--sink", f"json:{out}")
    terminal.until(lambda s: s["queries"]["added"]["answers"] > 0)
    assert list(out.glob("*.json"))
    terminal.ask("pause", "added")
    found = terminal.until(lambda s: s["queries"]["added"]["counts"]["shed"]["paused"] > 0)
    assert found["queries"]["added"]["state"] == "paused"
    terminal.ask("resume", "added")
    assert terminal.status()["queries"]["added"]["state"] == "running"
    assert "not known" in terminal.ask("pause", "nobody", code=2)
    rejects = json.loads(terminal.ask("rejects", "added", "--json"))["rejects"]["added"]
    assert rejects
    assert all("division by zero" in each["reason"] for each in rejects)
    assert "division by zero" in terminal.ask("rejects", "added")
    assert terminal.ask("rejects", "all").strip() == "no rejects"
    terminal.ask("unsubscribe", "added")
    assert "added" not in terminal.status()["queries"]


def test_the_status_shows_rates_delays_and_state(running: tuple[Terminal, Any]) -> None:
    terminal, _ = running
    found = terminal.until(lambda s: s["queries"]["counted"]["delay_seconds"] is not None)
    units = {unit["kind"]: unit for unit in found["units"]}
    assert units["hash"]["state_rows"] > 0
    assert units["hash"]["state_bytes"] > 0
    assert 0 < units["stateless"]["batch_seconds"] < 60
    source = found["sources"]["readings"]
    # It may be catching up after a change.
    assert source["rows_per_second"] > 100
    counted = found["queries"]["counted"]
    assert counted["delay_seconds"] > 0
    assert counted["late"]
    assert found["queries"]["all"]["late"] is None
    rates = {each["kind"]: each for each in found["operators"] if "all" in each["queries"]}
    assert rates["source"]["out_per_second"] == source["rows_per_second"]
    assert rates["where"]["in_per_second"] >= rates["where"]["out_per_second"] > 0
    assert rates["select"]["out_per_second"] > 0
    text = terminal.ask("status", "--operators")
    assert "counted is late" in text
    assert "aggregate" in text


def test_a_paused_flow_loses_nothing(running: tuple[Terminal, Any]) -> None:
    terminal, _ = running
    terminal.ask("pause")
    before = terminal.status()
    assert before["paused"]
    time.sleep(1.5)
    after = terminal.status()
    assert after["queries"]["all"]["counts"] == before["queries"]["all"]["counts"]
    terminal.ask("resume")
    found = terminal.until(
        lambda s: s["queries"]["all"]["counts"]["in"] > before["queries"]["all"]["counts"]["in"]
    )
    assert not found["paused"]


def test_watching_shows_it_live_and_ends_with_it(running: tuple[Terminal, Any]) -> None:
    """The last test: it stops the flow."""
    terminal, process = running
    line = [sys.executable, "-m", "evenflow", "status", str(terminal.file), "--watch"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stderr is not None
        assert "rows/s" in watch.stderr.readline()
        terminal.ask("stop")
        out, _ = watch.communicate(timeout=60)
    assert "terminal: stopped, 2 queries" in out
    final = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    assert process.returncode == 0
    every = final["queries"]["all"]["counts"]
    # On a machine that is slow enough some of it is shed.
    assert every["in"] == every["contributed"] + every["filtered"] + sum(every["shed"].values())
    assert every["contributed"] > 0
    ids = [
        json.loads(text)["id"]
        for file in sorted((terminal.folder / "out/all").glob("*.json"))
        for text in file.read_text().splitlines()
    ]
    # Paused, resumed, changed: each tuple once.
    assert len(ids) == len(set(ids)) == every["contributed"]
