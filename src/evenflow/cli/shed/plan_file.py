"""Files of plans: versioned, with a checksum, there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.errors import ConfigError, NetworkError
from evenflow.shed.plan_index import PlanIndex, index_from_data

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1


def write_plans(path: Path, index: PlanIndex) -> None:
    """Replace a file as a whole.

    Raises:
        ConfigError: It cannot be written. The old one, if there is one, stays.
    """
    body = json.dumps(index.data(), sort_keys=True, separators=(",", ":"))
    head = json.dumps({"evenflow": VERSION, "kind": "plans", "checksum": _checksum(body)})
    # The body stands as it was summed, so that reading need not write it again to compare.
    text = f'{head[:-1]}, "body":\n{body}\n}}\n'
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))


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
        raise _damaged(path) from exc
    try:
        held: Any = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise _damaged(path) from exc
    if not isinstance(held, dict) or held.get("kind") != "plans":
        raise ConfigError(f"{path}: not a file of plans", "evenflow shed plan writes one")
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


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside another, then put it in its place. Nothing is left of one that fails.

    Raises:
        ConfigError: It cannot be written.
    """
    beside: Path | None = None
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent
        )
        os.close(handle)
        beside = Path(name)
        beside.chmod(0o666 & ~_umask())
        write(beside)
        beside.replace(path)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise ConfigError(f"{path}: cannot be written: {reason}") from exc
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _damaged(path: Path) -> ConfigError:
    return ConfigError(f"{path}: damaged: truncated or altered", "make the plans again")
