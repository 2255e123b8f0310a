"""What a flow may say about Kafka: the columns of a record and the options that must be there.

The value of a record is JSON that has the columns of the schema, or text in one column. What else
Kafka knows of a record is in columns that begin with `_`, where the schema names them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from evenflow.errors import ConfigError
from evenflow.model import types as t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenflow.model.schema import Schema

FORMAT: Final = "kafka"
SERVERS: Final = "kafka.bootstrap.servers"
TOPIC: Final = "topic"
"""A sink's option: where its answers go."""
KEY: Final = "key"
"""A sink's option: the column of an answer that is the record's key."""
VALUE: Final = "value"
"""A source's option: what the values of records are."""
VALUES: Final = ("json", "text")
RECORD_COLUMNS: Final[Mapping[str, t.DataType]] = {
    "_key": t.STRING,
    "_headers": t.STRING,
    "_topic": t.STRING,
    "_partition": t.INT,
    "_offset": t.BIGINT,
    "_timestamp": t.TIMESTAMP,
}
START: Final = "startingOffsets"
MOST: Final = "maxOffsetsPerTrigger"
_NUMBERS: Final = (MOST, "minOffsetsPerTrigger")
_TOPICS: Final = ("subscribe", "subscribePattern", "assign")


def is_kafka(format_: str) -> bool:
    """Whether a format is Kafka's, in any case, as Spark sees it."""
    return format_.lower() == FORMAT


def option(options: Mapping[str, str], name: str) -> str | None:
    """Return an option. Spark does not tell upper from lower case in their names."""
    return next((v for k, v in options.items() if k.lower() == name.lower()), None)


def value_columns(schema: Schema) -> tuple[t.Field, ...]:
    """Return the columns that come from the value of a record."""
    return tuple(field for field in schema if field.name.lower() not in RECORD_COLUMNS)


def value_kind(options: Mapping[str, str]) -> str:
    """Return what the values of records are: json or text."""
    return (option(options, VALUE) or VALUES[0]).lower()


def check_kafka_source(owner: str, schema: Schema, options: Mapping[str, str]) -> None:
    """Check what is said about a topic to read.

    Raises:
        ConfigError: An option is missing or unknown, or a column is of the wrong type.
    """
    _check_servers(owner, options)
    named = [name for name in _TOPICS if option(options, name) is not None]
    if len(named) != 1:
        raise ConfigError(
            f"{owner}: kafka needs one of {', '.join(_TOPICS)}",
            "name the topics, as subscribe: readings",
        )
    for field in schema:
        wanted = RECORD_COLUMNS.get(field.name.lower(), field.type)
        if field.type != wanted:
            raise ConfigError(f"{owner}: column {field.name} is {wanted}, not {field.type}")
    _check_value(owner, schema, options)
    _check_numbers(owner, options)
    start = option(options, START)
    if start is not None and start.lower() not in ("earliest", "latest") and not _is_object(start):
        raise ConfigError(
            f"{owner}: {START} {start[:40]!r} is not known",
            'write earliest, latest, or offsets as {"topic": {"0": 23}}',
        )


def _check_value(owner: str, schema: Schema, options: Mapping[str, str]) -> None:
    kind = value_kind(options)
    if kind not in VALUES:
        raise ConfigError(f"{owner}: value {kind[:40]!r} is not known", "use json or text")
    if kind == "text" and [field.type for field in value_columns(schema)] != [t.STRING]:
        raise ConfigError(
            f"{owner}: a value that is text needs one column of STRING",
            f"beside it there may be {', '.join(RECORD_COLUMNS)}",
        )


def _check_numbers(owner: str, options: Mapping[str, str]) -> None:
    for name in _NUMBERS:
        text = option(options, name)
        if text is not None and not (text.isascii() and text.isdigit() and int(text) > 0):
            raise ConfigError(f"{owner}: {name} is a whole number above 0, not {text[:40]!r}")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def check_kafka_sink(options: Mapping[str, str]) -> None:
    """Check what is said about a topic to write to.

    Raises:
        ConfigError: An option is missing.
    """
    _check_servers("a kafka sink", options)
    if not option(options, TOPIC):
        raise ConfigError("a kafka sink needs a topic", "name it in its options, as topic: answers")


def _check_servers(owner: str, options: Mapping[str, str]) -> None:
    if not option(options, SERVERS):
        raise ConfigError(
            f"{owner}: kafka needs {SERVERS}", f"say where it is, as {SERVERS}: localhost:9092"
        )
