"""Plain text tables for stdout: aligned, without colour, easy to cut and grep."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Cell = str | int | float | None


def text_table(
    headers: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int | None = None
) -> str:
    """Return rows under headers; columns of numbers are aligned to the right.

    Args:
        headers: One for each column.
        rows: Cells, as many as headers.
        digits: How many digits of a float count; by default small ones have one decimal.
    """
    texts = [[cell_text(cell, digits) for cell in row] for row in rows]
    widths = [
        max([len(header), *(len(row[i]) for row in texts)]) for i, header in enumerate(headers)
    ]
    right = [
        bool(rows) and all(row[i] is None or isinstance(row[i], int | float) for row in rows)
        for i in range(len(headers))
    ]
    lines = [
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(headers), *texts]
    ]
    return "\n".join(lines)


def short(text: str, most: int) -> str:
    """Return a text, or its beginning, in at most so many characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def cell_text(value: Cell, digits: int | None = None) -> str:
    """Return a value as people read it: 1,234,567; 12.3; - for nothing."""
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if digits is not None:
        return f"{value:,.{digits}g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def percent(share: float) -> str:
    """Return a share as people read it. What is not everything is not called 100 %."""
    return f"{share:.2%}" if 0.995 <= share < 1 else f"{share:.0%}"
