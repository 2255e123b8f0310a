"""How likely rates are (section 5.2): exponential, as a histogram says, or all equally."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from evenflow.errors import NetworkError
from evenflow.shed.network_fault import number_fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Distribution(Protocol):
    """How likely rates of one input are."""

    def below(self, rate: float, most: float) -> float:
        """Return the probability of rates below one, where none above `most` is planned for."""
        ...


@dataclass(frozen=True)
class Alike:
    """All rates up to the greatest are equally likely."""

    def below(self, rate: float, most: float) -> float:
        """Return the share of rates below one."""
        return min(1.0, rate / most) if most > 0 else 1.0


@dataclass(frozen=True)
class Exponential:
    """Rates are exponentially distributed.

    The paper's parameter: as it grows, so do rates (section 8.2.2). It is their mean.
    """

    mean: float

    def below(self, rate: float, most: float) -> float:  # noqa: ARG002  # all distributions alike
        """Return the probability of rates below one."""
        return -math.expm1(-rate / self.mean)


@dataclass(frozen=True)
class Histogram:
    """Rates as a trace had them."""

    bins: tuple[tuple[float, float], ...]
    """Where each bin begins, and how likely its rates are; a bin ends where the next begins, and
    the last one at the greatest rate. Probabilities need not sum to 1: their ratios count."""

    def below(self, rate: float, most: float) -> float:
        """Return the probability of rates below one."""
        ends = [start for start, _ in self.bins[1:]] + [max(most, self.bins[-1][0])]
        found = 0.0
        for (start, likely), end in zip(self.bins, ends, strict=True):
            if rate > start:
                inside = (min(rate, end) - start) / (end - start) if end > start else 1.0
                found += likely * inside
        return found / sum(likely for _, likely in self.bins)


@dataclass(frozen=True)
class Workload:
    """How likely rates of all inputs are. Inputs vary independently of one another."""

    by_input: Mapping[str, Distribution] = field(default_factory=dict)
    """Inputs that are not here have all rates equally."""

    def probability(
        self,
        names: Sequence[str],
        low: Sequence[float],
        high: Sequence[float],
        most: Sequence[float],
    ) -> float:
        """Return how likely rates are in a box; rates above the greatest count as the greatest."""
        found = 1.0
        for name, start, end, top in zip(names, low, high, most, strict=True):
            distribution = self.by_input.get(name, Alike())
            above = 1.0 if end >= top else distribution.below(end, top)
            found *= above - distribution.below(start, top)
        return found


def exponential(mean: object, place: tuple[str | int, ...]) -> Exponential:
    """Return an exponential distribution.

    Raises:
        NetworkError: The mean is no positive number.
    """
    fault = number_fault(mean, place)
    if fault is not None:
        raise fault
    assert isinstance(mean, int | float)
    if mean == 0:
        raise NetworkError("number.invalid", "must be above 0", place)
    return Exponential(float(mean))


def histogram(bins: Sequence[Sequence[float]], place: tuple[str | int, ...]) -> Histogram:
    """Return a histogram.

    Raises:
        NetworkError: A number is wrong, bins do not ascend, or nothing is likely.
    """
    for index, each in enumerate(bins):
        if len(each) != 2:
            raise NetworkError("workload.invalid", "a bin is [rate, probability]", (*place, index))
        for part, value in enumerate(each):
            fault = number_fault(value, (*place, index, part))
            if fault is not None:
                raise fault
    if any(first[0] >= second[0] for first, second in pairwise(bins)):
        raise NetworkError("workload.invalid", "bins must ascend", place)
    if not sum(each[1] for each in bins) > 0:
        raise NetworkError("workload.invalid", "no bin is likely", place)
    return Histogram(tuple((float(start), float(likely)) for start, likely in bins))
