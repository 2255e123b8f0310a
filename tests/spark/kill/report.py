"""What came of kills: answers lost and repeated, counters that are wrong."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """What came of a case."""

    kills: list[str]
    missed: list[str]
    """Points that were not reached; the flow was killed a moment later."""
    expected: int = 0
    lost: int = 0
    repeated: int = 0
    counters_wrong: int = 0
    details: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Add another case."""
        self.kills += other.kills
        self.missed += other.missed
        self.expected += other.expected
        self.lost += other.lost
        self.repeated += other.repeated
        self.counters_wrong += other.counters_wrong
        self.details += other.details

    def __str__(self) -> str:
        """One line."""
        return (
            f"kills {len(self.kills)}, answers expected {self.expected}, lost {self.lost}, "
            f"repeated {self.repeated}, counters wrong {self.counters_wrong}"
        )
