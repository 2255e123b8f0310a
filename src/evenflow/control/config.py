"""Settings of the loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenflow.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """Valid once constructed."""

    cores: float = 1.0
    """Of the process, or of the cluster that it uses."""

    utilisation: float = 0.93
    """Share of the cores that batches may take. Near 1 a batch that is a little longer makes the
    next one longer too; far below it tuples are dropped that would have fitted."""

    tolerance: float = 0.08
    """How far load may be above the capacity before the loop acts: less than what `utilisation`
    leaves, or it acts too late; too little, and it acts on noise."""

    patience: float = 0.9
    """For how many batches load must have fallen before gates open wider. The first one shows it
    when it begins, so that below 1 the second one has begun, or is about to; less, and a single
    small batch opens them, more, and they open one batch later."""

    margin: float = 0.05
    """How far below the capacity load must be when gates open wider, so that they do not shut
    again at once. Load that just fits opens them after twice the patience."""

    gain: float = 0.04
    """What wider gates must bring to be worth a change, for the value that is kept already."""

    steadiness: float = 0.3
    """Where several units run: what others must bring, for the value that they keep, to be taken
    instead of those in force, narrower; and for what is lost, to be taken instead of those in
    force. Less, and gates go to and fro between queries, which all lose their windows; more, and
    what is kept is far from the best."""

    most_changes: int = 20
    """Per minute, of those that a batch has had. A few of them are kept back for surges and for
    opening at the end."""

    reserve: int = 6
    """How many of them."""

    warm_up: int = 3
    """Batches of a unit that say nothing: the first ones compile."""

    longest_warm_up: float = 30.0
    """Seconds for which others wait for a unit to warm up whose batches come rarely. Then it is
    reckoned with as calibrated."""

    stale: float = 5.0
    """Seconds after which facts are no longer acted on."""

    answer_within: float = 10.0
    """Seconds within which a change must have been made."""

    least_squeeze: float = 0.4
    """How small a part of the capacity is used at least when answers stay late."""

    dry_run: bool = False
    """Decide and record, but change nothing."""

    def is_rare(self, every: float) -> bool:
        """Return whether batches come so rarely that nobody can wait for a few of them."""
        return every * self.warm_up > self.longest_warm_up

    def __post_init__(self) -> None:
        for name in ("cores", "patience", "longest_warm_up", "stale", "answer_within"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} must be above 0, not {value}")
        for name in ("utilisation", "least_squeeze"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be above 0 and at most 1")
        for name in ("tolerance", "margin", "gain", "steadiness"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 0 and below 1")
        if not 1 <= self.reserve < self.most_changes:
            raise ConfigError("most_changes must be above reserve, and that at least 1")
        if self.warm_up < 0:
            raise ConfigError("warm_up must not be negative")
