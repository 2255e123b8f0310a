"""How many changes of gates batches may get in a minute."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenflow.control.facts import FlowFacts

MINUTE = 60.0


class Budget:
    """Counts changes of the last minute that a batch has had, or may still get.

    A surge shows bit by bit while a batch is under way; of gates that are set meanwhile only the
    last count. So a change takes the place of the one before it if no batch has had that.
    """

    def __init__(self, most: int) -> None:
        """Begin with none.

        Args:
            most: How many there may be in a minute.
        """
        self._most = most
        self._made: deque[float] = deque()
        """When; at most `most` of them."""
        self._replaced: float | None = None
        """When the change was made whose place the newest took, if it did."""

    def allows(self, facts: FlowFacts, now: float, *, spare: int) -> bool:
        """Return whether one more may be made, and some others are left after it."""
        while self._made and now - self._made[0] >= MINUTE:
            self._made.popleft()
        return len(self._made) - self._newest_is_unused(facts) + spare < self._most

    def take(self, facts: FlowFacts, now: float) -> None:
        """Count a change that is asked for now."""
        self._replaced = self._made.pop() if self._newest_is_unused(facts) else None
        self._made.append(now)

    def give_back(self) -> None:
        """The newest was refused: what it would have replaced is in force."""
        if self._made:
            self._made.pop()
        if self._replaced is not None:
            self._made.append(self._replaced)
            self._replaced = None

    def begin_anew(self) -> None:
        """Forget all: the clock was set back."""
        self._made.clear()
        self._replaced = None

    def since(self, now: float) -> tuple[float, ...]:
        """Return when changes of the last minute were made."""
        return tuple(at for at in tuple(self._made) if now - at < MINUTE)

    def _newest_is_unused(self, facts: FlowFacts) -> bool:
        """Whether no batch has had the gates of the newest change."""
        if not self._made:
            return False
        newest = self._made[-1]
        return not any(max(unit.ended_at, unit.started or 0.0) >= newest for unit in facts.units)
