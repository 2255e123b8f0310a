"""Synthetic tuples: when they arrive and what is in them, as pure functions of seed and time.

Theory of operation. Time is cut into ticks of 100 ms, counted from an origin. How many tuples
arrive in a tick, when, and what their columns are follows from the seed and the number of the tick
alone: any machine makes the same tuples, whatever it made before and however ticks are spread
over tasks. A place in the stream is a tick and an index in it, so reading goes on anywhere.

Everything is whole numbers, or arithmetic that IEEE 754 fixes to the last bit; numpy's own random
streams differ between versions and are not used.

Executors get this module by value and may not have Evenflow: it imports nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Hashes = NDArray[np.uint64]

TICK_US = 100_000
TICK_BITS = 20
"""Ids of random arrivals are tick x 2^20 + index: unique and increasing without counting."""
_BATCH_ROWS = 65_536
"""Rows per Arrow batch, about: a whole number of ticks."""
_WALK_TICKS = 16_384
"""Ticks that are looked at in one step: a quarter of an hour and some."""


# --- hashes ---------------------------------------------------------------------------------------


def hashes(seed: int, salt: int, numbers: Ints) -> Hashes:
    """Return 64 well-mixed bits per number (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        key = np.uint64((seed * 0x9E3779B97F4A7C15 + salt * 0xD1B54A32D192ED03) % 2**64)
        x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return x


def below(bits: Hashes, bound: int) -> Ints:
    """Return whole numbers from 0 to `bound` - 1, which is at most 2^32, out of hashes."""
    return (((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def _lane(bits: Hashes, number: int) -> NDArray[np.float64]:
    """Return one of four independent fractions of 16 bits, from 0 to below 1."""
    part = (bits >> np.uint64(16 * number)) & np.uint64(0xFFFF)
    return part.astype(np.float64) / 65_536.0


# --- arrivals -------------------------------------------------------------------------------------


class Arrivals(Protocol):
    """When tuples arrive."""

    def counts(self, first: int, last: int) -> Ints:
        """Return how many arrive in each tick from `first` to before `last`."""
        ...

    def rows(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return ids and microseconds since tick 0 of all that arrive in these ticks, in order."""
        ...


@dataclass(frozen=True)
class ConstantArrivals:
    """Equidistant tuples. Their ids count them from tick 0."""

    milli_rate: int
    """Tuples in a thousand seconds."""

    def before(self, ticks: Ints) -> Ints:
        """Return how many tuples come before each tick, without overflow for any tick."""
        rounds, rest = ticks // 10_000, ticks % 10_000
        return rounds * self.milli_rate - (-rest * self.milli_rate) // 10_000

    def counts(self, first: int, last: int) -> Ints:
        """Return how many arrive in each tick."""
        return np.diff(self.before(np.arange(first, last + 1, dtype=np.int64)))

    def rows(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return ids and times."""
        begin, end = self.before(np.array([first, last], dtype=np.int64)).tolist()
        ids = np.arange(begin, end, dtype=np.int64)
        rounds = ids // self.milli_rate
        rest = ids - rounds * self.milli_rate
        return ids, rounds * 1_000_000_000 + rest * 1_000_000_000 // self.milli_rate


@dataclass(frozen=True)
class SurgeArrivals:
    """Equidistant tuples that come several times as fast for a while. Ids count them."""

    usual: ConstantArrivals
    factor: int
    first: int
    """The tick at which the surge begins."""
    last: int
    """The tick at which it is over."""

    def _before(self, ticks: Ints) -> Ints:
        within = self.usual.before(np.clip(ticks, self.first, self.last))
        begun = self.usual.before(np.array([self.first], dtype=np.int64))
        return self.usual.before(ticks) + (self.factor - 1) * (within - begun)

    def counts(self, first: int, last: int) -> Ints:
        """Return how many arrive in each tick."""
        return np.diff(self._before(np.arange(first, last + 1, dtype=np.int64)))

    def rows(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return ids and times."""
        counts = self.counts(first, last)
        ticks, index = _ticks_and_index(first, counts)
        ids = int(self._before(np.array([first], dtype=np.int64))[0]) + np.arange(len(ticks))
        return ids, ticks * TICK_US + index * TICK_US // np.maximum(counts[ticks - first], 1)


@dataclass(frozen=True)
class PoissonArrivals:
    """A Poisson process: independent counts per tick, at uniform times."""

    milli_rate: int
    seed: int

    def __post_init__(self) -> None:
        low, steps = _poisson_steps(self.milli_rate / 10_000.0)
        object.__setattr__(self, "_low", low)
        object.__setattr__(self, "_steps", steps)

    def counts(self, first: int, last: int) -> Ints:
        """Return how many arrive in each tick: the inverse of the distribution at a hash."""
        places = hashes(self.seed, 1, np.arange(first, last, dtype=np.int64)) >> np.uint64(11)
        steps: Ints = self._steps  # type: ignore[attr-defined]
        low: int = self._low  # type: ignore[attr-defined]
        return low + np.searchsorted(steps, places.astype(np.int64), side="right").astype(np.int64)

    def rows(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return ids and times."""
        ticks, index = _ticks_and_index(first, self.counts(first, last))
        ids = (ticks << TICK_BITS) + index
        times = ticks * TICK_US + below(hashes(self.seed, 2, ids), TICK_US)
        times.sort()  # ticks do not overlap, so this sorts within each
        return ids, times


def _poisson_steps(mean: float) -> tuple[int, Ints]:
    """Return the smallest likely count, and the distribution from it on, scaled to 53 bits.

    Built from the mode by ratios of neighbours, in a fixed order: the same on every machine.
    Beyond twelve deviations nothing is left of 53 bits.
    """
    mode, width = int(mean), int(12 * mean**0.5) + 40
    low = max(0, mode - width)
    up = np.cumprod(mean / np.arange(mode + 1, mode + width + 1, dtype=np.float64))
    down = np.cumprod(np.arange(mode, low, -1, dtype=np.float64) / mean)
    weights = np.concatenate([down[::-1], [1.0], up])
    total = np.cumsum(weights)
    return low, (total[:-1] / total[-1] * 2.0**53).astype(np.int64)


@dataclass(frozen=True)
class BurstArrivals:
    """PIPES 3.4: equidistant tuples whose distance is drawn anew after every interval.

    Distances are uniform over (0, longest], so rates fluctuate massively. Departure: distances are
    whole microseconds and not below `shortest_us`, because 1/distance has no bound.
    """

    longest_us: int
    shortest_us: int
    interval_ticks: int
    seed: int

    def _phases(self, first: int, last: int) -> tuple[Ints, Ints, Ints]:
        """Return interval, distance and microseconds since the interval began, per tick."""
        ticks = np.arange(first, last, dtype=np.int64)
        intervals = ticks // self.interval_ticks
        drawn = 1 + below(hashes(self.seed, 3, intervals), self.longest_us)
        since = (ticks - intervals * self.interval_ticks) * TICK_US
        return intervals, np.maximum(drawn, self.shortest_us), since

    def counts(self, first: int, last: int) -> Ints:
        """Return how many arrive in each tick."""
        _, distance, since = self._phases(first, last)
        return _ceil(since + TICK_US, distance) - _ceil(since, distance)

    def rows(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return ids and times."""
        intervals, distance, since = self._phases(first, last)
        begun = _ceil(since, distance)
        ticks, index = _ticks_and_index(first, _ceil(since + TICK_US, distance) - begun)
        at = ticks - first
        times = intervals[at] * (self.interval_ticks * TICK_US) + (begun[at] + index) * distance[at]
        return (ticks << TICK_BITS) + index, times


def _ceil(number: Ints, by: Ints) -> Ints:
    return -(-number // by)


def _ticks_and_index(first: int, counts: Ints) -> tuple[Ints, Ints]:
    """Return the tick of each tuple and its place in the tick."""
    ends = np.cumsum(counts)
    ticks = np.repeat(np.arange(first, first + len(counts), dtype=np.int64), counts)
    index = np.arange(len(ticks), dtype=np.int64) - np.repeat(ends - counts, counts)
    return ticks, index


# --- columns --------------------------------------------------------------------------------------

_ID = pa.field("id", pa.int64())
_TS = pa.field("ts", pa.timestamp("us", tz="UTC"))
NUMBERS = pa.schema([_ID, _TS, pa.field("value", pa.int64())])
METERS = pa.schema(
    [
        _ID,
        pa.field("meter", pa.string()),
        pa.field("district", pa.string()),
        pa.field("feeder", pa.string()),
        _TS,
        pa.field("kwh", pa.float64()),
        pa.field("voltage", pa.float64()),
    ]
)


class Columns(Protocol):
    """What is in tuples."""

    def batch(self, ids: Ints, times_us: Ints) -> pa.RecordBatch:
        """Return the tuples with these ids and event times."""
        ...


@dataclass(frozen=True)
class NumberColumns:
    """An id, a time, and a number below a million."""

    seed: int

    def batch(self, ids: Ints, times_us: Ints) -> pa.RecordBatch:
        """Return the tuples."""
        values = below(hashes(self.seed, 4, ids), 1_000_000)
        columns = [pa.array(ids), _timestamps(times_us), pa.array(values)]
        return pa.RecordBatch.from_arrays(columns, schema=NUMBERS)


@dataclass(frozen=True)
class MeterColumns:
    """Readings of smart meters: each in its turn, with a daily profile and a load of its own."""

    seed: int
    meters: int
    feeders: int
    districts: int
    disorder: float
    """Share of readings whose event time lies up to five seconds back."""

    def batch(self, ids: Ints, times_us: Ints) -> pa.RecordBatch:
        """Return the tuples."""
        meter = self._meter(ids)
        feeder = meter % self.feeders
        noise = hashes(self.seed, 5, ids)
        times = times_us - self._delay_us(noise, ids)
        load = _profile(times) * self._factor(meter)
        kwh = np.floor(load * (0.5 + _lane(noise, 0)) * 1024.0) / 1024.0
        return pa.RecordBatch.from_arrays(
            [
                pa.array(ids),
                _names("m", meter, self.meters),
                _names("d", feeder % self.districts, self.districts),
                _names("f", feeder, self.feeders),
                _timestamps(times),
                pa.array(kwh),
                pa.array(self._voltage(noise, feeder, times, load)),
            ],
            schema=METERS,
        )

    def _meter(self, ids: Ints) -> Ints:
        """Return whose turn it is: every meter once per round, in an order that looks random."""
        stride = int(self.meters * 0.6180339887) | 1
        while np.gcd(stride, self.meters) != 1:
            stride += 2
        return (ids % self.meters) * stride % self.meters

    def _delay_us(self, noise: Hashes, ids: Ints) -> Ints:
        late = _lane(noise, 1) < self.disorder
        return np.where(late, 1 + below(hashes(self.seed, 6, ids), 5_000_000), 0)

    def _factor(self, meter: Ints) -> NDArray[np.float64]:
        """Return each meter's own factor: most are small, a few are seven times as large."""
        bits = hashes(self.seed, 7, meter)
        return 0.7 / (0.15 + _lane(bits, 0))

    def _voltage(
        self, noise: Hashes, feeder: Ints, times: Ints, load: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return 230 V with noise, lower under load; now and then a feeder has a bad minute."""
        minute = hashes(self.seed, 8, feeder * 1_000_003 + times // 60_000_000)
        dip = np.where(_lane(minute, 0) < 0.005, 6.0 + 18.0 * _lane(minute, 1), 0.0)
        spread = (_lane(noise, 2) + _lane(noise, 3) - 1.0) * 6.0
        return np.floor((230.5 - 0.5 * load + spread - dip) * 1024.0) / 1024.0


def _profile(times_us: Ints) -> NDArray[np.float64]:
    """Return the usual load at a time of day (UTC), with humps in the morning and the evening."""
    days = times_us // 86_400_000_000
    hour = (times_us - days * 86_400_000_000).astype(np.float64) / 3_600_000_000.0
    humps = 0.25 + 0.8 * _hump(hour, 7.5, 1.6) + 1.2 * _hump(hour, 19.5, 2.4)
    weekend = (days + 3) % 7 >= 5  # the first of January 1970 was a Thursday
    return humps * np.where(weekend, 1.15, 1.0)


def _hump(hour: NDArray[np.float64], top: float, width: float) -> NDArray[np.float64]:
    """Return a bell of rational arithmetic, which every machine computes alike; exp differs."""
    apart = np.abs(hour - top)
    apart = np.minimum(apart, 24.0 - apart) / width
    bell = 1.0 / (1.0 + apart * apart)
    return bell * bell


def _timestamps(times_us: Ints) -> pa.Array:
    return pa.array(times_us).cast(_TS.type)


def _names(prefix: str, numbers: Ints, of: int) -> pa.Array:
    """Return texts such as m00042: a letter and digits of equal length, laid out byte by byte."""
    width = len(str(of - 1))
    letters = np.empty((len(numbers), width + 1), dtype=np.uint8)
    letters[:, 0] = ord(prefix)
    rest = numbers.astype(np.uint32)
    for place in range(width, 0, -1):
        ahead = rest // np.uint32(10)
        letters[:, place] = rest - ahead * np.uint32(10) + np.uint32(ord("0"))
        rest = ahead
    ends = np.arange(0, letters.size + 1, width + 1, dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), len(numbers), buffers)


# --- the stream -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A place between two tuples: before the tuple of this index in this tick."""

    tick: int
    index: int = 0


@dataclass(frozen=True)
class Generator:
    """A stream of synthetic tuples from tick 0 on."""

    arrivals: Arrivals
    columns: Columns
    origin_us: int = 0
    """Event time of tick 0."""
    speed: float = 1.0
    """Event-time seconds per tick-time second."""

    def advance(self, place: Place, until: int, most: int) -> tuple[Place, int]:
        """Return the place `most` tuples on, or before tick `until`, and how many lie between."""
        taken = 0
        tick, index = place.tick, place.index
        while tick < until:
            last = min(until, tick + _WALK_TICKS)
            counts = self.arrivals.counts(tick, last)
            counts[0] -= index
            total = np.cumsum(counts)
            if taken + int(total[-1]) >= most:
                at = int(np.searchsorted(total, most - taken, side="left"))
                left = int(total[at]) + taken - most
                full = int(counts[at]) + (index if at == 0 else 0)
                end = Place(tick + at, full - left) if left else Place(tick + at + 1)
                return end, most
            taken += int(total[-1])
            tick, index = last, 0
        return Place(tick, index), taken

    def batches(self, begin: Place, end: Place) -> Iterator[pa.RecordBatch]:
        """Yield the tuples between two places."""
        last = end.tick + (1 if end.index else 0)
        for first, stop in self._pieces(begin.tick, last):
            ids, times = self.arrivals.rows(first, stop)
            cut = len(ids)
            if end.index and stop == last:
                cut -= int(self.arrivals.counts(end.tick, last)[0]) - end.index
            skip = begin.index if first == begin.tick else 0
            if skip < cut:
                yield self.columns.batch(ids[skip:cut], self._event_times(times[skip:cut]))

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of ticks that hold about as many tuples as a batch should."""
        while first < last:
            stop = min(last, first + _WALK_TICKS)
            total = np.cumsum(self.arrivals.counts(first, stop))
            stop = min(stop, first + int(np.searchsorted(total, _BATCH_ROWS)) + 1)
            yield first, stop
            first = stop

    def _event_times(self, times: Ints) -> Ints:
        if self.speed != 1.0:
            times = np.rint(times * self.speed).astype(np.int64)
        return times + self.origin_us


def make_generator(settings: dict[str, Any]) -> Generator:
    """Return the generator of settings that were checked before."""
    kind, seed = settings["kind"], settings["seed"]
    arrivals: Arrivals
    if kind == "poisson":
        arrivals = PoissonArrivals(settings["milli_rate"], seed)
    elif kind == "burst":
        arrivals = BurstArrivals(
            settings["longest_us"], settings["shortest_us"], settings["interval_ticks"], seed
        )
    else:
        arrivals = usual = ConstantArrivals(settings["milli_rate"])
        if settings["surge"] > 1:
            first = settings["first_tick"] + settings["surge_after_ticks"]
            arrivals = SurgeArrivals(
                usual, settings["surge"], first, first + settings["surge_ticks"]
            )
    columns: Columns = NumberColumns(seed)
    if kind == "meters":
        names = ("meters", "feeders", "districts", "disorder")
        columns = MeterColumns(seed, *(settings[name] for name in names))
    return Generator(arrivals, columns, settings["origin_us"], settings["speed"])
