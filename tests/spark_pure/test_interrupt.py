"""Ctrl-C while Spark is at work."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from evenflow.spark.interrupt import end_if_interrupted, put_off_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Take Ctrl-C as Python does; a process in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_spark() -> None:
    before = signal.getsignal(signal.SIGINT)
    done = False
    with put_off_interrupt() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        done = True
    assert done
    assert interrupted.is_set()
    assert signal.getsignal(signal.SIGINT) is before
    with put_off_interrupt() as interrupted:
        pass
    assert not interrupted.is_set()


def test_another_ctrl_c_afterwards_is_one() -> None:
    with put_off_interrupt():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("all_", [True, False])
def test_a_second_ctrl_c_breaks_off_unless_all_are_put_off(all_: bool) -> None:
    before = signal.getsignal(signal.SIGINT)
    ended = False
    try:
        with put_off_interrupt(all_=all_) as interrupted:
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
            ended = True
    except KeyboardInterrupt:
        pass
    assert ended is all_
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        end_if_interrupted(interrupted)


def test_one_within_another_is_the_same_one() -> None:
    with put_off_interrupt() as outer, put_off_interrupt() as inner:
        signal.raise_signal(signal.SIGINT)
        assert outer.is_set()
        assert inner.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
