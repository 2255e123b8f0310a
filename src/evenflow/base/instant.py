"""Dates and instants as text, read as Spark reads them. A text without a zone is UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

_DATE = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
_TIME = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
_ZONE = r"(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)"
_ONLY_DATE = re.compile(rf"\s*{_DATE}\s*\Z", re.ASCII)
_TIMESTAMP = re.compile(rf"\s*{_DATE}(?:[T ]{_TIME}(?:\s*{_ZONE})?)?\s*\Z", re.ASCII)
_MAX_ZONE = timedelta(hours=18)


def parse_date(text: str) -> date | None:
    """Return the day in "2026-05-01", "2026-05" or "2026"; None if the text is not a date."""
    found = _ONLY_DATE.match(text)
    if found is None:
        return None
    year, month, day = (int(part or 1) for part in found.groups())
    try:
        return date(year, month, day)
    except ValueError:
        return None


def parse_timestamp(text: str) -> datetime | None:
    """Return the instant in "2026-05-01 10:30:00.5+02:00", in UTC; None if it is not one."""
    found = _TIMESTAMP.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (
        int(part or default)
        for part, default in zip(found.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)
    )
    micros = int((found.group(7) or "0")[:6].ljust(6, "0"))
    zone = _zone(found.group(8))
    if zone is None:
        return None
    try:
        return datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone | None:
    if text is None or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    if offset > _MAX_ZONE or int(minutes) > 59:
        return None
    return timezone(-offset if text[0] == "-" else offset)
