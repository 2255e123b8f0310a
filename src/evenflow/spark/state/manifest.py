"""The manifest of a flow: the life of its queries, and what a restart needs to go on with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.errors import StateError
from evenflow.model.query import OnError, Sink
from evenflow.schedule.layout import layout_from_json, layout_to_json
from evenflow.schedule.life import Life, QueryLife
from evenflow.schedule.place import Numbers
from evenflow.schedule.request import Origin, QueryState
from evenflow.spark.state.directory import StateDirectory
from evenflow.spark.state.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from evenflow.graph.graph import QueryOptions
    from evenflow.model.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is written before a unit starts, and read before anything is done to it again."""

    flow: str
    id: str
    """Keeps the files of two states apart in one sink."""
    life: Life
    definitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Queries that cannot be had from the flow file: subscribed at run time, or kept."""


def read_manifest(file: Path) -> Manifest | None:
    """Return the manifest, or None if there is none.

    Raises:
        StateError: It is damaged, or of another version.
    """
    body = read_sealed(file)
    if body is None:
        return None
    try:
        return Manifest(
            flow=body["flow"],
            id=body["id"],
            life=_life(body["life"]),
            definitions=body["definitions"],
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise StateError(f"{file} is not a manifest: {exc}") from exc


def manifest_of(flow: str, state: Path) -> Manifest:
    """Return the manifest of a flow that has run, or runs.

    Raises:
        StateError: It has not run there, or the manifest is damaged or of another version.
    """
    found = read_manifest(StateDirectory(state).manifest)
    if found is None:
        raise StateError(f"flow {flow} has not run in {state}", "run it first, or give --state")
    return found


def write_manifest(file: Path, manifest: Manifest) -> None:
    """Replace the manifest."""
    body = {
        "flow": manifest.flow,
        "id": manifest.id,
        "life": _life_to_json(manifest.life),
        "definitions": dict(manifest.definitions),
    }
    write_sealed(file, body)


# Lives.


def _life_to_json(life: Life) -> dict[str, Any]:
    return {
        "queries": {
            name: {
                "operator": query.operator,
                "numbers": list(query.numbers),
                "state": query.state.value,
                "origin": query.origin.value,
                "reason": query.reason,
            }
            for name, query in life.queries.items()
        },
        "units": [layout_to_json(unit) for unit in life.units],
        "numbers": asdict(life.numbers),
    }


def _life(data: Mapping[str, Any]) -> Life:
    return Life(
        queries={
            name: QueryLife(
                operator=query["operator"],
                numbers=tuple(query["numbers"]),
                state=QueryState(query["state"]),
                origin=Origin(query["origin"]),
                reason=query["reason"],
            )
            for name, query in data["queries"].items()
        },
        units=tuple(map(layout_from_json, data["units"])),
        numbers=Numbers(**data["numbers"]),
    )


# Definitions.


def definition_to_json(query: Query) -> dict[str, Any]:
    """Return what a query can be built from again; no text if it was not written in SQL."""
    return {
        "sql": query.text,
        "weight": query.weight,
        "floor": query.floor,
        "every": query.every,
        "deadline": query.deadline,
        "on_error": query.on_error.value,
        "sinks": [
            {"format": s.format, "path": s.path, "options": dict(s.options)}
            for s in query.sinks
            if s.function is None
        ],
    }


def options_from_json(data: Mapping[str, Any]) -> QueryOptions:
    """Return the options of a query that `definition_to_json` wrote."""
    return {
        "weight": data["weight"],
        "floor": data["floor"],
        "every": data["every"],
        "deadline": data["deadline"],
        "on_error": OnError(data["on_error"]),
        "sinks": tuple(Sink(s["format"], s["path"], s["options"]) for s in data["sinks"]),
    }
