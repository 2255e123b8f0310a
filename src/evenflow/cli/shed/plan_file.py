"""Files of plans: versioned, with a checksum."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evenflow.cli.model_fault import kind_of
from evenflow.cli.yaml_text import read_yaml
from evenflow.errors import ConfigError, EvenflowError, NetworkError
from evenflow.shed.plan_index import PlanIndex, index_from_data

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1
_HEAD = 200
"""Within so many bytes a file says what it is."""


def plans_text(index: PlanIndex) -> bytes:
    """Return what a file of plans holds."""
    body = json.dumps(index.data(), sort_keys=True, separators=(",", ":"))
    head = json.dumps({"evenflow": VERSION, "kind": "plans", "checksum": _checksum(body)})
    # The body stands as it was summed, so that reading need not write it again to compare.
    return f'{head[:-1]}, "body":\n{body}\n}}\n'.encode()


def read_plans(path: Path) -> PlanIndex:
    """Return the plans of a file.

    Raises:
        ConfigError: It cannot be read, is damaged, of another version, or holds no plans.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror or type(exc).__name__}") from exc
    except UnicodeDecodeError as exc:
        raise _unreadable(path) from exc
    try:
        held: Any = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise _unreadable(path) from exc
    if not isinstance(held, dict) or held.get("kind") != "plans":
        raise _foreign(path)
    if held.get("evenflow") != VERSION:
        raise ConfigError(
            f"{path}: version {str(held.get('evenflow'))[:20]} of the format is not known",
            f"this Evenflow reads version {VERSION}",
        )
    body = json.dumps(held.get("body"), sort_keys=True, separators=(",", ":"))
    if held.get("checksum") != _checksum(body):
        raise _damaged(path)
    try:
        return index_from_data(held["body"])
    except NetworkError as exc:
        raise NetworkError(exc.code, f"{path}: {exc}", (), exc.hint) from exc


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _unreadable(path: Path) -> ConfigError:
    """Return what is wrong with a file that is no JSON: ours begins with what it is."""
    with path.open("rb") as file:
        ours = b'"kind": "plans"' in file.read(_HEAD)
    return _damaged(path) if ours else _foreign(path)


def _foreign(path: Path) -> ConfigError:
    known: str | None = None
    with suppress(EvenflowError):
        known = kind_of(read_yaml(path).data)
    what = "" if known is None else f"a {known}, "
    return ConfigError(f"{path}: {what}not a file of plans", "evenflow shed plan writes one")


def _damaged(path: Path) -> ConfigError:
    return ConfigError(f"{path}: damaged: truncated or altered", "make the plans again")
