"""Files that commands write: all of them whole, or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PICTURES = (".svg", ".png")


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be drawn or written, before time is spent on it.

    Raises:
        ConfigError: Its name has another ending, or it cannot be there.
    """
    if path.suffix.lower() not in PICTURES:
        raise ConfigError(f"{path}: a picture is a file .svg or .png")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no directory {path.parent}")
    if path.is_dir():
        raise ConfigError(f"{path}: cannot be written: Is a directory")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{path}: cannot be written: Permission denied")


def check_apart(**paths: Path | None) -> None:
    """Refuse files of one command that are one file.

    Raises:
        ConfigError: Two of them are.
    """
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise ConfigError(f"{path}: is both {other} and {name}", "write to another file")


def replace_files(files: Mapping[Path, bytes]) -> None:
    """Write files beside others, then put all of them in their places.

    Raises:
        ConfigError: One cannot be written. Old ones stay, and nothing is left of new ones.
    """
    with contextlib.ExitStack() as written:
        beside = {path: _beside(path, content, written) for path, content in files.items()}
        for path, held in beside.items():
            try:
                held.replace(path)
            except OSError as exc:
                raise _unwritten(path, exc) from exc


def _beside(path: Path, content: bytes, written: contextlib.ExitStack) -> Path:
    """Write a file beside another, so that nothing but its name is left to change."""
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "Is a directory")
        handle, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent
        )
        held = Path(name)
        written.callback(held.unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        held.chmod(0o666 & ~_umask())
    except OSError as exc:
        raise _unwritten(path, exc) from exc
    return held


def _unwritten(path: Path, exc: OSError) -> ConfigError:
    return ConfigError(f"{path}: cannot be written: {exc.strerror or type(exc).__name__}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
