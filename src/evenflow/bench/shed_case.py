"""One measured case of shed planning, with the same columns for all figures."""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]


def case_of(figure: str, network: str, **figures: Any) -> Case:
    """Return a case. What is not given is None.

    Args:
        figure: Of the paper, or `select`.
        network: Which network was planned for.
        figures: `method`; `x`, the place on the figure's axis; `seconds`; `plans`, of tables the
            entries; `lp_calls`; `error`, what a plan may miss; `paper`, what it says; and others.
    """
    empty = dict.fromkeys(("method", "x", "seconds", "plans", "lp_calls", "error", "paper"))
    return {"figure": figure, "network": network, **empty, **figures}
