"""Faults that models find in files, as lines for people: file, line, key, what and a hint."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import evenflow
from evenflow.errors import EvenflowError, FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel, ValidationError

    from evenflow.cli.yaml_text import Document, KeyPath

MAX_FAULTS = 20
KINDS = {
    "flow file": ({"flow", "sources"}, "evenflow explain FLOW --network writes its network file"),
    "network file": ({"nodes", "operators"}, "evenflow shed works on it"),
    "file of plans": ({"kind", "checksum"}, "evenflow shed select chooses from it"),
}
"""Files of ours: keys that only they have, and what to do with one in the wrong place."""


def kind_of(data: Any) -> str | None:
    """Return which of our files some data are of, if that can be told."""
    if not isinstance(data, dict):
        return None
    return next((kind for kind, (known_by, _) in KINDS.items() if known_by <= data.keys()), None)


def check_version(document: Document, kind: str, version: int) -> None:
    """Refuse what is no file of ours, or of another version.

    Raises:
        ConfigError: It is one of these.
    """
    data = document.data
    other = kind_of(data)
    if other not in (None, kind):
        raise document.error((), f"a {other}, not a {kind}", KINDS[other][1])
    if not isinstance(data, dict) or "evenflow" not in data:
        raise document.error((), f"not a {kind}", f"begin it with evenflow: {version}")
    found = data["evenflow"]
    if found != version or isinstance(found, bool):
        raise document.error(
            ("evenflow",),
            f"version {str(found)[:20]} of the format is not known",
            f"Evenflow {evenflow.__version__} reads version {version}",
        )


def one_or_all(document: Document, faults: list[EvenflowError]) -> EvenflowError:
    """Return the only fault, or one error that has them all."""
    if len(faults) == 1:
        return faults[0]
    return FileError(f"{document.path}: {len(faults)} faults", tuple(faults[:MAX_FAULTS]))


def model_faults(
    document: Document,
    exc: ValidationError,
    model_at: Callable[[KeyPath], type[BaseModel]],
    not_yet: Mapping[KeyPath, tuple[str, str]],
) -> list[EvenflowError]:
    """Return what a model found.

    Args:
        document: The file.
        exc: What its model raised.
        model_at: Which model has the keys at a place, to name similar ones.
        not_yet: What to say of keys that will be known one day.
    """
    faults: list[EvenflowError] = []
    for found in exc.errors():
        keys: KeyPath = tuple(key for key in found["loc"] if key != "[key]")
        message, hint = _explained(keys, found, model_at, not_yet)
        faults.append(document.error(keys, message, hint))
    return faults


def _explained(
    keys: KeyPath,
    found: Any,
    model_at: Callable[[KeyPath], type[BaseModel]],
    not_yet: Mapping[KeyPath, tuple[str, str]],
) -> tuple[str, str | None]:
    if found["type"] == "extra_forbidden":
        return not_yet.get(keys) or ("unknown key", _similar(keys, model_at(keys[:-1])))
    if found["type"] == "missing":
        return "is missing", None
    cause = found.get("ctx", {}).get("error")
    if isinstance(cause, EvenflowError):
        return cause.message, cause.hint
    message = str(found["msg"]).removeprefix("Input ")
    shown = repr(found["input"])
    return f"{message}, not {shown if len(shown) <= 40 else shown[:37] + '...'}", None


def _similar(keys: KeyPath, model: type[BaseModel]) -> str:
    names = [field.alias or name for name, field in model.model_fields.items()]
    near = difflib.get_close_matches(str(keys[-1]), names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
