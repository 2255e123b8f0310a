"""Queries: named outputs of the graph, with what their owner asks of them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.base.paths import local_path
from evenflow.errors import ConfigError
from evenflow.model import kafka

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.model.operator import Operator
    from evenflow.model.schema import Schema


class OnError(enum.Enum):
    """What a bad tuple does to its query."""

    SKIP = "skip"
    QUARANTINE = "quarantine"


@dataclass(frozen=True)
class Sink:
    """Where answers go: a format and its options; for callbacks the function itself."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    function: Any = None
    """The callable of a `callback` sink."""

    def __post_init__(self) -> None:
        if self.format not in SINK_FORMATS:
            raise ConfigError(
                f"sink format {self.format!r} is not known", "use " + ", ".join(SINK_FORMATS)
            )
        if self.format in FILE_FORMATS:
            if not self.path:
                raise ConfigError(f"a {self.format} sink needs a path")
            local_path(self.path)
        if self.format == kafka.FORMAT:
            if self.path:
                raise ConfigError("a kafka sink has no path", "name the topic in its options")
            kafka.check_kafka_sink(self.options)
        elif self.options:
            raise ConfigError(f"a {self.format} sink has no options yet")
        if self.format == "callback" and not callable(self.function):
            raise ConfigError("a callback sink needs a function")


FILE_FORMATS = ("parquet", "json", "csv")
SINK_FORMATS = (*FILE_FORMATS, kafka.FORMAT, "console", "memory", "callback")


@dataclass(frozen=True, kw_only=True)
class Query:
    """A name, the operator whose output it is, and what its owner asks."""

    name: str
    operator: Operator
    schema: Schema
    text: str | None = None
    """The SQL it was written in, for messages and for noticing that it changed."""
    weight: float = 1.0
    floor: float = 0.0
    every: float = 1.0
    """Seconds between batches."""
    deadline: float | None = None
    """Seconds an answer may be old when it is visible."""
    on_error: OnError = OnError.SKIP
    sinks: tuple[Sink, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise ConfigError(f"query {self.name}: weight must be a number above 0")
        if not 0 <= self.floor <= 1:
            raise ConfigError(f"query {self.name}: floor must be between 0 and 1")
        if not 0 < self.every < math.inf:
            raise ConfigError(f"query {self.name}: every must be above 0")
        if self.deadline is not None and not 0 < self.deadline < math.inf:
            raise ConfigError(f"query {self.name}: deadline must be above 0")
        for sink in self.sinks:
            key = kafka.option(sink.options, kafka.KEY)
            if key is not None and self.schema.find(key) is None:
                raise ConfigError(
                    f"query {self.name}: the key {key[:64]} of its kafka sink is no column of it",
                    f"it has {', '.join(self.schema.names)}",
                )
