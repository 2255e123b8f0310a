"""Durations as text. Inside the package a duration is seconds (float) or microseconds (int)."""

from __future__ import annotations

import re

from evenflow.errors import ConfigError

MICROSECONDS = 1_000_000

_UNITS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": MICROSECONDS,
    "sec": MICROSECONDS,
    "s": MICROSECONDS,
    "minute": 60 * MICROSECONDS,
    "min": 60 * MICROSECONDS,
    "m": 60 * MICROSECONDS,
    "hour": 3_600 * MICROSECONDS,
    "h": 3_600 * MICROSECONDS,
    "day": 86_400 * MICROSECONDS,
    "d": 86_400 * MICROSECONDS,
    "week": 7 * 86_400 * MICROSECONDS,
}
_PART = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]+)\s*")
_NUMBER = re.compile(r"\s*\d{1,12}(?:\.\d{1,6})?\s*")
_MAX = 3_660 * 86_400 * MICROSECONDS


def parse_duration_us(text: str) -> int:
    """Return the microseconds in "5 seconds", "200ms" or "1 hour 30 minutes".

    Raises:
        ConfigError: The text is not a duration, is zero, or is longer than ten years.
    """
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        unit = part.group(2).lower() if part else ""
        factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if part is None or factor is None:
            raise ConfigError(f"{text[:40]!r} is not a duration", "write it as '5 seconds'")
        total += float(part.group(1)) * factor
        at = part.end()
    if not 0 < round(total) <= _MAX:
        raise ConfigError(f"{text[:40]!r} must be above zero and at most ten years")
    return round(total)


def parse_duration(text: str | float) -> float:
    """Return the seconds in a text; a number, also as text, means seconds."""
    if isinstance(text, str):
        if not _NUMBER.fullmatch(text):
            return parse_duration_us(text) / MICROSECONDS
        text = float(text)
    if not 0 < text <= _MAX / MICROSECONDS:
        raise ConfigError(f"{text!r} seconds must be above zero and at most ten years")
    return float(text)


def format_us(us: int) -> str:
    """Return microseconds in the largest unit that divides them: "90 seconds", "1 hour"."""
    for name in ("day", "hour", "minute", "second", "millisecond"):
        if us % _UNITS[name] == 0:
            count = us // _UNITS[name]
            return f"{count} {name}" + ("" if count == 1 else "s")
    return f"{us} microseconds"
