"""What is reported of a surge, out of answers and batches. Pure.

- *Age* of an answer: when the file that holds it became visible, less the scheduled arrival of the
  tuple that closed its window. An answer that should be there and is not, because nothing was
  dropped, is as old as it was when the surge was over.
- *Reaction*: from the beginning of the surge to the end of the first interval, after the first
  answer that was older than its deadline, in which answers became visible and all were in time. 0
  if no answer was late, None if there was no such interval until the surge was over.
- *Age after the reaction*: of all answers of the surge that became visible from then on.
- *Value*: the sum over queries of weight times the share of the answers that there were, of all
  windows within the surge; answers count that were visible a deadline after its end at the latest.
- *Optimum*: the greatest value at this rate by the true costs, with batches as long as the time
  between them.
- *Gates open*: intervals from the end of the surge to the first batch from which on no gate drops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.bench.figures import percentile
from evenflow.shed.linear.lp import Lp
from evenflow.shed.network import Network, Node, Operator, OperatorKind, Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenflow.bench.surge.schedule import Surge, Windows

_SOURCE, _NODE = "source", "machine"


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer: its window, key and count, and since when it is visible."""

    start_us: int
    key: int
    count: int
    at: float


@dataclass(frozen=True, slots=True)
class TrueCosts:
    """What the saturated run found, in seconds of the whole machine."""

    capacity: float
    """Tuples per second."""
    fixed: float
    """What a batch takes without tuples."""
    reading: float
    """Per tuple when all gates drop everything: reading, counting and the gates themselves."""
    own: Mapping[str, float]
    """Per tuple, by query: what it adds to that."""


@dataclass(frozen=True, slots=True)
class GatedBatch:
    """When a batch began, and whether a gate dropped something in it."""

    began: float
    shut: bool


def optimum(costs: TrueCosts, weights: Mapping[str, float], times: float, every: float) -> float:
    """Return the greatest value in a surge of so many times the capacity.

    Args:
        costs: The true ones.
        weights: By query.
        times: How many times the capacity arrives.
        every: Seconds per batch.
    """
    arriving = {_SOURCE: times * costs.capacity}
    reading = Operator(node=_NODE, inputs=(_SOURCE,), cost=costs.reading, never=True)
    branches = {
        name: Operator(node=_NODE, inputs=(_SOURCE,), cost=own, kind=OperatorKind.AGGREGATE)
        for name, own in costs.own.items()
    }
    room = max(0.0, 1.0 - costs.fixed / every)
    if times * costs.capacity * costs.reading >= room:
        return 0.0
    network = Network(
        nodes={_NODE: Node(capacity=room)},
        operators={"reading": reading, **{f"branch-{name}": op for name, op in branches.items()}},
        queries={
            name: Query(output=f"branch-{name}", weight=weight) for name, weight in weights.items()
        },
    )
    plan = Lp(network).plan(arriving)
    return sum(weights[name] * plan.throughput[name] for name in weights) / arriving[_SOURCE]


def value(
    answers: Mapping[str, Sequence[Seen]],
    weights: Mapping[str, float],
    surge: Surge,
    windows: Windows,
    deadline: float,
) -> float:
    """Return what the answers of a surge were worth."""
    starts = set(windows.between(surge.begin, surge.end))
    if not starts:
        return 0.0
    total = 0.0
    for name, weight in weights.items():
        kept = sum(
            1
            for each in answers[name]
            if each.start_us in starts and _counts(each, surge, deadline)
        )
        total += weight * kept / (len(starts) * windows.keys)
    return total


def _counts(answer: Seen, surge: Surge, deadline: float) -> bool:
    return answer.at <= surge.end + deadline


def ages(
    answers: Sequence[Seen], windows: Windows, begin: float, end: float
) -> list[tuple[float, float]]:
    """Return when answers became visible, and how old they were, of windows closed in a time."""
    return [
        (each.at, each.at - closed)
        for each in answers
        if begin <= (closed := windows.closing(each.start_us)) < end
    ]


def missing_ages(
    answers: Sequence[Seen], windows: Windows, begin: float, end: float
) -> list[tuple[float, float]]:
    """Return how old answers were at the end of a time that should be there and are not."""
    there = {(each.start_us, each.key) for each in answers if each.at <= end}
    lag = (windows.size_us + windows.delay_us) / 1_000_000
    return [
        (math.inf, end - windows.closing(start))
        for start in windows.between(begin - lag, end - lag + windows.size_us / 1_000_000)
        if begin <= windows.closing(start) < end
        for key in range(windows.keys)
        if (start, key) not in there
    ]


def reaction(
    seen: Sequence[tuple[float, float]], begin: float, end: float, every: float, deadline: float
) -> float | None:
    """Return how long it took until answers were in time again.

    Args:
        seen: When answers became visible, and how old they were.
        begin: Of the surge.
        end: Of the surge.
        every: Seconds per interval.
        deadline: Of all answers.
    """
    late = [at for at, age in seen if age > deadline]
    if not late:
        return 0.0
    interval = math.floor((min(late) - begin) / every) + 1 if min(late) < math.inf else math.inf
    while interval < math.inf and begin + (interval + 1) * every <= end:
        left = begin + interval * every
        within = [age for at, age in seen if left <= at < left + every]
        if within and max(within) <= deadline:
            return (interval + 1) * every
        interval += 1
    return None


def gates_open_after(batches: Sequence[GatedBatch], end: float, every: float) -> int | None:
    """Return after how many intervals all gates were open for good; None if they were not."""
    if not any(batch.shut for batch in batches):
        return 0
    last_shut = max(batch.began for batch in batches if batch.shut)
    opened = [batch.began for batch in batches if batch.began > last_shut]
    return max(0, math.ceil((min(opened) - end) / every)) if opened else None


def right_answers(
    answers: Sequence[Seen], surge: Surge, windows: Windows, until: int | None
) -> bool:
    """Whether all answers are those of the exact run, and none is there twice.

    Args:
        answers: Of one query.
        surge: The stream.
        windows: The windows.
        until: The first tuple that was not read.
    """
    if len({(each.start_us, each.key) for each in answers}) < len(answers):
        return False
    return all(
        each.count == windows.count(surge, each.start_us, each.key, until) for each in answers
    )


def counts_add_up(counts: Mapping[str, Any], tuples: int, answered: int) -> bool:
    """Whether the counts of a query are those of all tuples, each settled once.

    Args:
        counts: As the status has them.
        tuples: How many were read.
        answered: How many are in the answers that are there.
    """
    settled = sum(counts[name] for name in ("contributed", "late", "filtered", "rejected", "open"))
    shed = sum(counts["shed"].values())
    return bool(counts["in"] == tuples == settled + shed and counts["contributed"] == answered)


def rounded(value_: float | None, digits: int = 3) -> float | None:
    """Return a figure as it is reported."""
    return None if value_ is None or not math.isfinite(value_) else round(value_, digits)


def high(values: Sequence[float], share: float) -> float | None:
    """Return a percentile, None of nothing."""
    return percentile(values, share) if values else None
