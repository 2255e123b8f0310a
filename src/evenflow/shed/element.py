"""What a network is made of: nodes, operators, queries and arcs. Frozen data without checks.

`Network` checks them together, because most faults are between them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OperatorKind(enum.Enum):
    """What an operator does with its inputs."""

    FILTER = "filter"
    """Passes a share of its only input; maps are filters of selectivity 1."""
    UNION = "union"
    JOIN = "join"
    """Of two inputs, with count windows: section 3.3."""
    AGGREGATE = "aggregate"
    """As a filter; gates before it drop whole windows."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A place that runs operators."""

    capacity: float
    """The load it may carry, in processor-seconds per second."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One step of processing, as planners see it."""

    node: str
    inputs: tuple[str, ...]
    """Operators or input streams; a name that is no operator is an input stream."""
    cost: float
    """Processor-seconds per arriving tuple, whichever input it comes from."""
    selectivity: float = 1.0
    """Tuples out per tuple in; of a join, the share of the cartesian product that matches."""
    kind: OperatorKind = OperatorKind.FILTER
    windows: tuple[float, ...] = ()
    """Of a join: tuples that the windows hold, one for each input."""
    never: bool = False
    """`shed: never`: no gate may stand anywhere before it."""

    def gain(self, port: int) -> float:
        """Tuples that come out for each tuple that arrives at an input."""
        if self.kind is OperatorKind.JOIN:
            return self.selectivity * self.windows[1 - port]
        return self.selectivity


@dataclass(frozen=True, kw_only=True)
class Query:
    """A named output."""

    output: str
    """The operator whose tuples are its answers."""
    weight: float = 1.0
    floor: float = 0.0
    """Share of the throughput it would have without drops that it always has."""


@dataclass(frozen=True, order=True)
class Arc:
    """What leads from an input stream or operator to an operator or query."""

    producer: str
    consumer: str
    port: int = 0
    """Which input of the consumer it is."""

    @property
    def name(self) -> str:
        """Return `a1->b1`."""
        return f"{self.producer}->{self.consumer}"
