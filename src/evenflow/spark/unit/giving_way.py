"""Ending a batch that has not begun, because its query is being stopped, without an alarm.

A batch function can only return, which commits the batch, or raise, which Spark takes for a failure
and logs with a long trace, unless it looks like what a call from Python into a JVM that was
interrupted by `stop()` looks like. That is not a contract of Spark's: if it changes, stopping and
changing a flow work as before, but are noisy. tests/spark/test_life.py looks for the noise.
"""

from __future__ import annotations

import logging
import time

from evenflow.errors import GivingWayError

_SECONDS_FOR_STOP = 0.25
"""For `stop()` to reach the JVM: before that, it is a failure."""
_INTERRUPTED = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling stop.\n"
    ": java.lang.InterruptedException"
)


def give_way(reason: str) -> None:
    """End the batch that calls this.

    Raises:
        GivingWayError: Always.
    """
    time.sleep(_SECONDS_FOR_STOP)
    raise GivingWayError(f"{reason}\n{_INTERRUPTED}")


def _is_alarm(record: logging.LogRecord) -> bool:
    raised = record.exc_info[1] if record.exc_info else None
    return not isinstance(raised, GivingWayError)


logging.getLogger("py4j.clientserver").addFilter(_is_alarm)
