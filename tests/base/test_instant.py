"""Dates and instants as text."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from evenflow.base.instant import parse_date, parse_timestamp


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-05-01", date(2026, 5, 1)),
        ("2026-5-1", date(2026, 5, 1)),
        ("2026-05", date(2026, 5, 1)),
        ("2026", date(2026, 1, 1)),
        (" 2026-05-01 ", date(2026, 5, 1)),
    ],
)
def test_a_date_may_leave_out_its_end(text: str, day: date) -> None:
    assert parse_date(text) == day


@pytest.mark.parametrize("text", ["", "x", "2026-13-01", "2026-02-30", "26-01-01", "2026-01-01 10"])
def test_what_is_not_a_date_gives_nothing(text: str) -> None:
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-05-01", datetime(2026, 5, 1, tzinfo=UTC)),
        ("2026-05-01 10:30", datetime(2026, 5, 1, 10, 30, tzinfo=UTC)),
        ("2026-05-01T10:30:05.25", datetime(2026, 5, 1, 10, 30, 5, 250_000, tzinfo=UTC)),
        ("2026-05-01 10:30:00Z", datetime(2026, 5, 1, 10, 30, tzinfo=UTC)),
        ("2026-05-01 10:30:00 UTC", datetime(2026, 5, 1, 10, 30, tzinfo=UTC)),
        ("2026-05-01 10:30:00+02:00", datetime(2026, 5, 1, 8, 30, tzinfo=UTC)),
        ("2026-05-01 10:30:00-0130", datetime(2026, 5, 1, 12, 0, tzinfo=UTC)),
        ("2026-05-01 10:30:00+2", datetime(2026, 5, 1, 8, 30, tzinfo=UTC)),
    ],
)
def test_an_instant_without_a_zone_is_utc(text: str, instant: datetime) -> None:
    assert parse_timestamp(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "now",
        "2026-05-01 25:00",
        "2026-05-01 10:30+19:00",
        "2026-05-01 10:30+01:70",
        "10:30",
        "2026-",
    ],
)
def test_what_is_not_an_instant_gives_nothing(text: str) -> None:
    assert parse_timestamp(text) is None


def test_an_instant_before_the_first_year_gives_nothing() -> None:
    assert parse_timestamp("0001-01-01 00:00:00+02:00") is None
