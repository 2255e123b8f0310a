"""YAML as plain data, with the line of every key.

Refuses what a settings file does not need and an attacker does: aliases, tags, huge or deep text,
keys that stand twice or are not text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from evenflow.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1_000_000
MAX_DEPTH = 30

KeyPath = tuple[str | int, ...]

# The C parser is ten times faster; it is missing where PyYAML was built without libyaml.
_Loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
# PyYAML reads YAML 1.1, where a number with an exponent must have a point and a sign: 1e-6 and
# 1.5e6 would be text. In YAML 1.2, in JSON and for people they are numbers.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


@dataclass(frozen=True)
class Document:
    """What a file says, and where."""

    path: Path
    data: Any
    lines: dict[KeyPath, int]
    """Line, from 1, of every key and list item."""

    def error(self, keys: KeyPath, message: str, hint: str | None = None) -> ConfigError:
        """Return the error for a fault at a key, or at the nearest one above that is there."""
        return ConfigError(self.told(keys, message), hint)

    def told(self, keys: KeyPath, message: str) -> str:
        """Return a fault with file, line and key."""
        at = keys
        while at and at not in self.lines:
            at = at[:-1]
        line = f":{self.lines[at]}" if at in self.lines else ""
        shown = f"{key_text(keys)}: " if keys else ""
        return f"{self.path}{line}: {shown}{message}"


def key_text(keys: KeyPath) -> str:
    """Return `queries.heavy.sinks[0].path`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key[:80]}" if text else key[:80]
    return text


def read_yaml(path: Path) -> Document:
    """Read a file.

    Raises:
        ConfigError: It cannot be read, is not YAML, or uses what is refused here.
    """
    text = _read_text(path)
    try:
        _check_events(path, text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            lines: dict[KeyPath, int] = {}
            if node is not None:
                _walk(path, node, (), lines)
            data = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        raise _syntax_error(path, exc) from exc
    except (yaml.YAMLError, ValueError) as exc:
        if isinstance(exc, ConfigError):
            raise
        raise ConfigError(f"{path}: not valid YAML: {str(exc).splitlines()[0]}") from exc
    return Document(path, data, lines)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise ConfigError(f"{path}: cannot be read: {reason}") from exc
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_BYTES:,} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8 text") from exc


def _check_events(path: Path, text: str) -> None:
    """Refuse aliases and deep nesting before anything recursive sees them."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            line = event.start_mark.line + 1
            raise ConfigError(f"{path}:{line}: anchors and aliases are not allowed", "write it out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ConfigError(f"{path}:{event.start_mark.line + 1}: nested too deeply")


def _walk(path: Path, node: Any, keys: KeyPath, lines: dict[KeyPath, int]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*keys, index)] = item.start_mark.line + 1
            _walk(path, item, (*keys, index), lines)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            shown = key.value if isinstance(key, yaml.ScalarNode) else "this key"
            raise ConfigError(f"{path}:{line}: {shown} is not text", "put the key in quotes")
        here = (*keys, key.value)
        if here in lines:
            raise ConfigError(
                f"{path}:{line}: {key_text(here)} stands twice, first in line {lines[here]}",
                "remove one of them",
            )
        lines[here] = line
        _walk(path, value, here, lines)


def _syntax_error(path: Path, exc: yaml.MarkedYAMLError) -> ConfigError:
    mark = exc.problem_mark or exc.context_mark
    at = f":{mark.line + 1}" if mark is not None else ""
    return ConfigError(f"{path}{at}: not valid YAML: {exc.problem or exc.context or 'unreadable'}")
