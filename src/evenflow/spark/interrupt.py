"""Ctrl-C, put off while Spark is at work.

A call that is broken off in the middle leaves a traceback of py4j, or a JVM that lives on without
us.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def put_off_interrupt(*, all_: bool = False) -> Iterator[threading.Event]:
    """Yield what a Ctrl-C sets meanwhile.

    Args:
        all_: Put off every one. Otherwise the second does what it would have done.
    """
    happened = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield happened
        return

    def note(*_: object) -> None:
        if not all_:
            signal.signal(signal.SIGINT, before)
        happened.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield happened
    finally:
        signal.signal(signal.SIGINT, before)


def end_if_interrupted(interrupted: threading.Event | None) -> None:
    """End here, between two calls to Spark, if there was a Ctrl-C.

    Raises:
        KeyboardInterrupt: There was.
    """
    if interrupted is not None and interrupted.is_set():
        raise KeyboardInterrupt
