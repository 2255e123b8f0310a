"""YAML: what is refused before any model sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evenflow.cli.yaml_text import MAX_BYTES, key_text, read_yaml
from evenflow.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def _refused(directory: Path, text: str | bytes) -> str:
    path = directory / "x.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    assert str(path) in caught.value.message
    return caught.value.message.removeprefix(str(path))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: 1\nb: 2\na: 3\n", ":3: a stands twice"),
        ("a:\n  b: 1\n  b: 2\n", ":3: a.b stands twice"),
        ("l:\n- {x: 1, x: 2}\n", ":2: l[0].x stands twice"),
        ("a: &x 1\n", ":1: anchors and aliases"),
        ("a: &x [1]\nb: *x\n", ":1: anchors and aliases"),
        ("on: 1\n", ":1: on is not text"),
        ("1: 1\n", ":1: 1 is not text"),
        ("? [a]\n: 1\n", ":1: this key is not text"),
        ("a: [1\n", ":2: not valid YAML"),
        ("a: !!python/object/apply:os.system [x]\n", ":1: not valid YAML"),
        ("a: 1\n---\nb: 2\n", ":2: not valid YAML"),
        ("a: 2026-13-45\n", ": not valid YAML"),
        (b"a: \xff\n", ": not UTF-8"),
        ("a: \x00\n", ": not valid YAML"),
        ("a: " + "[" * 40 + "]" * 40, ":1: nested too deeply"),
        ("[" * 100_000, ":1: nested too deeply"),
        ("a: " + "x" * MAX_BYTES, ": longer than"),
    ],
)
def test_what_a_settings_file_does_not_need_is_refused(
    tmp_path: Path, text: str | bytes, start: str
) -> None:
    assert _refused(tmp_path, text).startswith(start)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(ConfigError):
        read_yaml(tmp_path)


def test_every_key_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a:\n  b: 1\n  c:\n  - d: 2\n", encoding="utf-8")
    document = read_yaml(path)
    assert document.data == {"a": {"b": 1, "c": [{"d": 2}]}}
    assert document.lines[("a", "c", 0, "d")] == 4
    assert document.error(("a", "x"), "m").message == f"{path}:1: a.x: m"


def test_key_paths_read_as_people_write_them() -> None:
    assert key_text(("queries", "q", "sinks", 0, "path")) == "queries.q.sinks[0].path"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1e6", 1e6),
        ("1.5e6", 1.5e6),
        ("1.5E+6", 1.5e6),
        ("-1e-3", -1e-3),
        ("+.5e2", 50.0),
        ("2.", 2.0),
        ("7", 7),
        ("'1e-6'", "1e-6"),
        ('"1e6"', "1e6"),
        ("!!str 1e6", "1e6"),
        ("1e", "1e"),
        ("e6", "e6"),
        ("1e6s", "1e6s"),
        ("0x1e6", 0x1E6),
    ],
)
def test_numbers_with_exponents_are_numbers_and_quoted_ones_text(
    tmp_path: Path, text: str, value: object
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {text}\nb: [{text}]\n")
    found = read_yaml(path).data
    assert found == {"a": value, "b": [value]}
    assert type(found["a"]) is type(value)
