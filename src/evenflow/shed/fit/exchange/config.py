"""Settings of a node of `d-fit`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenflow.errors import ConfigError
from evenflow.shed.fit.tree import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class FitNodeConfig:
    """Settings of one node. Valid once constructed."""

    epsilon: float
    """Share of the optimum that may be lost. Only the root's counts."""
    max_rates: Mapping[str, float] = field(default_factory=dict)
    """By gate on an input arc. Only the root's count; operators that move can make another one."""
    most_entries: int = MOST_ENTRIES
    """Of a table; beyond it, the root chooses coarser terms."""
    retry_after: float = 1.0
    """Seconds before a notice without a receipt is sent again. Choose above the usual round trip,
    or every notice is sent twice; far above it, a lost one holds up the whole tree."""
    tolerance: float = 0.0
    """Share of a score by which a parent may be wrong after a change; the same for all nodes. 0
    sends every entry that differs. More sends fewer, and then every link on the way from a leaf to
    the root may cost plans a factor of (1 - tolerance) / (1 + tolerance)."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon < 1.0:
            raise ConfigError(f"epsilon must be 0 or more and below 1, not {self.epsilon}")
        if not 0.0 <= self.tolerance < 1.0:
            raise ConfigError(f"tolerance must be 0 or more and below 1, not {self.tolerance}")
        if self.most_entries < 1:
            raise ConfigError(f"most_entries must be 1 or more, not {self.most_entries}")
        if not self.retry_after > 0.0:
            raise ConfigError(f"retry_after must be above 0, not {self.retry_after}")
