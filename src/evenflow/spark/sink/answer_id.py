"""Ids by which readers drop answers that come twice.

A batch that was cut off is done again: the same unit, the same number, the same tuples, so the same
answers. But they come in another order, and sums of doubles may differ in their last digits,
because they were added in another order. So an answer's id is made of where it comes from, of what
it says apart from doubles, and of its place among answers that say the same; by the size of their
doubles, which no last digit changes.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from evenflow.spark.sink.files import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_BYTES = 16


def answer_ids(rows: Sequence[Mapping[str, Any]], origin: str) -> list[str]:
    """Return an id per answer: the same for the same answers in any order, never one twice.

    Args:
        rows: The answers of a batch.
        origin: State, query, unit and batch.
    """
    texts = [json_text(_without_doubles(row)) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: (texts[i], *_doubles(rows[i])))
    ids = [""] * len(rows)
    before, place = None, 0
    for index in order:
        place = place + 1 if texts[index] == before else 0
        before = texts[index]
        said = f"{origin}\n{place}\n{before}".encode()
        ids[index] = hashlib.blake2b(said, digest_size=_BYTES).hexdigest()
    return ids


def _without_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_doubles(each) for name, each in value.items()}
    return None if isinstance(value, float) else value


def _doubles(value: Any) -> Iterator[tuple[bool, bool, float]]:
    """Yield the doubles of a row so that they can be ordered: NULL and NaN come last.

    Rows that say the same have as many, or differ in which are NULL.
    """
    if isinstance(value, dict):
        for each in value.values():
            yield from _doubles(each)
    elif isinstance(value, float):
        yield (False, value != value, 0.0 if value != value else value)  # noqa: PLR0124  # NaN
    elif value is None:
        yield (True, False, 0.0)
