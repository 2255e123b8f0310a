"""The project file, the lock and the scripts agree."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from typing import Any

from tests.architecture.tree import ROOT

import evenflow

LOCK = (ROOT / "requirements.txt").read_text(encoding="utf-8")


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _normalised(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def test_the_version_is_the_same_everywhere() -> None:
    assert _project()["project"]["version"] == evenflow.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {evenflow.__version__}" in changes


def test_the_lock_has_every_dependency_by_version_and_hash() -> None:
    project = _project()["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = set(re.findall(r"^([a-z0-9-]+)==", LOCK, re.MULTILINE))
    assert {_normalised(each) for each in wanted} <= locked
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_lock_names_no_address_and_no_place() -> None:
    assert not re.search(r"https?:|://|index-url|find-links|trusted-host", LOCK)
    assert not re.search(r"^\s*#|file:|/(home|root|tmp)/", LOCK, re.MULTILINE)


def test_the_locked_spark_is_the_one_that_has_connectors() -> None:
    assert re.search(r"^pyspark==4\.2\.0 ", LOCK, re.MULTILINE)


def test_scripts_can_be_run_and_parsed() -> None:
    for name in ("scripts/setup", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK)
        subprocess.run(["sh", "-n", str(ROOT / name)], check=True)


def test_set_up_finds_the_build_backend_in_the_lock() -> None:
    script = (ROOT / "scripts" / "setup").read_text(encoding="utf-8")
    pattern = re.search(r"sed -n '([^']+)' requirements\.txt", script)
    assert pattern is not None
    done = subprocess.run(
        ["sed", "-n", pattern.group(1), str(ROOT / "requirements.txt")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"setuptools==\S+ \\\n(\s+--hash=sha256:\w+( \\)?\n)+", done.stdout)
