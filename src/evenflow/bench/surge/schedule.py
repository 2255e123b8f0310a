"""When tuples arrive in a surge, and what follows from it: answers, ages, counts. Pure.

Tuples are numbered. In every tick of 100 ms they are equidistant, and in a surge there are several
times as many. Windows and the watermark's delay are whole ticks, so that a window holds the tuples
of its ticks, and the first tuple of a tick closes it. It is reckoned here by itself, not by the
source that makes the tuples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND_US = 1_000_000
TICK_US = 100_000
_TICKS_PER_SECOND = SECOND_US // TICK_US


@dataclass(frozen=True, slots=True)
class Surge:
    """A stream that surges once. Instants are microseconds since the epoch, in whole ticks."""

    rate: int
    """Tuples per second before and after."""
    times: int
    """How many times as many there are in the surge."""
    first_tick: int
    """Of the stream."""
    begin_tick: int
    end_tick: int

    @property
    def begin(self) -> float:
        """When the surge begins, in seconds since the epoch."""
        return self.begin_tick / _TICKS_PER_SECOND

    @property
    def end(self) -> float:
        """When it is over."""
        return self.end_tick / _TICKS_PER_SECOND

    def before(self, tick: int, index: int = 0) -> int:
        """Return the number of the tuple at a place of a tick: how many come before it."""
        inside = min(max(tick, self.begin_tick), self.end_tick)
        more = self._usual(inside) - self._usual(self.begin_tick)
        return self._usual(tick) + (self.times - 1) * more + index

    def _usual(self, tick: int) -> int:
        return -(-tick * self.rate // _TICKS_PER_SECOND)

    def read(self, tick: int, index: int) -> int:
        """Return how many tuples were read by who has read up to a place."""
        return self.before(tick, index) - self.before(self.first_tick)

    def ids(self, start_us: int, end_us: int, until: int | None = None) -> range:
        """Return the tuples of a window, of those before `until`."""
        first = max(self.before(start_us // TICK_US), self.before(self.first_tick))
        last = self.before(end_us // TICK_US)
        return range(first, last if until is None else min(last, until))


@dataclass(frozen=True, slots=True)
class Windows:
    """Tumbling windows of some keys, as all queries have them."""

    size_us: int
    delay_us: int
    """The watermark's."""
    keys: int

    def closing(self, start_us: int) -> float:
        """Return when the tuple arrives that closes a window, in seconds since the epoch."""
        return (start_us + self.size_us + self.delay_us) / SECOND_US

    def between(self, begin: float, end: float) -> Iterator[int]:
        """Yield the starts of all windows that lie within a time."""
        begin_us, end_us = round(begin * SECOND_US), round(end * SECOND_US)
        first = -(-begin_us // self.size_us) * self.size_us
        yield from range(first, end_us - self.size_us + 1, self.size_us)

    def count(self, surge: Surge, start_us: int, key: int, until: int | None = None) -> int:
        """Return how many tuples of a key a window has, of those before `until`."""
        ids = surge.ids(start_us, start_us + self.size_us, until)
        if not ids:
            return 0
        return (ids.stop - 1 - key) // self.keys - (ids.start - 1 - key) // self.keys
