"""What a session does while its JVM starts."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from evenflow.spark.session import _put_off_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Take Ctrl-C as Python does; a process in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_until_the_jvm_has_started() -> None:
    before = signal.getsignal(signal.SIGINT)
    done = False
    with _put_off_interrupt() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        done = True
    assert done
    assert interrupted.is_set()
    assert signal.getsignal(signal.SIGINT) is before
    with _put_off_interrupt() as interrupted:
        pass
    assert not interrupted.is_set()


def test_another_ctrl_c_afterwards_is_one() -> None:
    with _put_off_interrupt():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
