"""A flow in a process group of its own: started, asked, killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.errors import RunError, StateError
from evenflow.spark.control_socket import ask
from evenflow.spark.java import use_java
from tests.architecture.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


_START_SECONDS = 120.0


@dataclass(frozen=True)
class Kill:
    """One kill: at the nth time that a point is reached, or so many seconds after it is armed."""

    point: str | None
    times: int = 1
    seconds: float = 0.0

    def __str__(self) -> str:
        """What the report says."""
        if self.point is None:
            return f"{self.seconds:.2f} s later"
        return self.point + (f" ({self.times})" if self.times > 1 else "")


def at_random(rng: random.Random, longest: float) -> Kill:
    """Return a kill at a random moment."""
    return Kill(None, seconds=rng.uniform(0, longest))


class Killed(Exception):  # noqa: N818  # not a fault
    """The flow was killed, as planned."""


class FlowProcess:
    """Runs one flow, over as many lives as it takes."""

    def __init__(self, name: str, folder: Path, faults: Sequence[str] = ()) -> None:
        """Prepare; nothing runs.

        Args:
            name: The flow's name.
            folder: Where its file `flow.yaml` and its state are.
            faults: What to break in the process.
        """
        self.state = folder / "state"
        self.starts = 0
        self._name = name
        self._folder = folder
        self._armed = folder / "armed.json"
        self._command = [
            *(sys.executable, "-m", "tests.spark.kill.child"),
            *(str(folder / "flow.yaml"), str(self._armed), *faults),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: threading.Timer | None = None
        self._kill: Kill | None = None

    # Lives.

    def start(self, kill: Kill | None) -> None:
        """Begin a life, in which it may be killed."""
        self.arm(None)
        use_java()
        self.starts += 1
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )
        self.arm(kill)

    def arm(self, kill: Kill | None) -> None:
        """Have it killed. What was armed before is not any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._kill = kill
        self._armed.unlink(missing_ok=True)
        if kill is None:
            return
        if kill.point is None:
            self._timer = threading.Timer(kill.seconds, self.kill)
            self._timer.start()
            return
        beside = self._armed.with_suffix(".new")
        # The number tells two kills at the same point apart.
        armed = {"point": kill.point, "times": kill.times, "number": time.monotonic_ns()}
        beside.write_text(json.dumps(armed))
        beside.replace(self._armed)

    def kill(self) -> None:
        """Kill the whole group."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Have it gone, however the test ended."""
        self.arm(None)
        self.kill()
        if self._process is not None:
            self._process.wait()

    @property
    def id(self) -> int | None:
        """Of the process."""
        return None if self._process is None else self._process.pid

    @property
    def _log(self) -> Path:
        return self._folder / f"life-{self.starts}.log"

    @property
    def log(self) -> str:
        """What the process wrote."""
        return self._log.read_text(errors="replace")

    # Asking.

    def wait_until(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        """Wait for something to become true.

        Raises:
            Killed: The flow was killed before.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            self._look()
            assert time.monotonic() < deadline, f"it did not happen\n{self.log[-3000:]}"
            time.sleep(0.02)

    def wait_until_up(self) -> None:
        """Wait until it answers.

        Raises:
            Killed: The flow was killed before.
        """
        self.wait_until(self._answers, _START_SECONDS)

    def _answers(self) -> bool:
        try:
            found: dict[str, Any] = ask(self._name, self.state, {"ask": "status"})
        except (StateError, RunError):
            return False
        return not found["starting"]

    def ask(self, request: dict[str, Any]) -> Any:
        """Ask the flow.

        Raises:
            Killed: The flow was killed before it answered.
        """
        try:
            return ask(self._name, self.state, request)
        except (StateError, RunError):
            self.wait_until(lambda: False, 10.0)
            raise

    def stop(self) -> dict[str, Any]:
        """Stop it and return its last status.

        Raises:
            Killed: The flow was killed before it had ended.
        """
        self.ask({"ask": "stop"})
        process = self._process
        assert process is not None
        self.wait_until(lambda: process.poll() == 0)
        return dict(json.loads((self.state / "status.json").read_text()))

    def _look(self) -> None:
        code = self._process.poll() if self._process is not None else None
        if code is None or code == 0:
            return
        assert code == -signal.SIGKILL, f"the flow ended with {code}\n{self.log[-3000:]}"
        assert self._kill is not None, f"nobody killed it\n{self.log[-3000:]}"
        raise Killed
