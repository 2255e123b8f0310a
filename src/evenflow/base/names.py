"""Names that users give: what is allowed, and nothing else gets through."""

from __future__ import annotations

import re

from evenflow.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")


def check_name(kind: str, name: object) -> str:
    """Return `name` if it is a legal name.

    Raises:
        ConfigError: It is not.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        shown = repr(name)[:80]
        raise ConfigError(
            f"{kind} name {shown} is not allowed",
            "use a letter or _, then letters, digits, _ or -, at most 64 characters",
        )
    return name
