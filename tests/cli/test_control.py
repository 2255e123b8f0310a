"""Commands that ask a running flow, over a real socket. No session, no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.flows import GOOD, write

from evenflow.errors import ConfigError, QueryError
from evenflow.spark.control_socket import ControlSocket
from evenflow.spark.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Invoke

STATUS = {"flow": "metering", "running": True, "queries": {}}


@pytest.fixture
def flow(tmp_path: Path) -> str:
    return str(write(tmp_path, GOOD))


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """What a flow that runs is asked."""
    found: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> Any:
        found.append(request)
        if request.get("name") == "nobody":
            raise ConfigError("query nobody is not known")
        if request.get("name") == "wrong":
            raise QueryError("column.unknown", "column x is not known", text="SELECT x", position=7)
        if request["ask"] == "stop":
            directory.release()
        return STATUS if request["ask"] == "status" else {}

    directory = StateDirectory(tmp_path / "state")
    directory.acquire()
    listening = ControlSocket(directory.path, answer)
    yield found
    listening.close()
    directory.release()


def state(tmp_path: Path) -> tuple[str, str]:
    return "--state", str(tmp_path / "state")


def test_a_query_is_subscribed_with_all_it_has(
    invoke: Invoke, tmp_path: Path, flow: str, asked: list[dict[str, Any]]
) -> None:
    text = "SELECT meter FROM readings"
    result = invoke(
        *("subscribe", flow, "--name", "q", "--sql", text, "--sink", "console"),
        *("--sink", f"parquet:{tmp_path}/out", "--every", "2 seconds", "--deadline", "5s"),
        *("--sink", "kafka:a:1,b:2/out"),
        *("--weight", "3", "--on-error", "quarantine", *state(tmp_path)),
    )
    topic = {"kafka.bootstrap.servers": "a:1,b:2", "topic": "out"}
    assert result.exit_code == 0, result.stderr
    (request,) = asked
    assert request == {
        "ask": "subscribe",
        "name": "q",
        "query": {
            "sql": text,
            "weight": 3.0,
            "floor": 0.0,
            "every": 2.0,
            "deadline": 5.0,
            "on_error": "quarantine",
            "sinks": [
                {"format": "console", "path": None, "options": {}},
                {"format": "parquet", "path": f"{tmp_path}/out", "options": {}},
                {"format": "kafka", "path": None, "options": topic},
            ],
        },
    }


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        (["unsubscribe", "q"], {"ask": "unsubscribe", "name": "q", "keep": False}),
        (["unsubscribe", "q", "--keep"], {"ask": "unsubscribe", "name": "q", "keep": True}),
        (["pause", "q"], {"ask": "pause", "name": "q"}),
        (["resume", "q"], {"ask": "resume", "name": "q"}),
        (["pause"], {"ask": "pause", "name": None}),
        (["resume"], {"ask": "resume", "name": None}),
        (["stop"], {"ask": "stop"}),
        (["status", "--exact"], {"ask": "status", "exact": True}),
    ],
)
def test_commands_ask_the_flow(
    invoke: Invoke,
    tmp_path: Path,
    flow: str,
    asked: list[dict[str, Any]],
    command: list[str],
    request_: dict[str, Any],
) -> None:
    name, *rest = command
    result = invoke(name, flow, *rest, *state(tmp_path))
    assert result.exit_code == 0, result.stderr
    assert asked == [request_]


def test_refusals_of_the_flow_are_told(
    invoke: Invoke,
    tmp_path: Path,
    flow: str,
    asked: list[dict[str, Any]],  # it listens
) -> None:
    result = invoke("pause", flow, "nobody", *state(tmp_path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "query nobody is not known" in result.stderr
    result = invoke("subscribe", flow, "--name", "wrong", "--sql", "SELECT x", *state(tmp_path))
    assert result.exit_code == 2
    assert "error[column.unknown]" in result.stderr
    assert "       ^" in result.stderr


@pytest.mark.parametrize("command", ["pause", "resume", "unsubscribe"])
def test_a_flow_that_does_not_run_is_said_to(
    invoke: Invoke, tmp_path: Path, flow: str, command: str
) -> None:
    result = invoke(command, flow, "q", *state(tmp_path))
    assert result.exit_code == 2
    assert "is not running" in result.stderr


def test_bad_options_are_refused_before_anybody_is_asked(
    invoke: Invoke, tmp_path: Path, flow: str, asked: list[dict[str, Any]]
) -> None:
    common = ("subscribe", flow, "--name", "q", "--sql", "SELECT 1", *state(tmp_path))
    assert invoke(*common, "--on-error", "explode").exit_code == 2
    assert invoke(*common, "--every", "soon").exit_code == 2
    assert asked == []
