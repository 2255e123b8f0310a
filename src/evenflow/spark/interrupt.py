"""Ctrl-C, put off while Spark is at work.

A call that is broken off in the middle leaves a traceback of py4j, or a JVM that lives on without
us.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def put_off_interrupt(*, all_: bool = False) -> Iterator[threading.Event]:
    """Yield what a Ctrl-C sets meanwhile; within another, what it sets there.

    Args:
        all_: Put off every one. Otherwise the second does what it would have done.
    """
    happened = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield happened
        return

    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, _PutOff) and not all_:
        yield before.happened
        return
    signal.signal(signal.SIGINT, _PutOff(happened, None if all_ else before))
    try:
        yield happened
    finally:
        signal.signal(signal.SIGINT, before)


class _PutOff:
    """Takes a Ctrl-C."""

    def __init__(self, happened: threading.Event, then: Any) -> None:
        self.happened = happened
        self._then = then
        """What takes the next one; None if this does."""

    def __call__(self, *_: object) -> None:
        if self._then is not None:
            signal.signal(signal.SIGINT, self._then)
        self.happened.set()


class AnyOf:
    """Set if one of some events is."""

    def __init__(self, *events: threading.Event | None) -> None:
        self._events = tuple(event for event in events if event is not None)

    def is_set(self) -> bool:
        """Return whether one is."""
        return any(event.is_set() for event in self._events)


def end_if_interrupted(interrupted: threading.Event | AnyOf | None) -> None:
    """End here, between two calls to Spark, if there was a Ctrl-C.

    Raises:
        KeyboardInterrupt: There was.
    """
    if interrupted is not None and interrupted.is_set():
        raise KeyboardInterrupt
