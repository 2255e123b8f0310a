"""The examples, run as their users run them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[1]


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy, so that nothing is written into the checkout."""
    ignored = shutil.ignore_patterns("out", ".evenflow", "__pycache__")
    return shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=ignored)


def _run(*words: object) -> str:
    command = [sys.executable, *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _rows(directory: Path) -> list[dict[str, Any]]:
    files = sorted(directory.rglob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _hourly(readings: list[dict[str, Any]]) -> dict[tuple[str, datetime], tuple[float, int]]:
    groups: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for each in readings:
        hour = datetime.fromisoformat(each["ts"]).replace(minute=0, second=0)
        groups[each["district"], hour] += [each["kwh"]] if each["kwh"] is not None else []
    return {key: (sum(values), len(values)) for key, values in groups.items()}


def test_the_quickstart_answers_what_python_computes_from_its_files(examples: Path) -> None:
    flow = examples / "quickstart.yaml"
    output = _run("-m", "evenflow", "run", flow, "--available-now", "--drain", "--json")
    status = json.loads(output.splitlines()[-1])
    readings = _rows(examples / "data" / "readings")
    for query in status["queries"].values():
        counts = dict(query["counts"])
        assert counts["in"] == len(readings)
        assert counts.pop("in") == sum(counts.pop("shed").values()) + sum(counts.values())
    found = {}
    for each in _rows(examples / "out" / "hourly"):
        start = datetime.fromisoformat(each["hour"]["start"])
        assert datetime.fromisoformat(each["hour"]["end"]) - start == timedelta(hours=1)
        found[each["district"], start] = (each["kwh"], each["readings"])
    assert found == _hourly(readings)
    missing = [each["id"] for each in readings if each["kwh"] is None]
    assert [each["id"] for each in _rows(examples / "out" / "missing")] == missing


def test_the_builder_example_prints_its_answers(examples: Path) -> None:
    output = _run(examples / "builder.py")
    for query in ("hourly", "busy", "classes", "over_limit"):
        assert f"\n{query}\n  {{" in output
