"""Paths of files that we write ourselves: on a disk, or on one that a cluster shares."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from evenflow.errors import ConfigError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def has_scheme(path: str) -> bool:
    """Whether a path is an address, as s3a://bucket/in is one."""
    return _SCHEME.match(path) is not None


def local_path(path: str) -> Path:
    """Return a path as the file system knows it.

    Raises:
        ConfigError: It is an address that is not a file.
    """
    if not has_scheme(path):
        return Path(path)
    address = urlsplit(path)
    if address.scheme.lower() != "file" or address.netloc not in ("", "localhost"):
        raise ConfigError(
            f"{path[:60]!r} is not on a file system", "give a path that is mounted on every machine"
        )
    return Path(unquote(address.path))
