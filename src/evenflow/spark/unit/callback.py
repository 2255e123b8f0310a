"""Ending the thread of this process in which Spark runs the batches of a StreamingQuery.

For every thread of the JVM that has called Python, py4j has a thread here that waits for more calls
on a connection of its own, also when the other one is long gone: a thread, a socket and what they
hold for every start of a unit. Closing the connection ends it. That is not a contract of py4j's:
if it changes, threads are left as before, and tests/spark/test_life.py fails.

The JVM's end of the connection stays open until the process ends; nothing here reaches it.
"""

from __future__ import annotations

import inspect
import socket
from contextlib import suppress

from py4j.clientserver import ClientServerConnection


class Callback:
    """The connection on which the JVM calls the batches of one StreamingQuery."""

    def __init__(self) -> None:
        self._connection: ClientServerConnection | None = None

    def note(self) -> None:
        """Remember the connection on which the caller is called; a batch says this."""
        if self._connection is not None:
            return
        frame = inspect.currentframe()
        while frame is not None:
            caller = frame.f_locals.get("self")
            if isinstance(caller, ClientServerConnection):
                self._connection = caller
                return
            frame = frame.f_back

    def end(self) -> None:
        """End the thread. The StreamingQuery has stopped."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # It may have been closed from the other side.
            with suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)
