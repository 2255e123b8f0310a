"""What can be asked of a running flow over its control socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.errors import ConfigError, EvenflowError, StateError
from evenflow.spark.state.manifest import options_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.graph.graph import QueryOptions
    from evenflow.spark.run import Run

_PATIENCE_SECONDS = 10.0
"""How long a flow may take to start until requests are refused: that it measures costs takes long,
that units start does not."""


def answer(run: Run, request: Mapping[str, Any]) -> Any:
    """Do what is asked, and return the answer.

    Raises:
        EvenflowError: It cannot be done.
    """
    match request:
        case {"ask": "status"}:
            return run.status(exact=bool(request.get("exact")) and run.started.is_set())
        case {"ask": "stop"}:
            run.stop_asked.set()
        case {"ask": str()} if not run.started.wait(_PATIENCE_SECONDS):
            raise StateError(f"flow {run.spec.name} has not started yet", "see evenflow status")
        case {"ask": "subscribe", "name": str(name), "query": {"sql": str(sql)} as query}:
            run.subscribe(name, sql, **_options(query))
        case {"ask": "unsubscribe", "name": str(name)}:
            run.unsubscribe(name, keep=bool(request.get("keep")))
        case {"ask": "pause", "name": str() | None as name}:
            run.pause(name)
        case {"ask": "resume", "name": str() | None as name}:
            run.resume(name)
        case _:
            raise ConfigError(f"a flow cannot be asked to {str(request.get('ask'))[:40]}")
    return {}


def _options(query: Mapping[str, Any]) -> QueryOptions:
    try:
        return options_from_json(query)
    except EvenflowError:
        raise
    except (KeyError, TypeError, ValueError) as exc:
        raise ConfigError(f"not a query: {exc}") from exc
