"""The control socket: other processes of the user ask a running flow, over a file in its state.

Nothing listens on the network. Whoever may open the socket's file may ask; its permissions are the
lock. A request is a line of JSON, and so is the answer; then the connection ends.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.errors import EvenflowError, QueryError, RunError, StateError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NAME = "control.sock"
_LONGEST = 100
"""Bytes of a path that a socket's address can surely hold."""
_MOST_BYTES = 1 << 20
_SECONDS_TO_SEND = 10.0


class ControlSocket:
    """Answers requests until it is closed."""

    def __init__(self, directory: Path, answer: Callable[[dict[str, Any]], Any]) -> None:
        """Listen.

        Args:
            directory: The state directory, which this process holds.
            answer: Called with each request, by several threads at once. What it raises of ours
                is told to the one who asked.
        """
        self._file = directory / NAME
        self._answer = answer
        self._file.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short(directory) as short:
            self._socket.bind(str(short / NAME))
        # Nobody can connect before it listens.
        self._file.chmod(0o600)
        self._socket.listen(16)
        self._thread = threading.Thread(target=self._accept, name="evenflow-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        self._file.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), name="evenflow-control-peer", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(_SECONDS_TO_SEND)
            line = _read_line(connection)
            connection.settimeout(None)
            connection.sendall(json.dumps(self._reply(line)).encode() + b"\n")

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise TypeError
        except (ValueError, TypeError):
            return {"error": {"message": "not a request", "code": "input.invalid", "exit": 2}}
        try:
            return {"answer": self._answer(request)}
        except EvenflowError as exc:
            return {"error": _fault(exc)}


def ask(flow: str, directory: Path, request: Mapping[str, Any]) -> Any:
    """Ask a running flow and return its answer.

    Raises:
        StateError: It is not running.
        UserError: It refuses, because of what was asked.
        RunError: It failed to do what was asked.
    """
    if not (directory / NAME).exists():
        raise _not_running(flow, directory)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            with _short(directory) as short:
                connection.connect(str(short / NAME))
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = _read_line(connection)
        except PermissionError as exc:
            raise StateError(f"flow {flow} belongs to another user") from exc
        except OSError as exc:
            raise _not_running(flow, directory) from exc
    if not line:
        raise RunError(f"flow {flow} ended before it answered")
    reply = json.loads(line)
    if "error" in reply:
        raise _raised(reply["error"])
    return reply["answer"]


def _fault(error: EvenflowError) -> dict[str, Any]:
    """Return an error as plain values."""
    fault = {"message": error.message, "hint": error.hint, "exit": error.exit_code}
    fault["code"] = error.code
    if isinstance(error, QueryError):
        fault |= {"query": error.query, "text": error.text, "position": error.position}
    return fault


def _raised(fault: Mapping[str, Any]) -> EvenflowError:
    """Return the error that the flow has told."""
    message, hint = fault["message"], fault.get("hint")
    if "position" in fault:
        return QueryError(
            fault["code"],
            message,
            query=fault["query"],
            text=fault["text"],
            position=fault["position"],
            hint=hint,
        )
    kind = UserError if fault["exit"] == UserError.exit_code else RunError
    return kind(message, hint)


def _not_running(flow: str, directory: Path) -> StateError:
    return StateError(
        f"flow {flow} is not running in {directory}", "start it with evenflow run, or give --state"
    )


def _read_line(connection: socket.socket) -> bytes:
    parts = bytearray()
    while not parts.endswith(b"\n"):
        part = connection.recv(65536)
        if not part or len(parts) > _MOST_BYTES:
            break
        parts += part
    return bytes(parts)


@contextmanager
def _short(directory: Path) -> Iterator[Path]:
    """Yield a path to a directory that fits into a socket's address."""
    absolute = directory.absolute()
    if len(os.fsencode(absolute / NAME)) <= _LONGEST:
        yield absolute
        return
    with tempfile.TemporaryDirectory(prefix="evenflow-") as folder:
        link = Path(folder) / "s"
        link.symlink_to(absolute, target_is_directory=True)
        yield link
