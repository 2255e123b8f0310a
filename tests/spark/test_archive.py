"""An archive of classes that does not hold is passed over without a word."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from evenflow.spark import archive
from evenflow.spark.java import use_java

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_without_an_archive_there_are_no_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "kept_folder", lambda: tmp_path)
    assert archive.archive_flags() == ""


def test_an_archive_that_does_not_hold_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "kept_folder", lambda: tmp_path)
    archive.archive_file().write_bytes(b"of another Java")
    java = str(use_java() / "bin" / "java")
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    flags = archive.archive_flags().split()
    done = subprocess.run(
        [java, *flags, "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert flags
    assert done.returncode == 0
    assert done.stdout == ""
    assert "warning" not in done.stderr.lower()
