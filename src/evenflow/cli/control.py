"""`evenflow subscribe`, `unsubscribe`, `pause`, `resume`, `stop`: asking a flow that runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.base.duration import parse_duration
from evenflow.cli.command import FlowPath, State, Verbose, guarded, say
from evenflow.errors import ConfigError, RunError

if TYPE_CHECKING:
    from pathlib import Path

    from evenflow.flow import Flow

QueryName = Annotated[str, typer.Argument(metavar="QUERY", help="The query's name.")]
AnyQuery = Annotated[
    str | None, typer.Argument(metavar="[QUERY]", help="The query's name; all of them without.")
]
_STOP_SECONDS = 120.0


@guarded
def subscribe(  # the keys of a query
    flow: FlowPath,
    name: Annotated[str, typer.Option("--name", help="The query's name.")],
    sql: Annotated[str, typer.Option("--sql", help="One SELECT, or several with UNION ALL.")],
    sink: Annotated[
        list[str] | None,
        typer.Option(
            "--sink",
            metavar="FORMAT[:PLACE]",
            help="Where its answers go: parquet:out/q, kafka:localhost:9092/topic, console ... "
            "Several are possible.",
        ),
    ] = None,
    weight: Annotated[float, typer.Option(help="How much its answers are worth.")] = 1.0,
    floor: Annotated[float, typer.Option(help="Share that is never given up.")] = 0.0,
    every: Annotated[str, typer.Option(help="How often it should answer.")] = "1 second",
    deadline: Annotated[
        str | None, typer.Option(help="How old an answer may be when it is visible.")
    ] = None,
    on_error: Annotated[
        str, typer.Option(help="skip or quarantine: what a tuple does that cannot be computed.")
    ] = "skip",
    state: State = None,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Add a query to a running flow. It answers from its first whole window on."""
    if on_error not in ("skip", "quarantine"):
        raise ConfigError(f"--on-error {on_error[:40]} is not known", "use skip or quarantine")
    query = {
        "sql": sql,
        "weight": weight,
        "floor": floor,
        "every": parse_duration(every),
        "deadline": None if deadline is None else parse_duration(deadline),
        "on_error": on_error,
        "sinks": [_sink(each) for each in sink or []],
    }
    _ask(flow, state, {"ask": "subscribe", "name": name, "query": query})
    say(f"query {name} is subscribed")


def _sink(text: str) -> dict[str, Any]:
    from pathlib import Path

    from evenflow.base.paths import has_scheme
    from evenflow.model import kafka

    format_, _, path = text.partition(":")
    if format_ == kafka.FORMAT:
        servers, _, topic = path.rpartition("/")
        options = {kafka.SERVERS: servers, kafka.TOPIC: topic}
        return {"format": format_, "path": None, "options": options}
    if path and not has_scheme(path):
        path = str(Path(path).absolute())
    return {"format": format_, "path": path or None, "options": {}}


@guarded
def unsubscribe(
    flow: FlowPath,
    query: QueryName,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Go on computing it, for an equal query to come."),
    ] = False,
    state: State = None,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Take a query out of a running flow; windows that it has not answered are cut."""
    _ask(flow, state, {"ask": "unsubscribe", "name": query, "keep": keep})
    say(f"query {query} is {'kept' if keep else 'unsubscribed'}")


@guarded
def pause(
    flow: FlowPath,
    query: AnyQuery = None,
    state: State = None,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Discard the input of a query until it resumes; without QUERY, hold that of the whole flow."""
    _ask(flow, state, {"ask": "pause", "name": query})
    say("the flow is paused, its input waits" if query is None else f"query {query} is paused")


@guarded
def resume(
    flow: FlowPath,
    query: AnyQuery = None,
    state: State = None,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Answer a paused or quarantined query again, from its first whole window on.

    Without QUERY, a paused flow goes on where it was.
    """
    _ask(flow, state, {"ask": "resume", "name": query})
    say("the flow is running" if query is None else f"query {query} is running")


@guarded
def stop(
    flow: FlowPath,
    state: State = None,
    verbose: Verbose = False,  # noqa: ARG001  # read by `guarded`
) -> None:
    """Stop a running flow after its running batches, and wait until it has ended.

    Raises:
        RunError: It goes on for too long.
    """
    from evenflow.spark.state.directory import StateDirectory

    found, directory = _found(flow, state)
    _ask(flow, state, {"ask": "stop"})
    deadline = time.monotonic() + _STOP_SECONDS
    while StateDirectory(directory).in_use:
        if time.monotonic() > deadline:
            raise RunError(f"flow {found.name} has not ended after {_STOP_SECONDS:g} s")
        time.sleep(0.1)
    say(f"flow {found.name} has stopped")


def _ask(flow: Path, state: Path | None, request: dict[str, Any]) -> Any:
    from evenflow.spark.control_socket import ask

    found, directory = _found(flow, state)
    return ask(found.name, directory, request)


def _found(flow: Path, state: Path | None) -> tuple[Flow, Path]:
    from evenflow.cli.flow_file import read_flow

    found = read_flow(flow)
    return found, state or found.state
