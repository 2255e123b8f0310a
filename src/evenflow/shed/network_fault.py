"""Every way in which a network can be wrong, each told with its place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from evenflow.base.names import check_name
from evenflow.errors import ConfigError, NetworkError
from evenflow.shed.dag import cycle_of
from evenflow.shed.element import OperatorKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenflow.shed.element import Operator, Query
    from evenflow.shed.network import Network

Place = tuple[str | int, ...]

MOST_TEXT = 40


def network_faults(network: Network) -> list[NetworkError]:
    """Return all faults; those that follow from others are left out."""
    faults = [*_names(network), *_nodes(network)]
    for name, operator in network.operators.items():
        faults += _operator(network, name, operator)
    for name, query in network.queries.items():
        faults += _query(network, name, query)
    faults += _shape(network)
    return faults


def number_fault(
    value: object, place: Place, least: float = 0.0, most: float = math.inf
) -> NetworkError | None:
    """Return what is wrong with a number: no number, NaN, infinite, or out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        shown = repr(value)[:MOST_TEXT]
        return NetworkError("number.invalid", f"should be a number, not {shown}", place)
    if not math.isfinite(value):
        return NetworkError("number.invalid", f"should be finite, not {value}", place)
    if value < least:
        wanted = "negative" if least == 0.0 else f"below {least:g}"
        return NetworkError("number.invalid", f"must not be {wanted}, is {value:g}", place)
    if value > most:
        return NetworkError("number.invalid", f"must not be above {most:g}, is {value:g}", place)
    return None


def _numbers(*found: NetworkError | None) -> list[NetworkError]:
    return [fault for fault in found if fault is not None]


def _names(network: Network) -> Iterator[NetworkError]:
    streams = {name for each in network.operators.values() for name in each.inputs}
    for section, kind, names in (
        ("nodes", "node", network.nodes),
        ("operators", "operator", network.operators),
        ("operators", "input", sorted(map(str, streams - set(network.operators)))),
        ("queries", "query", network.queries),
    ):
        for name in names:
            try:
                check_name(kind, name)
            except ConfigError as exc:
                yield NetworkError("name.invalid", exc.message, (section,), exc.hint)
    for name in network.queries:
        if name in network.operators or name in streams:
            yield NetworkError(
                "name.taken", "is the name of an operator or input too", ("queries", name)
            )


def _nodes(network: Network) -> Iterator[NetworkError]:
    for name, node in network.nodes.items():
        yield from _numbers(number_fault(node.capacity, ("nodes", name, "capacity")))


def _operator(network: Network, name: str, operator: Operator) -> Iterator[NetworkError]:
    place: Place = ("operators", name)
    yield from _numbers(
        number_fault(operator.cost, (*place, "cost")),
        number_fault(operator.selectivity, (*place, "selectivity")),
    )
    if operator.node not in network.nodes:
        yield NetworkError(
            "node.unknown",
            f"node {str(operator.node)[:MOST_TEXT]} is not known",
            (*place, "node"),
            f"there are {', '.join(network.nodes)}" if network.nodes else "add it to nodes",
        )
    yield from _operator_inputs(place, operator)


def _operator_inputs(place: Place, operator: Operator) -> Iterator[NetworkError]:
    count, kind = len(operator.inputs), operator.kind
    if count == 0:
        yield NetworkError("operator.unfed", "has no inputs", (*place, "inputs"))
    elif kind is OperatorKind.JOIN and count != 2:
        yield NetworkError(
            "operator.inputs", f"a join has two inputs, not {count}", (*place, "inputs")
        )
    elif kind in (OperatorKind.FILTER, OperatorKind.AGGREGATE) and count > 1:
        yield NetworkError(
            "operator.inputs",
            f"this kind of operator has one input, not {count}",
            (*place, "inputs"),
            "its kind may be union or join",
        )
    if kind is OperatorKind.JOIN and len(operator.windows) != 2:
        yield NetworkError(
            "operator.windows", "a join needs two windows, in tuples", (*place, "windows")
        )
    elif kind is not OperatorKind.JOIN and operator.windows:
        yield NetworkError("operator.windows", "only a join has windows", (*place, "windows"))
    for index, window in enumerate(operator.windows):
        yield from _numbers(number_fault(window, (*place, "windows", index)))


def _query(network: Network, name: str, query: Query) -> Iterator[NetworkError]:
    place: Place = ("queries", name)
    weight = number_fault(query.weight, (*place, "weight"))
    if weight is None and query.weight == 0:
        weight = NetworkError("number.invalid", "must be above 0", (*place, "weight"))
    yield from _numbers(weight, number_fault(query.floor, (*place, "floor"), most=1.0))
    if query.output not in network.operators:
        yield NetworkError(
            "query.unfed",
            f"nobody feeds it: {str(query.output)[:MOST_TEXT]} is no operator",
            (*place, "output"),
        )


def _shape(network: Network) -> Iterator[NetworkError]:
    for section, found in (("operators", network.operators), ("queries", network.queries)):
        if not found:
            yield NetworkError("network.empty", f"there are no {section}", (section,))
    cycle = cycle_of({name: each.inputs for name, each in network.operators.items()})
    if cycle:
        # The way round is told against the arcs; people read along them.
        way = " -> ".join(reversed(cycle))
        yield NetworkError("network.cycle", f"tuples go round: {way}", ("operators", cycle[0]))
