"""The verdict on what open gates cost."""

from __future__ import annotations

from evenflow.bench.gates import verdict


def test_open_gates_may_add_a_tenth_to_a_batch() -> None:
    apart = {"overhead_least": -0.05, "overhead_most": 0.2}
    cases = [{"case": "a", "overhead": 0.099, **apart}, {"case": "b", "overhead": 0.1, **apart}]
    lines = verdict({"cases": cases})
    assert "add 9.9% to a batch (-5.0% to 20.0% by round)" in lines[0]
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["met", "missed"]
