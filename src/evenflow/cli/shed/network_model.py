"""The network file as data: every key there is, its type and its default."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from evenflow.base.names import check_name
from evenflow.errors import ConfigError

VERSION = 1


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _name(kind: str) -> AfterValidator:
    return AfterValidator(lambda name: check_name(kind, name))


class NodeModel(_Keys):
    """A place that runs operators."""

    capacity: float = Field(description="Load it may carry, in processor-seconds per second.")


class NetworkOperatorModel(_Keys):
    """One step of processing."""

    node: str = Field(description="Where it runs.")
    inputs: list[str] = Field(
        description="Operators or input streams; a name that is no operator is an input stream."
    )
    cost: float = Field(description="Processor-seconds per arriving tuple.")
    selectivity: float = Field(
        1.0, description="Tuples out per tuple in; of a join, the share of pairs that match."
    )
    kind: Literal["filter", "union", "join", "aggregate"] = Field(
        "filter", description="What it does; gates before an aggregate drop whole windows."
    )
    windows: list[float] = Field(
        default_factory=list, description="Of a join: tuples in its windows, as its inputs."
    )
    shed: Literal["never"] | None = Field(None, description="No gate may stand before it.")


class NetworkQueryModel(_Keys):
    """A named output."""

    output: str = Field(description="The operator whose tuples are its answers.")
    weight: float = Field(1.0, description="How much a tuple of it is worth.")
    floor: float = Field(
        0.0, description="Share of the throughput without drops that it always has, 0 to 1."
    )


class RateModel(_Keys):
    """How likely rates of an input are, for solver-w."""

    exponential: float | None = Field(None, description="Mean of an exponential distribution.")
    histogram: list[list[float]] | None = Field(
        None, description="Bins: where each begins, and how likely it is."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> RateModel:
        if (self.exponential is None) == (self.histogram is None):
            raise ConfigError("should have either exponential or histogram")
        return self


class NetworkModel(_Keys):
    """A network file."""

    model_config = ConfigDict(title="Evenflow network file")

    evenflow: Literal[1] = Field(description="Version of the file's format.")
    nodes: dict[Annotated[str, _name("node")], NodeModel] = Field(description="Nodes, by name.")
    operators: dict[Annotated[str, _name("operator")], NetworkOperatorModel] = Field(
        description="Operators, by name."
    )
    queries: dict[Annotated[str, _name("query")], NetworkQueryModel] = Field(
        description="Queries, by name."
    )
    rates: dict[str, RateModel] = Field(
        default_factory=dict, description="Workload of solver-w, by input."
    )
