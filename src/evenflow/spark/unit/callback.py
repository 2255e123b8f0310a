"""Ending the connection over which Spark runs the batches of a StreamingQuery, on both sides.

For every thread of the JVM that has called Python, py4j has a connection, and a thread here that
waits on it for more calls, also when the other thread is long gone: a thread, two sockets and what
they hold for every start of a unit. Closing the connection here ends the thread. The JVM closes its
end when it is asked to close those that nobody uses, which it never does by itself; a thread whose
connection was closed like this makes another one when it calls again.

Neither is a contract of py4j's: if it changes, threads or sockets are left as before, and
tests/spark/test_life.py fails.
"""

from __future__ import annotations

import inspect
import socket
from contextlib import suppress

from py4j.clientserver import ClientServerConnection
from py4j.java_gateway import JavaObject
from py4j.protocol import GATEWAY_SERVER_OBJECT_ID, Py4JError

_ROUNDS = 2
"""The first clean-up notes which connections are used, the second closes those that were not."""


class Callback:
    """The connection on which the JVM calls the batches of one StreamingQuery."""

    def __init__(self) -> None:
        self._connection: ClientServerConnection | None = None

    def note(self) -> None:
        """Remember the connection on which the caller is called; a batch says this."""
        frame = inspect.currentframe()
        while frame is not None:
            caller = frame.f_locals.get("self")
            if isinstance(caller, ClientServerConnection):
                self._connection = caller
                return
            frame = frame.f_back

    def end(self) -> None:
        """End the connection and its thread. The StreamingQuery has stopped."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # It may have been closed from the other side.
        with suppress(OSError, AttributeError):
            connection.socket.shutdown(socket.SHUT_RDWR)
        with suppress(Py4JError):
            callers = JavaObject(GATEWAY_SERVER_OBJECT_ID, connection.java_client)
            for _ in range(_ROUNDS):
                callers.getCallbackClient().periodicCleanup()
