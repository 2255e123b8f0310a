"""Asking over the control socket. No session, no JVM."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.errors import ConfigError, RunError, StateError, UserError
from evenflow.spark.control_socket import NAME, ControlSocket, ask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def answer(request: dict[str, Any]) -> Any:
    if request["ask"] == "refuse":
        raise ConfigError("no", "ask for something else")
    if request["ask"] == "fail":
        raise RunError("broken")
    return request


@pytest.fixture(params=["state", "x" * 200 + "/" + "y" * 200])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / str(request.param)
    made.mkdir(parents=True)
    listening = ControlSocket(made, answer)
    yield made
    listening.close()
    assert not (made / NAME).exists()


def test_a_request_is_answered(directory: Path) -> None:
    assert ask("f", directory, {"ask": "it", "text": "é\n"}) == {"ask": "it", "text": "é\n"}


def test_only_the_owner_may_ask(directory: Path) -> None:
    assert (directory / NAME).stat().st_mode & 0o777 == 0o600


def test_refusals_and_failures_are_told_apart(directory: Path) -> None:
    with pytest.raises(UserError) as refused:
        ask("f", directory, {"ask": "refuse"})
    assert (refused.value.message, refused.value.hint) == ("no", "ask for something else")
    with pytest.raises(RunError, match="broken"):
        ask("f", directory, {"ask": "fail"})


@pytest.mark.parametrize("line", [b"\n", b"{\n", b"[1]\n", b"\xff\xfe\n"])
def test_what_is_no_request_is_refused(directory: Path, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        fd = os.open(directory, os.O_RDONLY)
        try:
            raw.connect(f"/proc/self/fd/{fd}/{NAME}")
        finally:
            os.close(fd)
        raw.sendall(line)
        assert b"not a request" in raw.recv(1000)


def test_many_may_ask_at_once(directory: Path) -> None:
    answers: list[Any] = []

    def one(number: int) -> None:
        answers.append(ask("f", directory, {"ask": number})["ask"])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(30)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(answers) == list(range(30))


def test_a_flow_that_does_not_run_is_said_to(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="not running"):
        ask("f", tmp_path, {})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(str(tmp_path / NAME))
    with pytest.raises(StateError, match="not running"):
        ask("f", tmp_path, {})
