"""Ctrl-C on a real process: the running batch ends, nothing is cut."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from evenflow.cli.command import INTERRUPTED
from evenflow.spark.java import use_java

if TYPE_CHECKING:
    from pathlib import Path

FLOW = """
evenflow: 1
flow: interrupted
sources:
  readings: {format: meters, options: {rate: 20000, seed: 3}}
queries:
  all:
    sql: SELECT id, kwh * 2 AS twice FROM readings
    sink: {format: parquet, path: out/all}
"""


DEADLINE = FLOW.replace("    sink:", "    deadline: 5 seconds\n    sink:")


def test_an_end_while_costs_are_measured_comes_between_two_calls(tmp_path: Path) -> None:
    """SIGTERM, of a service manager, is as good as Ctrl-C."""
    use_java()
    file = tmp_path / "flow.yaml"
    file.write_text(DEADLINE)
    command = [sys.executable, "-m", "evenflow", "run", str(file), "--verbose", "--for", "60s"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if "measuring" in line:
                    break
            time.sleep(1.5)  # into a measurement
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == INTERRUPTED, err
    assert "measuring" in said[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_an_interrupt_ends_the_run_after_its_batch(tmp_path: Path) -> None:
    use_java()
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW)
    command = [sys.executable, "-m", "evenflow", "run", str(file), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while len(list((tmp_path / "out").rglob("*.parquet"))) < 2:
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(0.7)  # into the next batch
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    assert "cancel" not in err.lower()
    assert "Exception" not in err, err
    counts = json.loads(out.splitlines()[-1])["queries"]["all"]
    assert counts["answers"] == counts["counts"]["in"] == counts["counts"]["contributed"] > 0
