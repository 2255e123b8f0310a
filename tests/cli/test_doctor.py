"""`doctor` and the search for Java."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from evenflow.cli.doctor import Verdict, _disk, _package, _worker_python, examine
from evenflow.errors import EnvironmentFaultError
from evenflow.spark import java
from evenflow.spark.java import find_java, inspect_java, launched_java, use_java

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke


def _install(home: Path, version: str, modules: str = "java.base@1 jdk.incubator.vector@1") -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        "#!/bin/sh\n"
        f"[ \"$1\" = --list-modules ] && printf '%s\\n' {modules} && exit\n"
        f"echo 'Picked up JAVA_TOOL_OPTIONS: x' >&2; echo 'openjdk version \"{version}\"' >&2\n",
        encoding="utf-8",
    )
    binary.chmod(0o755)
    return home


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An environment without Java anywhere."""
    monkeypatch.setattr(java, "_PLACES", ((str(tmp_path / "jvm"), "*"),))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return {"PATH": str(tmp_path / "path")}


def test_a_java_is_known_by_version_and_module(tmp_path: Path) -> None:
    new = inspect_java(_install(tmp_path / "new", "21.0.2"))
    assert new is not None
    assert (new.version, new.fits) == (21, True)
    old = inspect_java(_install(tmp_path / "old", "1.8.0_402"))
    assert old is not None
    assert (old.version, old.fits) == (1, False)
    trimmed = inspect_java(_install(tmp_path / "trimmed", "17.0.1", "java.base@17"))
    assert trimmed is not None
    assert not trimmed.fits
    assert inspect_java(tmp_path) is None


def test_java_home_comes_first_then_the_path_then_the_usual_places(
    empty: dict[str, str], tmp_path: Path
) -> None:
    assert find_java(empty) is None
    usual = _install(tmp_path / "jvm" / "17", "17.0.1")
    found = find_java(empty)
    assert found is not None
    assert found.home == usual
    on_path = _install(tmp_path / "other", "18")
    empty["PATH"] = str(on_path / "bin")
    found = find_java(empty)
    assert found is not None
    assert found.home == on_path
    empty["JAVA_HOME"] = str(_install(tmp_path / "home", "19"))
    found = find_java(empty)
    assert found is not None
    assert found.version == 19


def test_a_java_home_that_is_too_old_is_passed_over(empty: dict[str, str], tmp_path: Path) -> None:
    empty["JAVA_HOME"] = str(_install(tmp_path / "old", "11.0.1"))
    usual = _install(tmp_path / "jvm" / "17", "17.0.1")
    found = find_java(empty)
    assert found is not None
    assert found.home == usual
    by_name = {check.name: check for check in examine(empty)}
    assert by_name["Java"].verdict is Verdict.OK
    assert by_name["JAVA_HOME"].verdict is Verdict.WARNING
    assert str(usual) in by_name["JAVA_HOME"].how


@pytest.mark.usefixtures("empty")
def test_spark_gets_the_java_that_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentFaultError):
        use_java()
    usual = _install(tmp_path / "jvm" / "17", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert use_java() == usual
    assert launched_java({"JAVA_HOME": str(usual)}) == usual


def test_doctor_says_what_is_missing_and_how_to_get_it(
    invoke: Invoke, empty: dict[str, str], tmp_path: Path
) -> None:
    result = invoke("doctor", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["ok"] is False
    missing = [check for check in found["checks"] if check["verdict"] == "missing"]
    assert [check["name"] for check in missing] == ["Java"]
    assert "openjdk-17" in missing[0]["how"]
    _install(tmp_path / "jvm" / "17", "17.0.1")
    result = invoke("doctor")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == "what verdict found how to get it".split()


@pytest.mark.parametrize(
    ("version", "shown"), [("11", "older than 17"), ("17.0.9", "jdk.incubator.vector")]
)
def test_a_java_that_does_not_fit_is_named(
    empty: dict[str, str], tmp_path: Path, version: str, shown: str
) -> None:
    empty["JAVA_HOME"] = str(_install(tmp_path / "home", version, "java.base@1"))
    check = next(each for each in examine(empty) if each.name == "Java")
    assert check.verdict is Verdict.MISSING
    assert shown in check.found


def test_packages_are_imported_and_their_versions_compared() -> None:
    assert _package("sqlglot", ">=1", (1,), None).verdict is Verdict.OK
    assert _package("sqlglot", ">=999", (999,), None).verdict is Verdict.MISSING
    assert _package("sqlglot", "<1", (0,), (1,)).verdict is Verdict.MISSING
    assert _package("no_such_package", ">=1", (1,), None).verdict is Verdict.MISSING


def test_workers_with_another_python_are_noticed() -> None:
    assert _worker_python({}).verdict is Verdict.OK
    assert _worker_python({"PYSPARK_PYTHON": sys.executable}).verdict is Verdict.OK
    assert _worker_python({"PYSPARK_PYTHON": "/usr/bin/other"}).verdict is Verdict.WARNING


def test_little_disk_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("evenflow.cli.doctor.LEAST_FREE_BYTES", 1 << 80)
    assert _disk("disk", tmp_path).verdict is Verdict.WARNING
