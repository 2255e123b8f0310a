"""Operators: the steps of a flow, as immutable values that know their structural hash.

Two operators with the same hash do the same to the same input, so one of them is enough. The
contract every operator fulfils is that of `Operator`.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.model import types as t
from evenflow.model.schema import Schema

if TYPE_CHECKING:
    from evenflow.model.expression import AggregateCall, Expression


class State(enum.Enum):
    """What an operator remembers between batches."""

    NONE = "none"
    WINDOWED = "windowed"


class Shed(enum.Enum):
    """How tuples before an operator may be dropped under overload."""

    TUPLE = "tuple"
    WINDOW = "window"
    KEY = "key"
    NEVER = "never"


class EventTime(enum.Enum):
    """What an operator does to the event time of its input."""

    KEEPS = "keeps"
    ENDS = "ends"
    """The output has no event time: answers of windows, or a projection without it."""


class Operator(Protocol):
    """The contract."""

    @property
    def kind(self) -> str:
        """The word for it: source, where, select, union, join, aggregate, apply."""
        ...

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Operators that feed it."""
        ...

    @property
    def schema(self) -> Schema:
        """The columns that leave it."""
        ...

    @property
    def event_time(self) -> str | None:
        """The output column that carries event time, if there is one."""
        ...

    @property
    def treats_event_time(self) -> EventTime:
        """What it does to event time."""
        ...

    @property
    def state(self) -> State:
        """What it remembers."""
        ...

    @property
    def shed(self) -> Shed:
        """How tuples before it may be dropped."""
        ...

    @property
    def hash(self) -> str:
        """Equal if and only if the operators are interchangeable."""
        ...


class _Hashed:
    """The structural hash: over the class and all fields, inputs by their own hashes."""

    @cached_property
    def hash(self) -> str:
        """Hex digits; stable over processes and machines."""
        return hashlib.sha256(_canonical_text(self).encode()).hexdigest()[:24]


_FIELDS: dict[type, tuple[str, ...] | None] = {}


def _field_names(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a dataclass; None for other types. Asked for every part of a hash."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None
    return _FIELDS[kind]


@cache
def _type_text(type_: t.DataType) -> str:
    return repr(type_)


def _canonical_text(value: _Hashed) -> str:
    parts: list[str] = []
    _write_fields(value, _field_names(type(value)) or (), parts)
    return "".join(parts)


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, tuple):
        parts.append("[")
        for each in value:
            _write(each, parts)
            parts.append(",")
        parts.append("]")
    elif isinstance(value, t.DataType):
        parts.append(_type_text(value))
    elif isinstance(value, _Hashed):
        parts.append(value.hash)
    elif isinstance(value, enum.Enum):
        parts.append(value.value)
    elif (names := _field_names(type(value))) is not None:
        _write_fields(value, names, parts)
    else:
        parts.append(f"{type(value).__name__}:{value!r}")


def _write_fields(value: Any, names: tuple[str, ...], parts: list[str]) -> None:
    parts.append(f"{type(value).__name__}(")
    for name in names:
        parts.append(f"{name}=")
        _write(getattr(value, name), parts)
        parts.append(";")
    parts.append(")")


@dataclass(frozen=True)
class Source(_Hashed):
    """Where a stream enters. `identity` distinguishes sources of one name and schema."""

    name: str
    schema: Schema
    event_time: str | None
    watermark_us: int
    """How far event times may lag behind the newest one, in microseconds."""
    identity: str
    """Format and options, or the object's identity, so that equal text means equal data."""
    kind = "source"
    inputs: tuple[Operator, ...] = ()
    treats_event_time = EventTime.KEEPS
    state = State.NONE
    shed = Shed.TUPLE


@dataclass(frozen=True)
class Where(_Hashed):
    """Passes the tuples for which the predicate is TRUE."""

    input: Operator
    predicate: Expression
    kind = "where"
    treats_event_time = EventTime.KEEPS
    state = State.NONE
    shed = Shed.TUPLE

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The one input."""
        return (self.input,)

    @property
    def schema(self) -> Schema:
        """That of the input."""
        return self.input.schema

    @property
    def event_time(self) -> str | None:
        """That of the input."""
        return self.input.event_time


@dataclass(frozen=True)
class Select(_Hashed):
    """Computes named columns from each tuple."""

    input: Operator
    columns: tuple[tuple[str, Expression], ...]
    event_time: str | None
    """Set when one of the columns is the input's event time, unchanged."""
    kind = "select"
    state = State.NONE
    shed = Shed.TUPLE

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The one input."""
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        """The named columns."""
        return Schema(tuple(t.Field(name, e.type) for name, e in self.columns))

    @property
    def treats_event_time(self) -> EventTime:
        """Kept if it is selected as it is."""
        return EventTime.KEEPS if self.event_time else EventTime.ENDS


@dataclass(frozen=True)
class Union(_Hashed):
    """All tuples of all inputs, which have the same column types. Names are the first's."""

    inputs: tuple[Operator, ...]
    event_time: str | None
    kind = "union"
    treats_event_time = EventTime.KEEPS
    state = State.NONE
    shed = Shed.TUPLE

    @property
    def schema(self) -> Schema:
        """That of the first input."""
        return self.inputs[0].schema


class JoinType(enum.Enum):
    """Which tuples of the stream survive a join with a table."""

    INNER = "inner"
    LEFT = "left"


@dataclass(frozen=True)
class Table(_Hashed):
    """Finite data to join with. Not a stream: it has no event time and is read whole."""

    name: str
    schema: Schema
    identity: str
    kind = "table"
    inputs: tuple[Operator, ...] = ()
    event_time: str | None = None
    treats_event_time = EventTime.ENDS
    state = State.NONE
    shed = Shed.NEVER


@dataclass(frozen=True)
class Join(_Hashed):
    """Each tuple of the stream with the rows of a table whose keys are equal to its own.

    The output has the stream's columns, then the table's under `table_prefix`; the binder
    resolves names that users write to these.
    """

    input: Operator
    table: Table
    join_type: JoinType
    keys: tuple[tuple[Expression, str], ...]
    """Pairs of a stream expression and the table's column that must be equal to it."""
    table_prefix: str
    kind = "join"
    treats_event_time = EventTime.KEEPS
    state = State.NONE
    shed = Shed.TUPLE

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Stream first, then table."""
        return (self.input, self.table)

    @cached_property
    def schema(self) -> Schema:
        """Stream columns, then table columns with their prefix."""
        right = (t.Field(self.table_prefix + f.name, f.type) for f in self.table.schema)
        return Schema((*self.input.schema, *right))

    @property
    def event_time(self) -> str | None:
        """The stream's."""
        return self.input.event_time


@dataclass(frozen=True, slots=True)
class Window:
    """Which windows of event time a tuple belongs to, in microseconds, aligned to the epoch."""

    size_us: int
    slide_us: int
    """Equal to the size for tumbling windows."""

    @property
    def per_tuple(self) -> int:
        """The largest number of windows that one tuple can be in."""
        return -(-self.size_us // self.slide_us)


@dataclass(frozen=True)
class Aggregate(_Hashed):
    """Groups by keys and window; one answer per group when the window closes.

    With no aggregates it is DISTINCT of the keys per window.
    """

    input: Operator
    keys: tuple[tuple[str, Expression], ...]
    window: Window
    window_name: str
    """Output column of type STRUCT<start, end>."""
    aggregates: tuple[tuple[str, AggregateCall], ...]
    kind = "aggregate"
    event_time: str | None = None
    treats_event_time = EventTime.ENDS
    state = State.WINDOWED
    shed = Shed.WINDOW

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The one input."""
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        """Keys, window, aggregates."""
        keys = (t.Field(name, e.type) for name, e in self.keys)
        values = (t.Field(name, a.type) for name, a in self.aggregates)
        return Schema((*keys, t.Field(self.window_name, t.WINDOW), *values))


@dataclass(frozen=True)
class Apply(_Hashed):
    """A user's `DataFrame -> DataFrame` function, shared by its identity and arguments."""

    input: Operator
    function: str
    """`module.qualname#serial` of the function; the flow keeps the object itself."""
    arguments: str
    """Canonical text of the arguments it is called with."""
    schema: Schema
    event_time: str | None
    shed: Shed = Shed.NEVER
    kind = "apply"
    treats_event_time = EventTime.KEEPS
    state = State.NONE

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The one input."""
        return (self.input,)


def upstream(operator: Operator) -> tuple[Operator, ...]:
    """Return the operator and all that feed it, inputs before users, each once."""
    found: dict[str, Operator] = {}
    seen = {id(operator)}
    pending = [(operator, iter(operator.inputs))]
    while pending:  # no recursion: inputs are hashed before what reads them
        current, rest = pending[-1]
        step = next((each for each in rest if id(each) not in seen), None)
        if step is not None:
            seen.add(id(step))
            pending.append((step, iter(step.inputs)))
        else:
            found.setdefault(current.hash, current)
            pending.pop()
    return tuple(found.values())


def is_grouped(operator: Operator) -> bool:
    """Whether its tuples are answers of windows, or made from such."""
    return any(isinstance(each, Aggregate) for each in upstream(operator))
