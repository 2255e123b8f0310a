"""Going through every world that a small system can get into, nearest first."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

W = TypeVar("W")


class Step(Protocol[W]):
    """How one world becomes another; raises AssertionError if it must not."""

    def __call__(self, world: W) -> W:
        """Return the world after the step."""
        ...


def visit_all(
    start: W,
    steps: Callable[[W], Iterable[tuple[str, Step[W]]]],
    shape: Callable[[W], Hashable],
    most: int,
) -> tuple[int, bool]:
    """Visit worlds by the number of steps that lead to them; worlds of equal shape once.

    Returns how many were visited, and whether there are no others.

    Raises:
        AssertionError: A step failed; the message has the shortest way to it.
    """
    seen = {shape(start)}
    waiting: deque[tuple[W, tuple[str, ...]]] = deque([(start, ())])
    while waiting and len(seen) < most:
        world, way = waiting.popleft()
        for name, step in steps(world):
            try:
                following = step(world)
            except AssertionError as exc:
                raise AssertionError(f"{' > '.join((*way, name))}: {exc}") from exc
            known = shape(following)
            if known not in seen:
                seen.add(known)
                waiting.append((following, (*way, name)))
    return len(seen), not waiting
