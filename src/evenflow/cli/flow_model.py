"""The flow file as data: every key there is, its type and its default.

The JSON Schema and the table in docs/flow-file.md say the same; a test compares the three.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from evenflow.base.duration import parse_duration
from evenflow.base.names import check_name
from evenflow.errors import ConfigError
from evenflow.model.schema import parse_schema

VERSION = 1


def _seconds(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError("should be a duration", "write it as 5 seconds")
    return parse_duration(value)


def _watermark(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError("should be a duration", "write it as 10 seconds")
    return value


def _option(value: Any) -> Any:
    if not isinstance(value, str | int | float | bool):
        raise ConfigError("should be text, a number, true or false", "put it in quotes")
    return value


def _columns(text: str) -> str:
    parse_schema(text)
    return text


def _name(kind: str) -> AfterValidator:
    return AfterValidator(lambda name: check_name(kind, name))


_DURATION_SCHEMA = WithJsonSchema({"type": ["string", "number"], "examples": ["5 seconds"]})
_OPTION_SCHEMA = WithJsonSchema({"type": ["string", "number", "boolean"]})

Duration = Annotated[float, BeforeValidator(_seconds), _DURATION_SCHEMA]
Watermark = Annotated[Any, AfterValidator(_watermark), _DURATION_SCHEMA]
Options = dict[str, Annotated[Any, AfterValidator(_option), _OPTION_SCHEMA]]
Columns = Annotated[str, AfterValidator(_columns)]


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SourceModel(_Keys):
    """Where a stream enters."""

    format: str = Field(
        description="A streaming format of Spark (kafka, json, parquet, delta ...), or ours: "
        "meters, constant, poisson, burst, replay."
    )
    options: Options = Field(
        default_factory=dict, description="The format's options. A relative path is the file's."
    )
    columns: Columns | None = Field(
        None,
        alias="schema",
        description="The columns, as `id BIGINT, ts TIMESTAMP`. Ours have columns of their own, "
        "except replay.",
    )
    event_time: str | None = Field(
        None, description="The TIMESTAMP column by which windows are cut."
    )
    watermark: Watermark | None = Field(
        None, description="How far event times may lag behind the newest. Needed with event_time."
    )
    id: str | None = Field(
        None, description="A column of whole numbers that tells tuples apart; else all columns do."
    )


class TableModel(_Keys):
    """Finite data to join with."""

    format: str = Field(description="A batch format of Spark: parquet, csv, json ...")
    path: str | None = Field(None, description="Where it lies, relative to the file.")
    options: Options = Field(default_factory=dict, description="The format's options.")
    columns: Columns | None = Field(
        None, alias="schema", description="The columns. Parquet has its own; the others need it."
    )


class SinkModel(_Keys):
    """Where answers go."""

    format: str = Field(description="parquet, json, csv, kafka, console or memory.")
    path: str | None = Field(
        None, description="Directory of a file format, relative to the file. One query each."
    )
    options: Options = Field(
        default_factory=dict,
        description="Of kafka: kafka.bootstrap.servers, topic, key, and those of Spark's sink.",
    )


class QueryModel(_Keys):
    """A named output of the flow."""

    sql: str = Field(description="One SELECT, or several with UNION ALL. See docs/sql.md.")
    weight: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="How much its answers are worth under overload.",
    )
    floor: float = Field(
        0.0, ge=0, le=1, description="Share of its throughput that is never given up."
    )
    every: Duration = Field(1.0, description="How often it should answer.")
    deadline: Duration | None = Field(
        None, description="How old an answer may be when it is visible."
    )
    on_error: Literal["skip", "quarantine"] = Field(
        "skip",
        description="What a tuple that cannot be computed does: it is skipped and "
        "counted, or stops this query.",
    )
    sink: SinkModel | None = Field(None, description="Where its answers go.")
    sinks: list[SinkModel] = Field(
        default_factory=list, description="Several sinks, instead of `sink`."
    )

    @model_validator(mode="after")
    def _one_way_of_sinks(self) -> QueryModel:
        if self.sink is not None and self.sinks:
            raise ConfigError("has both sink and sinks", "put all of them into sinks")
        return self


class FlowModel(_Keys):
    """A flow file."""

    model_config = ConfigDict(title="Evenflow flow file")

    evenflow: Literal[1] = Field(description="Version of the file's format.")
    flow: Annotated[str, _name("flow")] = Field(description="The flow's name.")
    state: str | None = Field(
        None,
        description="Directory of checkpoints, manifests and counters, relative to the file; "
        ".evenflow/NAME if not given. One running process at a time.",
    )
    sources: dict[Annotated[str, _name("source")], SourceModel] = Field(
        min_length=1, description="Streams, by name."
    )
    tables: dict[Annotated[str, _name("table")], TableModel] = Field(
        default_factory=dict, description="Finite data to join with, by name."
    )
    queries: dict[Annotated[str, _name("query")], QueryModel] = Field(
        min_length=1, description="Queries, by name."
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of flow files."""
    schema = FlowModel.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
