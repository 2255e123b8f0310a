"""Dividing the rate space (section 5.1): boxes of which each can use one plan.

The paper gives all rates of a box the plan of its lowest corner, scaled down to it. That bounds the
error by the values of the lowest and the highest corner, but where the lowest rate of an input is 0
its tuples would all be dropped, and the error would stay whole however small the box. So a box has
an anchor: the lowest rate of an input, or the highest if the lowest is 0. Gates keep the fractions
that are optimal at the anchor; inputs whose lowest rate is not 0 are scaled down to it. Loads grow
with rates, so that this fits everywhere in the box.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evenflow.shed.program import Numbers, Program

SMALLEST = 2.0**-40
"""Boxes are not divided below this share of the space: there is no such rate."""


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimum at some rates."""

    value: float
    keep: tuple[float, ...]
    """By gate of the program."""
    bound_constant: float
    bound_by_rate: Numbers
    """The value at any rates is at most constant + by_rate . rates: the dual solution."""


class Optima(Protocol):
    """Gives optima."""

    def at(self, rates: Numbers) -> Solution:
        """Return the optimum at given rates."""
        ...


@dataclass(eq=False)
class Box:
    """Rates from `low` to `high`, and what they use."""

    low: Numbers
    high: Numbers
    plan: int | None = None
    """Its plan's number; None if nothing needs to be dropped in it, or if it is divided."""
    error: float = 0.0
    """Share of the optimal value that is missed at most."""
    children: list[Box] = field(default_factory=list)

    def anchor(self) -> Numbers:
        """Return the rates at which the plan of this box is optimal."""
        return np.where(self.low > 0, self.low, self.high)

    def divided(self) -> Iterator[Box]:
        """Return the halves in all directions, in the order of `child_of`."""
        middle = (self.low + self.high) / 2
        for upper in itertools.product((False, True), repeat=len(self.low)):
            yield Box(np.where(upper, middle, self.low), np.where(upper, self.high, middle))

    def child_of(self, rates: Numbers) -> Box:
        """Return the half that rates are in."""
        middle = (self.low + self.high) / 2
        place = 0
        for upper in (rates > middle).tolist():
            place = 2 * place + upper
        return self.children[place]


class Division:
    """Divides the rate space, worst box first, until what is asked for is reached."""

    def __init__(
        self,
        program: Program,
        optima: Optima,
        highest: Numbers,
        weight: Callable[[Box], float],
        most_boxes: int,
    ) -> None:
        """Begin with one box.

        Args:
            program: Of the fragment.
            optima: Where optima come from.
            highest: The greatest rates.
            weight: What a box's error counts for: 1, or its probability.
            most_boxes: Where dividing ends whatever the error.
        """
        self._program = program
        self._optima = optima
        self._weight = weight
        self._most = most_boxes
        self._highest = highest
        self.plans: list[tuple[float, ...]] = []
        self._numbers: dict[tuple[float, ...], int] = {}
        self._waiting: list[tuple[float, int, Box]] = []
        self._order = itertools.count()
        self.boxes = 1
        self.expected = 0.0
        """Sum of errors, each times its box's weight."""
        self.root = Box(np.zeros(len(highest)), highest)
        self._settle(self.root)

    def until_worst(self, epsilon: float) -> None:
        """Divide until no box misses more."""
        while self._waiting and self._waiting[0][2].error > epsilon and self._may_go_on():
            self._divide_first()

    def until_expected(self, epsilon: float) -> None:
        """Divide until errors times weights sum to no more."""
        while self._waiting and self.expected > epsilon and self._may_go_on():
            self._divide_first()

    def _may_go_on(self) -> bool:
        return self.boxes + (1 << len(self._highest)) <= self._most

    def _divide_first(self) -> None:
        _, _, box = heapq.heappop(self._waiting)
        self.expected = max(0.0, self.expected - box.error * self._weight(box))
        box.plan, box.error = None, 0.0
        box.children = list(box.divided())
        self.boxes += len(box.children) - 1
        for child in box.children:
            self._settle(child)

    def _settle(self, box: Box) -> None:
        """Give a box its plan and its error."""
        if self._program.fits(box.high):
            return
        anchor = self._optima.at(box.anchor())
        box.plan = self._numbers.setdefault(anchor.keep, len(self.plans))
        if box.plan == len(self.plans):
            self.plans.append(anchor.keep)
        box.error = self._error(box, anchor)
        weighed = box.error * self._weight(box)
        self.expected += weighed
        wide = bool(np.any(box.high - box.low > self._highest * SMALLEST))
        if weighed > 0 and wide:
            heapq.heappush(self._waiting, (-weighed, next(self._order), box))

    def _error(self, box: Box, anchor: Solution) -> float:
        """Return what is missed at most, by the better of two bounds.

        One is the paper's: no rates of the box are worth more than the highest. The other is the
        dual solution of the anchor, which is linear in the rates, as the value of the plan is: the
        least ratio of the two is at a corner.
        """
        if self._optima.at(box.high).value <= 0.0:
            return 0.0
        per_input = self._value_by_input(anchor.keep)
        from_zero = box.low <= 0
        fixed = float(per_input[~from_zero] @ box.low[~from_zero])
        plain = 1.0 - fixed / self._optima.at(box.high).value
        bound = anchor.bound_constant + float(
            anchor.bound_by_rate[~from_zero] @ box.high[~from_zero]
        )
        ratio = least_ratio(
            (fixed, bound),
            (per_input * box.high)[from_zero].tolist(),
            (anchor.bound_by_rate * box.high)[from_zero].tolist(),
        )
        return min(1.0, max(0.0, min(plain, 1.0 - ratio)))

    def _value_by_input(self, keep: tuple[float, ...]) -> Numbers:
        """Return what one tuple per second of each input brings, behind gates."""
        program = self._program
        flow = np.zeros_like(program.supply)
        for row, kept in enumerate(keep):
            if kept > 0.0:
                flow[row] = kept * (program.supply[row] + program.arriving[row] @ flow)
        worth: Numbers = program.value @ flow
        return worth


def leaves_of(root: Box) -> Iterator[Box]:
    """Return all boxes that are not divided."""
    stack = [root]
    while stack:
        box = stack.pop()
        stack += box.children
        if not box.children:
            yield box


def least_ratio(start: tuple[float, float], gains: list[float], bounds: list[float]) -> float:
    """Return the least (start + sum of some gains) / (start + sum of their bounds).

    Taken by rising ratio of their own, each makes the whole smaller as long as its own ratio is.
    Without a start, as little of one as one likes can be taken, so that its own ratio counts.
    """
    over, under = start
    ratio = over / under if under > 0 else np.inf
    pairs = zip(gains, bounds, strict=True)
    paired = [(gain / bound, gain, bound) for gain, bound in pairs if bound > 0]
    for own, gain, bound in sorted(paired):
        if own >= ratio:
            break
        over, under = over + gain, under + bound
        ratio = over / under
    return 1.0 if ratio == np.inf else float(ratio)
