"""Paths that we write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenflow.base.paths import has_scheme, local_path
from evenflow.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("out/a", "out/a"),
        ("/out/a b", "/out/a b"),
        ("file:/out/a", "/out/a"),
        ("file:///out/a%20b", "/out/a b"),
        ("file://localhost/out", "/out"),
        ("a:b", "a:b"),
    ],
)
def test_paths_of_a_file_system_are_taken(text: str, path: str) -> None:
    assert local_path(text) == Path(path)


@pytest.mark.parametrize("text", ["s3a://bucket/out", "hdfs:/out", "file://elsewhere/out"])
def test_addresses_are_refused(text: str) -> None:
    assert has_scheme(text)
    with pytest.raises(ConfigError, match="not on a file system"):
        local_path(text)
