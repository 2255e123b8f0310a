"""The formats of our own sources: what columns they have and how late their tuples may be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evenflow.model.schema import Schema, parse_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_WATERMARK_US: Final = 10_000_000
"""Of our own sources. Other sources say how late their tuples may be."""

_METERS = (
    "id BIGINT, meter STRING, district STRING, feeder STRING, "
    "ts TIMESTAMP, kwh DOUBLE, voltage DOUBLE"
)
_NUMBERS = "id BIGINT, ts TIMESTAMP, value BIGINT"


@dataclass(frozen=True, slots=True)
class Builtin:
    """A source format of ours."""

    format: str
    schema: str | None
    """DDL of its columns; None where the user's schema says what is played."""
    event_time: str | None
    id: str | None
    """The column that numbers its tuples."""


BUILTIN: Final = {
    each.format: each
    for each in (
        Builtin("meters", _METERS, "ts", "id"),
        Builtin("constant", _NUMBERS, "ts", "id"),
        Builtin("poisson", _NUMBERS, "ts", "id"),
        Builtin("burst", _NUMBERS, "ts", "id"),
        Builtin("replay", None, None, None),
    )
}


def builtin_schema(format_: str, options: Mapping[str, str]) -> Schema | None:  # noqa: ARG001
    """Return the columns of a source of ours; None if the user says what they are.

    Args:
        format_: The source's format.
        options: The source's options. No format changes its columns by them yet.
    """
    known = BUILTIN.get(format_)
    return parse_schema(known.schema) if known is not None and known.schema is not None else None


def reader_identity(format_: str, options: Mapping[str, str]) -> str:
    """Return a text that is equal if and only if the same data is read."""
    parts = {"format": format_, "options": dict(options)}
    return json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
