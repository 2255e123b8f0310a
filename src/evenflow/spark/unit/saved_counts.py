"""What a unit has counted, saved with every batch: after the last and after the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.spark.state.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Collection

    from evenflow.spark.state.directory import UnitDirectory


def save_counts(directory: UnitDirectory, batch: int, counted: dict[str, Any]) -> None:
    """Save what was counted up to a batch; what was before it stays, for it may be done again."""
    known = read_sealed(directory.counts) or {}
    kept = {n: c for n, c in known.items() if int(n) == batch - 1}
    write_sealed(directory.counts, kept | {str(batch): counted})


def saved_counts(directory: UnitDirectory, batch: int) -> dict[str, Any]:
    """Return what was counted up to a batch.

    Raises:
        StateError: The file is damaged.
    """
    known = read_sealed(directory.counts) or {}
    saved: dict[str, Any] = known.get(str(batch), _nothing(None))
    return saved


def forget_failures(directory: UnitDirectory, delivering: Collection[str]) -> None:
    """Forget what took queries out of service: the manifest has it, and they may come back."""
    known = read_sealed(directory.counts) or {}
    over = [
        (saved["failing"], query)
        for saved in known.values()
        for query in saved["failing"]
        if query not in delivering
    ]
    for failing, query in over:
        del failing[query]
    if over:
        write_sealed(directory.counts, known)


def begin_behind(directory: UnitDirectory, before_us: int | None, after_us: int | None) -> None:
    """Save what was read before a unit without windows began: no watermark will tell it.

    Args:
        directory: The unit's, whose first batch is the donor's last.
        before_us: The newest event time read before that batch.
        after_us: The newest event time read.
    """
    write_sealed(directory.counts, {"-1": _nothing(before_us), "0": _nothing(after_us)})


def _nothing(read_us: int | None) -> dict[str, Any]:
    """Return what is saved of a unit that has counted nothing."""
    nothing: dict[str, Any] = {"settled": {}, "answered": {}, "failing": {}}
    return nothing | {"narrow": False, "read_us": read_us}
