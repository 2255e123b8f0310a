"""The verdict on what open gates cost."""

from __future__ import annotations

from evenflow.bench.gates import verdict


def test_open_gates_may_add_a_tenth_to_a_batch() -> None:
    cases = [{"case": "a", "overhead": 0.099}, {"case": "b", "overhead": 0.1}]
    lines = verdict({"cases": cases})
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["met", "missed"]
