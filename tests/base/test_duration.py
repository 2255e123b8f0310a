"""Durations as text."""

from __future__ import annotations

import pytest

from evenflow.base.duration import format_us, parse_duration, parse_duration_us
from evenflow.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("5 seconds", 5_000_000),
        ("200ms", 200_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("1.5 s", 1_500_000),
        ("2 WEEKS", 1_209_600_000_000),
        ("7us", 7),
    ],
)
def test_units_are_added_up(text: str, us: int) -> None:
    assert parse_duration_us(text) == us


@pytest.mark.parametrize("text", ["", "5", "s", "5 parsecs", "0 seconds", "9999 d", "0.4 us"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_duration_us(text)


def test_a_number_is_seconds() -> None:
    assert parse_duration(2.5) == parse_duration("2.5") == 2.5
    assert parse_duration("60") == 60


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ConfigError):
        parse_duration(-1)


@pytest.mark.parametrize("text", ["1 hour", "90 seconds", "10 minutes", "2 days", "3 milliseconds"])
def test_a_duration_is_written_in_its_largest_unit(text: str) -> None:
    assert format_us(parse_duration_us(text)) == text


def test_what_no_unit_divides_is_written_in_microseconds() -> None:
    assert format_us(1_001) == "1001 microseconds"
