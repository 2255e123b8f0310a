"""The options of our generators: what there is, in which range, and what they become."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenflow.base.duration import MICROSECONDS, parse_duration
from evenflow.base.instant import parse_timestamp
from evenflow.errors import ConfigError
from evenflow.spark.source.generators import TICK_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_RATE = 5_000_000
"""Tuples per second: what still fits in 64 bits everywhere."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS_PER_SECOND = MICROSECONDS // TICK_US
_BATCH_SECONDS = 60
_TASK_ROWS = 10_000
"""Fewer tuples than this are not worth a task of their own, unless the user asks for tasks."""
_BATCH_ROWS = 1_000_000
"""A batch takes at most this many tuples, or a minute's worth if that is more."""

Parse = Callable[[str], Any]


def check_options(owner: str, given: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """Return options under their names as documented; case does not matter, as in Spark.

    Raises:
        ConfigError: There is no such option.
    """
    names = {name.lower(): name for name in known}
    found = {}
    for name, value in given.items():
        if name.lower() not in names:
            near = difflib.get_close_matches(name.lower(), names, n=1)
            hint = f"did you mean {names[near[0]]}?" if near else f"there are {_list(names)}"
            raise ConfigError(f"{owner} has no option {name}", hint)
        found[names[name.lower()]] = value
    return found


def _list(names: Mapping[str, str]) -> str:
    return ", ".join(sorted(names.values()))


def parse_option(owner: str, name: str, text: str, parse: Parse) -> Any:
    """Return an option's value.

    Raises:
        ConfigError: The text is not one.
    """
    try:
        return parse(text)
    except ConfigError as exc:
        raise ConfigError(f"{owner}: option {name}: {exc.message}", exc.hint) from exc


def whole(low: int, high: int) -> Parse:
    """Return a parser of whole numbers in a range, both ends included."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"{text[:40]!r} is not a whole number") from None
        if not low <= value <= high:
            raise ConfigError(f"{value} is not between {low} and {high}")
        return value

    return parse


def number(low: float, high: float) -> Parse:
    """Return a parser of numbers in a range, both ends included."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ConfigError(f"{text[:40]!r} is not a number") from None
        if not (math.isfinite(value) and low <= value <= high):
            raise ConfigError(f"{text[:40]} is not between {low:g} and {high:g}")
        return value

    return parse


def _instant_us(text: str) -> int:
    found = parse_timestamp(text)
    if found is None:
        raise ConfigError(f"{text[:40]!r} is not a timestamp", "write it as 2026-05-01 06:00:00")
    return (found - _EPOCH) // timedelta(microseconds=1)


_RATE: dict[str, Parse] = {
    "rate": number(0.001, MAX_RATE),
}
_EVERY: dict[str, Parse] = {
    "seed": whole(0, 2**63 - 1),
    "start": _instant_us,
    "speed": number(0.001, 1_000_000),
    "rows": whole(1, 2**62),
    "max_rows_per_batch": whole(1, 2**62),
    "partitions": whole(1, 10_000),
}
_SURGE: dict[str, Parse] = {
    "surge": whole(1, 1000),
    "surge_after": parse_duration,
    "surge_for": parse_duration,
}
_OWN: dict[str, dict[str, Parse]] = {
    "constant": {**_RATE, **_SURGE},
    "poisson": _RATE,
    "burst": {
        "interval": parse_duration,
        "max_delay": number(0.001, 3_600_000),
        "max_rate": number(0.001, 1_000_000),
    },
    "meters": {
        **_RATE,
        **_SURGE,
        "meters": whole(1, 10_000_000),
        "feeders": whole(1, 10_000_000),
        "districts": whole(1, 10_000_000),
        "disorder": number(0, 1),
    },
}
GENERATORS = tuple(_OWN)


def generator_settings(format_: str, options: Mapping[str, str], partitions: int) -> dict[str, Any]:
    """Return what `make_generator` needs, without the times at which the stream begins.

    Args:
        format_: One of `GENERATORS`.
        options: The user's.
        partitions: How many tasks run at once, if the user does not say.

    Raises:
        ConfigError: An option is not known or out of range.
    """
    parsers = {**_EVERY, **_OWN[format_]}
    texts = check_options(format_, options, parsers)
    values = {name: parse_option(format_, name, t, parsers[name]) for name, t in texts.items()}
    settings: dict[str, Any] = {
        "kind": format_,
        "seed": values.get("seed", 0),
        "speed": values.get("speed", 1.0),
        "rows": values.get("rows"),
        "partitions": values.get("partitions", partitions),
        "task_rows": 1 if "partitions" in values else _TASK_ROWS,
    }
    settings["surge"] = values.get("surge", 1)
    settings["surge_after_ticks"] = round(values.get("surge_after", 60.0) * _TICKS_PER_SECOND)
    settings["surge_ticks"] = round(values.get("surge_for", 60.0) * _TICKS_PER_SECOND)
    rate = settings["surge"] * _add_rate(settings, values)
    if format_ == "meters":
        _add_meters(settings, values)
    most = max(_BATCH_ROWS, round(rate * _BATCH_SECONDS))
    settings["max_rows_per_batch"] = values.get("max_rows_per_batch", most)
    settings["start_us"] = values.get("start")
    return settings


def _add_rate(settings: dict[str, Any], values: Mapping[str, Any]) -> float:
    """Add what arrivals need; return the highest rate."""
    if settings["kind"] != "burst":
        rate: float = values.get("rate", 1000.0)
        settings["milli_rate"] = round(rate * 1000)
        return rate
    longest = max(1, round(values.get("max_delay", 10.0) * 1000))
    rate = values.get("max_rate", 100_000.0)
    ticks = values.get("interval", 5.0) * _TICKS_PER_SECOND
    settings["longest_us"] = longest
    settings["shortest_us"] = min(longest, math.ceil(MICROSECONDS / rate))
    settings["interval_ticks"] = max(1, round(ticks))
    return rate


def _add_meters(settings: dict[str, Any], values: Mapping[str, Any]) -> None:
    meters = values.get("meters", 10_000)
    feeders = values.get("feeders", min(200, meters))
    districts = values.get("districts", min(20, feeders))
    if not districts <= feeders <= meters:
        raise ConfigError(
            f"meters: {meters} meters, {feeders} feeders and {districts} districts do not fit",
            "every feeder needs a meter and every district a feeder",
        )
    settings.update(meters=meters, feeders=feeders, districts=districts)
    settings["disorder"] = values.get("disorder", 0.02)


def begin(settings: Mapping[str, Any], now_us: int) -> dict[str, int]:
    """Return when a stream begins that starts now: event and wall time of tick 0, first tick.

    A live stream counts ticks from the epoch, so that its tuples follow from the time of day alone.
    One with a start or a speed of its own counts them from its start.
    """
    if settings["start_us"] is None and settings["speed"] == 1.0:
        return {"origin_us": 0, "wall_us": 0, "first_tick": now_us // TICK_US}
    origin = now_us if settings["start_us"] is None else settings["start_us"]
    return {"origin_us": origin, "wall_us": now_us, "first_tick": 0}
